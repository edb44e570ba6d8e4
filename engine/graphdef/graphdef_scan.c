/* graphdef_scan.c - what is looked at before protobuf-c reads.
 *
 * protobuf-c recurses as deep as the bytes say, takes memory before it knows
 * what for, merges messages given twice, and cuts a string at its first NUL. So
 * every file is walked first, with a stack of our own and the descriptors that
 * protoc-c generates: afterwards unpacking can fail for want of memory only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graphdef/graphdef_impl.h"

#include <limits.h>
#include <string.h>

/* Unpacked, a file takes at most MEMORY_BASE bytes and MEMORY_FACTOR for each
 * of its own: nodes of real graphs take 5 to 10. */
enum { MAX_DEPTH = 100, MEMORY_FACTOR = 16 };
static const uint64_t MEMORY_BASE = (uint64_t)512 << 20;

enum { VARINT = 0, FIXED64 = 1, PREFIXED = 2, FIXED32 = 5 };

typedef struct level {
  const ProtobufCMessageDescriptor *type;
  const uint8_t *end;
  uint64_t seen; /* by field index: those that may come once and have come */
} level;

typedef struct scan {
  const uint8_t *begin, *at;
  uint64_t memory; /* what unpacking will take */
  uint64_t limit;
  int depth; /* levels below the first */
  level stack[MAX_DEPTH];
} scan;

/* One field as it stands in the file. */
typedef struct field {
  uint32_t number;
  int wire;
  uint64_t value;      /* of a PREFIXED one: its length */
  const uint8_t *body; /* of a PREFIXED one */
} field;

static td_status *bad(const scan *s, const char *what) {
  return td_error(TD_INVALID_ARGUMENT, "not a readable %s: byte %zu: %s",
                  s->stack[0].type->short_name, (size_t)(s->at - s->begin),
                  what);
}

/* ---- the wire ------------------------------------------------------------ */

/* Of at most `longest` bytes: what protobuf-c reads. */
static bool read_varint(scan *s, const uint8_t *end, int longest,
                        uint64_t *out) {
  uint64_t v = 0;
  for (int i = 0; i < longest && s->at < end; i++) {
    uint8_t byte = *s->at++;
    v |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (!(byte & 0x80)) {
      *out = v;
      return true;
    }
  }
  return false;
}

static bool skip(scan *s, const uint8_t *end, uint64_t bytes) {
  if ((uint64_t)(end - s->at) < bytes) return false;
  s->at += bytes;
  return true;
}

static td_status *read_field(scan *s, const uint8_t *end, field *f) {
  uint64_t tag;
  if (!read_varint(s, end, 5, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
    return bad(s, "no field number");
  *f = (field){.number = (uint32_t)(tag >> 3), .wire = (int)(tag & 7)};
  switch (f->wire) {
  case VARINT:
    if (!read_varint(s, end, 10, &f->value))
      return bad(s, "a number is cut off");
    return NULL;
  case FIXED64:
  case FIXED32:
    if (!skip(s, end, f->wire == FIXED64 ? 8 : 4))
      return bad(s, "a number is cut off");
    return NULL;
  case PREFIXED:
    if (!read_varint(s, end, 5, &f->value) || f->value > INT_MAX)
      return bad(s, "no length");
    f->body = s->at;
    if (!skip(s, end, f->value))
      return bad(s, "a field reaches beyond its message");
    return NULL;
  default:
    return bad(s, "a field of no known kind");
  }
}

/* ---- fields -------------------------------------------------------------- */

static int wire_of(ProtobufCType type) {
  switch (type) {
  case PROTOBUF_C_TYPE_SFIXED32:
  case PROTOBUF_C_TYPE_FIXED32:
  case PROTOBUF_C_TYPE_FLOAT:
    return FIXED32;
  case PROTOBUF_C_TYPE_SFIXED64:
  case PROTOBUF_C_TYPE_FIXED64:
  case PROTOBUF_C_TYPE_DOUBLE:
    return FIXED64;
  case PROTOBUF_C_TYPE_STRING:
  case PROTOBUF_C_TYPE_BYTES:
  case PROTOBUF_C_TYPE_MESSAGE:
    return PREFIXED;
  default:
    return VARINT;
  }
}

/* The bits of a field that may come once; those of a oneof are one. */
static uint64_t bits_of(const ProtobufCMessageDescriptor *type,
                        const ProtobufCFieldDescriptor *d) {
  uint64_t bits = 0;
  for (unsigned i = 0; i < type->n_fields && i < 64; i++) {
    const ProtobufCFieldDescriptor *other = &type->fields[i];
    bool same_oneof = (d->flags & other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
                      d->quantifier_offset == other->quantifier_offset;
    if (other == d || same_oneof) bits |= (uint64_t)1 << i;
  }
  return bits;
}

static td_status *check_once(scan *s, const ProtobufCFieldDescriptor *d) {
  level *l = &s->stack[s->depth];
  uint64_t bits = bits_of(l->type, d);
  if (l->seen & bits) return bad(s, "a field comes twice that may come once");
  l->seen |= bits;
  return NULL;
}

/* A packed list: whole elements, as many as the memory is counted for. */
static td_status *check_packed(scan *s, const field *f, int wire) {
  uint64_t n = 0;
  uint64_t size = wire == FIXED32 ? 4 : 8;
  if (wire != VARINT) {
    if (f->value % size) return bad(s, "a list ends within an element");
    n = f->value / size;
  } else if (f->value) {
    int run = 0; /* bytes of the number being passed */
    for (uint64_t i = 0; i < f->value; i++) {
      bool last = !(f->body[i] & 0x80);
      if (++run > 10) return bad(s, "a list holds a number of over 64 bits");
      if (last) run = 0;
      n += last;
    }
    if (run) return bad(s, "a list ends within an element");
  }
  s->memory += n * size;
  return NULL;
}

static td_status *enter(scan *s, const ProtobufCMessageDescriptor *type,
                        const field *f) {
  if (s->depth + 1 == MAX_DEPTH)
    return bad(s, "messages are nested more than 100 deep");
  s->at = f->body;
  s->memory += type->sizeof_message;
  s->stack[++s->depth] = (level){.type = type, .end = f->body + f->value};
  return NULL;
}

static td_status *check_known(scan *s, const ProtobufCFieldDescriptor *d,
                              const field *f) {
  int wire = wire_of(d->type);
  bool repeated = d->label == PROTOBUF_C_LABEL_REPEATED;
  if (!repeated) TD_TRY(check_once(s, d));
  if (repeated && wire != PREFIXED && f->wire == PREFIXED)
    return check_packed(s, f, wire);
  if (f->wire != wire) return bad(s, "a field is of another kind");
  if (d->type == PROTOBUF_C_TYPE_MESSAGE) return enter(s, d->descriptor, f);
  if (d->type == PROTOBUF_C_TYPE_STRING && memchr(f->body, 0, f->value))
    return bad(s, "a name holds a NUL");
  if (wire == PREFIXED) s->memory += f->value;
  return NULL;
}

static td_status *step(scan *s) {
  level *l = &s->stack[s->depth];
  field f = {0};
  if (s->at == l->end) {
    s->depth--;
    return NULL;
  }
  TD_TRY(read_field(s, l->end, &f));
  /* What protobuf-c notes about a field while it reads, and a pointer to it. */
  s->memory += 64;
  const ProtobufCFieldDescriptor *d =
      protobuf_c_message_descriptor_get_field(l->type, f.number);
  if (d)
    TD_TRY(check_known(s, d, &f));
  else
    s->memory += f.wire == PREFIXED ? f.value : 8; /* kept all the same */
  if (s->memory > s->limit)
    return bad(s, "it would take too much memory for its size");
  return NULL;
}

td_status *td_graphdef_scan(const ProtobufCMessageDescriptor *type,
                            const void *bytes, size_t len) {
  scan s = {.begin = len ? bytes : (const void *)""};
  s.at = s.begin;
  s.limit = MEMORY_BASE + (uint64_t)len * MEMORY_FACTOR;
  s.stack[0] = (level){.type = type, .end = s.begin + len};
  if (len > INT_MAX) return bad(&s, "it is larger than 2 GiB");
  while (s.depth >= 0) TD_TRY(step(&s));
  return NULL;
}

/* ---- protobuf-c, with our memory ----------------------------------------- */

typedef struct memory {
  td_arena *arena;
  bool failed;
} memory;

static void *memory_alloc(void *arg, size_t size) {
  memory *m = arg;
  void *p = td_arena_alloc(m->arena, size);
  if (!p) m->failed = true;
  return p;
}

static void memory_free(void *arg, void *p) {
  (void)arg;
  (void)p; /* goes with the arena */
}

td_status *td_graphdef_unpack(const ProtobufCMessageDescriptor *type,
                              td_arena *arena, const void *bytes, size_t len,
                              void *out) {
  memory mem = {.arena = arena};
  ProtobufCAllocator a = {memory_alloc, memory_free, &mem};
  TD_TRY(td_graphdef_scan(type, bytes, len));
  ProtobufCMessage *m = protobuf_c_message_unpack(type, &a, len, bytes);
  memcpy(out, &m, sizeof m);
  if (mem.failed) return td_oom();
  return m ? NULL
           : td_error(TD_INVALID_ARGUMENT, "not a readable %s",
                      type->short_name);
}

td_status *td_graphdef_pack(const ProtobufCMessage *m, char **bytes,
                            size_t *len) {
  size_t size = protobuf_c_message_get_packed_size(m);
  if (size > INT_MAX)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "a %s of %zu bytes: protobuf ends at 2 GiB",
                    m->descriptor->short_name, size);
  char *to = td_malloc(size);
  if (!to) return td_oom();
  *len = protobuf_c_message_pack(m, (uint8_t *)to);
  *bytes = to;
  return NULL;
}
