/* example_wire.c - fields, entries and lists of Examples.
 *
 * Lists are walked by *chunks*: the bytes of one string, or of some numbers,
 * packed or one alone. Walking is done twice, first with every check, so that
 * copying needs none. What libraries write is nearly always of one form, each
 * field once and in order: it is tried first (`quick`), and whatever is not of
 * that form is left to next_field.
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

/* ---- what is nearly always there ----------------------------------------- */

#define TAG(number) ((number) << 3 | LENGTH)

/* Takes a field of that tag with a length of one to three bytes, if it is that
 * which comes next. */
static inline bool quick(td_wire *w, int tag, td_bytes *out) {
  const uint8_t *at = w->at;
  size_t len, left = (size_t)(w->end - at);
  if (left < 2 || at[0] != tag) return false;
  if (TD_LIKELY(at[1] < 0x80)) {
    len = at[1];
    at += 2;
  } else if (left > 2 && at[2] < 0x80) {
    len = (size_t)(at[1] & 0x7f) | (size_t)at[2] << 7;
    at += 3;
  } else if (left > 3 && at[3] < 0x80) {
    len = (size_t)(at[1] & 0x7f) | (size_t)(at[2] & 0x7f) << 7 |
          (size_t)at[3] << 14;
    at += 4;
  } else {
    return false;
  }
  if (len > (size_t)(w->end - at)) return false;
  *out = (td_bytes){(const char *)at, len};
  w->at = at + len;
  return true;
}

/* The same, and nothing behind it. */
static inline bool quick_whole(td_bytes from, int tag, td_bytes *out) {
  td_wire w = wire_of(from);
  return quick(&w, tag, out) && w.at == w.end;
}

/* ---- entries ------------------------------------------------------------- */

static const uint8_t nothing[1];

void td_example_open(td_example_reader *r, td_bytes example,
                     td_example_map map) {
  r->map = (uint32_t)map;
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
  if (TD_LIKELY(quick(&w, TAG(1), key) && quick(&w, TAG(2), feature) &&
                w.at == w.end))
    return true;
  w = wire_of(entry);
  *key = *feature = (td_bytes){(const char *)nothing, 0};
  while (next_field(&w, &f)) {
    if (f.type == LENGTH && f.number == 1) *key = f.value;
    if (f.type == LENGTH && f.number == 2) *feature = f.value;
  }
  return !broken(&w);
}

bool td_example_next(td_example_reader *r, td_bytes *key, td_bytes *feature) {
  field f;
  if (TD_LIKELY(quick(&r->features, TAG(1), &f.value)))
    return read_entry(f.value, key, feature) || fail(&r->features);
  for (;;) {
    while (next_field(&r->features, &f)) {
      if (f.number != 1 || f.type != LENGTH) continue;
      return read_entry(f.value, key, feature) || fail(&r->features);
    }
    if (broken(&r->features)) return false;
    do {
      if (!next_field(&r->example, &f)) return false;
    } while (f.number != r->map || f.type != LENGTH);
    r->features = wire_of(f.value);
  }
}

void td_example_list_open(td_wire *list, td_bytes from) {
  *list = from.len ? wire_of(from) : (td_wire){nothing, nothing};
}

bool td_example_list_next(td_wire *list, td_bytes *feature) {
  field f;
  if (TD_LIKELY(quick(list, TAG(1), feature))) return true;
  while (next_field(list, &f)) {
    if (f.number != 1 || f.type != LENGTH) continue;
    *feature = f.value;
    return true;
  }
  return false;
}

bool td_example_list_broken(const td_wire *list) {
  return broken(list);
}

/* ---- lists --------------------------------------------------------------- */

/* A Feature that is one list, and of numbers one chunk. */
static bool open_quickly(td_bytes feature, td_example_value *v) {
  int tag = feature.len ? feature.at[0] : 0;
  td_bytes chunk;
  if (tag != TAG(TD_EXAMPLE_BYTES) && tag != TAG(TD_EXAMPLE_FLOATS) &&
      tag != TAG(TD_EXAMPLE_INTS))
    return false;
  if (!quick_whole(feature, tag, &v->from)) return false;
  v->kind = (td_example_kind)(tag >> 3);
  v->part = TD_EXAMPLE_LIST;
  v->count = 0;
  v->text = 0;
  if (v->kind == TD_EXAMPLE_BYTES || !quick_whole(v->from, TAG(1), &chunk))
    return true;
  v->from = chunk;
  v->part = TD_EXAMPLE_CHUNK;
  return true;
}

bool td_example_value_open(td_bytes feature, td_example_value *v) {
  td_wire w = wire_of(feature);
  field f;
  if (TD_LIKELY(open_quickly(feature, v))) return true;
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
  td_bytes alone; /* the one there is, until it was given */
  uint32_t kind;
} chunks;

static void chunks_open(chunks *c, const td_example_value *v) {
  c->feature = c->list = (td_wire){nothing, nothing};
  c->alone = (td_bytes){NULL, 0};
  c->kind = (uint32_t)v->kind;
  if (v->part == TD_EXAMPLE_CHUNK)
    c->alone = v->from;
  else if (v->part == TD_EXAMPLE_LIST)
    c->list = wire_of(v->from);
  else
    c->feature = wire_of(v->from);
}

static bool is_chunk(const chunks *c, const field *f) {
  if (f->number != 1) return false;
  return f->type == LENGTH ||
         (f->type == FIXED32 && c->kind == TD_EXAMPLE_FLOATS) ||
         (f->type == VARINT && c->kind == TD_EXAMPLE_INTS);
}

static bool next_field_chunk(chunks *c, td_bytes *out) {
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

static inline bool next_chunk(chunks *c, td_bytes *out) {
  if (c->alone.at) {
    *out = c->alone;
    c->alone.at = NULL;
    return true;
  }
  if (quick(&c->list, TAG(1), out)) return true;
  return (c->list.at != c->list.end || c->feature.at != c->feature.end) &&
         next_field_chunk(c, out);
}

static inline uint64_t word_at(const char *at, size_t len) {
  uint64_t word = 0;
  memcpy(&word, at, len);
  return word;
}

/* The highest bits of the bytes of a word: of a varint all but the last have
 * it. */
#define HIGH UINT64_C(0x8080808080808080)

/* Are there as many bits set in a row as no varint has? */
static bool too_long(uint32_t bits) {
  bits &= bits >> 1;              /* 2 */
  bits &= bits >> 2;              /* 4 */
  bits &= bits >> 4;              /* 8 */
  return (bits & bits >> 2) != 0; /* 10 */
}

/* How many varints the bytes are; -1 when they are not whole ones. Eight bytes
 * at a time: a bit for each of the last 24 says whether a varint goes on. */
static int64_t count_varints(td_bytes b) {
  const uint64_t gather = UINT64_C(0x0102040810204080);
  const uint64_t ones = UINT64_C(0x0101010101010101);
  int64_t n = (int64_t)b.len;
  uint32_t on = 0;
  for (size_t i = 0; i < b.len; i += WORD) {
    size_t here = b.len - i < WORD ? b.len - i : WORD;
    uint64_t high = word_at(b.at + i, here) & HIGH;
    if (!high && !on) continue;
    n -= (int64_t)((high >> 7) * ones >> 56);
    on = (on >> 8 | (uint32_t)((high >> 7) * gather >> 56) << 16) & 0xffffff;
    if (on && too_long(on)) return -1;
  }
  return b.len && (uint8_t)b.at[b.len - 1] >= 0x80 ? -1 : n;
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

/* A varint of up to ten bytes, one by one. Of bytes that were counted. */
static const char *take_long(const char *at, int64_t *v) {
  uint64_t sum = 0;
  for (int shift = 0;; shift += 7) {
    uint8_t byte = (uint8_t)*at++;
    sum |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  *v = (int64_t)sum;
  return at;
}

/* The low seven bits of each byte of a word, pushed together. */
static uint64_t press(uint64_t w) {
  w = (w & UINT64_C(0x7f007f007f007f00)) >> 1 |
      (w & UINT64_C(0x007f007f007f007f));
  w = (w & UINT64_C(0x3fff00003fff0000)) >> 2 |
      (w & UINT64_C(0x00003fff00003fff));
  return (w & UINT64_C(0x0fffffff00000000)) >> 4 |
         (w & UINT64_C(0x000000000fffffff));
}

/* The varint at the start of a word; the word's bytes that it has, 0 when it
 * goes on behind. */
static int take_short(uint64_t w, int64_t *v) {
  uint64_t ends = ~w & HIGH;
  if (!ends) return 0;
  uint64_t last = ends & -ends;
  *v = (int64_t)press(w & (last | (last - 1)));
  return (__builtin_ctzll(last) + 1) / 8;
}

static int64_t *put_varints(td_bytes b, int64_t *to) {
  const char *at = b.at, *end = b.at + b.len;
  while (end - at >= WORD) {
    uint64_t w = word_at(at, WORD);
    int len = take_short(w, to);
    if (TD_LIKELY(w & HIGH)) {
      at = len ? at + len : take_long(at, to);
      to++;
      continue;
    }
    for (int i = 0; i < WORD; i++) *to++ = at[i];
    at += WORD;
  }
  while (at < end) at = take_long(at, to++);
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
