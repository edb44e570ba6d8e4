/* example_wire.c - fields, entries and lists of Examples.
 *
 * Lists are walked by *chunks*: the bytes of one string, or of some numbers,
 * packed or one alone. Walking is done twice, first with every check, so that
 * copying needs none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/example_wire.h"

#include <string.h>

/* ---- fields -------------------------------------------------------------- */

enum { VARINT, FIXED64, LENGTH, GROUP, GROUP_END, FIXED32 };
enum { LONGEST = 10 /* bytes of a varint */, DEEPEST = 100 /* groups */ };
enum { WORD = 8 /* bytes looked at together */ };

/* A field: its number, and its bytes. Those of a varint are as they stand. */
typedef struct field {
  uint32_t number;
  int type;
  td_bytes value;
} field;

static td_wire wire_of(td_bytes b) {
  const uint8_t *at = (const uint8_t *)b.at;
  return (td_wire){at, at + b.len};
}

static bool broken(const td_wire *w) {
  return !w->at;
}

static bool fail(td_wire *w) {
  w->at = w->end = NULL;
  return false;
}

static bool read_varint(td_wire *w, uint64_t *v) {
  const uint8_t *at = w->at;
  if (TD_LIKELY(at < w->end && *at < 0x80)) {
    *v = *at;
    w->at++;
    return true;
  }
  *v = 0;
  for (int i = 0; i < LONGEST && at < w->end; i++) {
    *v |= (uint64_t)(*at & 0x7f) << 7 * i;
    if (*at++ < 0x80) {
      w->at = at;
      return true;
    }
  }
  return fail(w);
}

static bool take(td_wire *w, uint64_t len, td_bytes *out) {
  if (len > (uint64_t)(w->end - w->at)) return fail(w);
  *out = (td_bytes){(const char *)w->at, (size_t)len};
  w->at += len;
  return true;
}

/* Tag and value; a group's ends have no value. */
static bool read_field(td_wire *w, field *f) {
  uint64_t tag, len = 0;
  if (!read_varint(w, &tag)) return false;
  if (tag > UINT32_MAX || tag >> 3 == 0) return fail(w);
  f->number = (uint32_t)(tag >> 3);
  f->type = tag & 7;
  f->value = (td_bytes){(const char *)w->at, 0};
  switch (f->type) {
  case VARINT:
    if (!read_varint(w, &len)) return false;
    f->value.len = (size_t)((const char *)w->at - f->value.at);
    return true;
  case FIXED64:
    return take(w, 8, &f->value);
  case FIXED32:
    return take(w, 4, &f->value);
  case LENGTH:
    return read_varint(w, &len) && take(w, len, &f->value);
  case GROUP:
  case GROUP_END:
    return true;
  default:
    return fail(w);
  }
}

/* Behind the end of a group whose start was read. */
static bool skip_group(td_wire *w, uint32_t number) {
  uint32_t open[DEEPEST];
  int depth = 1;
  field f;
  open[0] = number;
  while (depth > 0) {
    if (w->at == w->end || !read_field(w, &f)) return fail(w);
    if (f.type == GROUP && depth == DEEPEST) return fail(w);
    if (f.type == GROUP) open[depth++] = f.number;
    if (f.type == GROUP_END && open[--depth] != f.number) return fail(w);
  }
  return true;
}

/* The next field that is no group; false at the end, and when the bytes are
 * broken. */
static bool next_field(td_wire *w, field *f) {
  while (w->at != w->end) {
    if (!read_field(w, f)) return false;
    if (TD_LIKELY(f->type != GROUP && f->type != GROUP_END)) return true;
    if (f->type == GROUP_END) return fail(w);
    if (!skip_group(w, f->number)) return false;
  }
  return false;
}

/* ---- entries ------------------------------------------------------------- */

static const uint8_t nothing[1];

void td_example_open(td_example_reader *r, td_bytes example) {
  r->example = wire_of(example);
  if (!example.len) r->example = (td_wire){nothing, nothing};
  r->features = (td_wire){nothing, nothing};
}

bool td_example_broken(const td_example_reader *r) {
  return broken(&r->example) || broken(&r->features);
}

static bool read_entry(td_bytes entry, td_bytes *key, td_bytes *feature) {
  td_wire w = wire_of(entry);
  field f;
  *key = *feature = (td_bytes){(const char *)nothing, 0};
  while (next_field(&w, &f)) {
    if (f.type == LENGTH && f.number == 1) *key = f.value;
    if (f.type == LENGTH && f.number == 2) *feature = f.value;
  }
  return !broken(&w);
}

bool td_example_next(td_example_reader *r, td_bytes *key, td_bytes *feature) {
  field f;
  for (;;) {
    while (next_field(&r->features, &f)) {
      if (f.number != 1 || f.type != LENGTH) continue;
      return read_entry(f.value, key, feature) || fail(&r->features);
    }
    if (broken(&r->features)) return false;
    do {
      if (!next_field(&r->example, &f)) return false;
    } while (f.number != 1 || f.type != LENGTH);
    r->features = wire_of(f.value);
  }
}

/* ---- lists --------------------------------------------------------------- */

bool td_example_value_open(td_bytes feature, td_example_value *v) {
  td_wire w = wire_of(feature);
  field f;
  *v = (td_example_value){.from = {feature.at, 0}};
  for (const uint8_t *before = w.at; next_field(&w, &f); before = w.at) {
    bool list = f.type == LENGTH && f.number >= TD_EXAMPLE_BYTES &&
                f.number <= TD_EXAMPLE_INTS;
    if (!list || v->kind == (td_example_kind)f.number) continue;
    v->kind = (td_example_kind)f.number;
    v->from.at = (const char *)before;
  }
  v->from.len = (size_t)(feature.at + feature.len - v->from.at);
  return !broken(&w);
}

/* A walk over the chunks of a value. */
typedef struct chunks {
  td_wire feature, list;
  uint32_t kind;
} chunks;

static void chunks_open(chunks *c, const td_example_value *v) {
  c->feature = wire_of(v->from);
  c->list = (td_wire){nothing, nothing};
  c->kind = (uint32_t)v->kind;
}

static bool is_chunk(const chunks *c, const field *f) {
  if (f->number != 1) return false;
  return f->type == LENGTH ||
         (f->type == FIXED32 && c->kind == TD_EXAMPLE_FLOATS) ||
         (f->type == VARINT && c->kind == TD_EXAMPLE_INTS);
}

static bool next_chunk(chunks *c, td_bytes *out) {
  field f;
  for (;;) {
    while (next_field(&c->list, &f))
      if (is_chunk(c, &f)) {
        *out = f.value;
        return true;
      }
    if (broken(&c->list)) return false;
    do {
      if (!next_field(&c->feature, &f)) return false;
    } while (f.number != c->kind || f.type != LENGTH);
    c->list = wire_of(f.value);
  }
}

static uint64_t high_bits(const char *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word & UINT64_C(0x8080808080808080);
}

/* How many varints the bytes are; -1 when they are not whole ones. */
static int64_t count_varints(td_bytes b) {
  int64_t n = 0;
  int run = 0;
  for (size_t i = 0; i < b.len;) {
    size_t here = b.len - i < WORD ? b.len - i : WORD;
    if (here == WORD && run == 0 && !high_bits(b.at + i)) {
      n += WORD;
      i += WORD;
      continue;
    }
    for (size_t end = i + here; i < end; i++) {
      if (++run > LONGEST) return -1;
      if ((uint8_t)b.at[i] < 0x80) n++, run = 0;
    }
  }
  return run ? -1 : n;
}

bool td_example_value_count(td_example_value *v) {
  chunks c;
  td_bytes b;
  int64_t n;
  chunks_open(&c, v);
  v->count = 0;
  v->text = 0;
  while (next_chunk(&c, &b)) {
    n = 1;
    if (v->kind == TD_EXAMPLE_BYTES) v->text += b.len;
    if (v->kind == TD_EXAMPLE_FLOATS)
      n = b.len % sizeof(float) ? -1 : (int64_t)(b.len / sizeof(float));
    if (v->kind == TD_EXAMPLE_INTS) n = count_varints(b);
    if (n < 0) return false;
    v->count += n;
  }
  return !broken(&c.list) && !broken(&c.feature);
}

void td_example_floats(const td_example_value *v, float *to) {
  chunks c;
  td_bytes b;
  chunks_open(&c, v);
  while (next_chunk(&c, &b)) {
    if (b.len) memcpy(to, b.at, b.len);
    to += b.len / sizeof(float);
  }
}

/* Of bytes that were counted. */
static const char *take_varint(const char *at, int64_t *v) {
  uint64_t sum = 0;
  for (int shift = 0;; shift += 7) {
    uint8_t byte = (uint8_t)*at++;
    sum |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  *v = (int64_t)sum;
  return at;
}

static int64_t *put_varints(td_bytes b, int64_t *to) {
  const char *at = b.at, *end = b.at + b.len;
  while (at < end) {
    if (end - at >= WORD && !high_bits(at)) {
      for (int i = 0; i < WORD; i++) *to++ = at[i];
      at += WORD;
      continue;
    }
    at = take_varint(at, to++);
  }
  return to;
}

void td_example_ints(const td_example_value *v, int64_t *to) {
  chunks c;
  td_bytes b;
  chunks_open(&c, v);
  while (next_chunk(&c, &b)) to = put_varints(b, to);
}

void td_example_strings(const td_example_value *v, const char *base, char *text,
                        uint64_t *ends) {
  chunks c;
  td_bytes b;
  chunks_open(&c, v);
  while (next_chunk(&c, &b)) {
    if (b.len) memcpy(text, b.at, b.len);
    text += b.len;
    *ends++ = (uint64_t)(text - base);
  }
}
