/* safetensors_header.c - what a .safetensors file says of its tensors.
 *
 * A parser of this one form of JSON, of fixed depth: a tree of any JSON would
 * take many times the memory of a hostile header. A record stands for at least
 * RECORD_TEXT bytes of text, so that there is room for all of them from the
 * beginning.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/safetensors_header.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/utf8.h"

/* What the shortest tensor takes, with its comma. */
#define RECORD_TEXT                                                            \
  (sizeof "\"\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}," - 1)

/* clang-format off */
const td_safetensors_kind td_safetensors_kinds[TD_SAFETENSORS_KINDS] = {
  {"BOOL", TD_BOOL, 8},
  {"F4", TD_INVALID, 4},
  {"F6_E2M3", TD_INVALID, 6},     {"F6_E3M2", TD_INVALID, 6},
  {"U8", TD_UINT8, 8},            {"I8", TD_INT8, 8},
  {"F8_E5M2", TD_INVALID, 8},     {"F8_E4M3", TD_INVALID, 8},
  {"F8_E8M0", TD_INVALID, 8},     {"F8_E4M3FNUZ", TD_INVALID, 8},
  {"F8_E5M2FNUZ", TD_INVALID, 8},
  {"I16", TD_INT16, 16},          {"U16", TD_UINT16, 16},
  {"F16", TD_FLOAT16, 16},        {"BF16", TD_BFLOAT16, 16},
  {"I32", TD_INT32, 32},          {"U32", TD_UINT32, 32},
  {"F32", TD_FLOAT32, 32},        {"C64", TD_COMPLEX64, 64},
  {"F64", TD_FLOAT64, 64},        {"I64", TD_INT64, 64},
  {"U64", TD_UINT64, 64},
};
/* clang-format on */

typedef struct header_text {
  td_safetensors_header *h;
  char *at, *end;
  const char *path;
  const char *tensor; /* which one it reads, or NULL */
} header_text;

static td_status *corrupt(const header_text *p, const char *what) {
  return td_error(TD_DATA_LOSS,
                  "'%s' is no readable .safetensors file: %s%.200s%s%s "
                  "(byte %zu of its header)",
                  p->path, p->tensor ? "tensor '" : "",
                  p->tensor ? p->tensor : "", p->tensor ? "': " : "", what,
                  (size_t)(p->at - p->h->text));
}

/* ---- JSON ---------------------------------------------------------------- */

static void skip_space(header_text *p) {
  while (p->at < p->end && *p->at && strchr(" \t\r\n", *p->at)) p->at++;
}

static bool eat(header_text *p, char c) {
  skip_space(p);
  if (p->at == p->end || *p->at != c) return false;
  p->at++;
  return true;
}

static td_status *expect(header_text *p, char c) {
  char what[] = "'x' is missing";
  what[1] = c;
  return eat(p, c) ? NULL : corrupt(p, what);
}

/* Goes past the comma to the next of what stands between brackets; false at the
 * closing one. */
static td_status *more(header_text *p, char close, bool first, bool *is_more) {
  *is_more = !eat(p, close);
  return *is_more && !first ? expect(p, ',') : NULL;
}

static bool eat_hex(header_text *p, uint32_t *c) {
  static const char digits[] = "0123456789abcdef";
  *c = 0;
  if (p->end - p->at < 4) return false;
  for (int i = 0; i < 4; i++) {
    int low = *p->at >= 'A' && *p->at <= 'F' ? *p->at + 32 : *p->at;
    const char *digit = low ? strchr(digits, low) : NULL;
    if (!digit) return false;
    *c = *c << 4 | (uint32_t)(digit - digits);
    p->at++;
  }
  return true;
}

/* What follows \u; two halves make one character. */
static bool eat_character(header_text *p, uint32_t *c) {
  uint32_t low;
  if (!eat_hex(p, c) || *c == 0) return false;
  if (*c < 0xD800 || *c > 0xDFFF) return true;
  if (*c > 0xDBFF || p->end - p->at < 2 || memcmp(p->at, "\\u", 2))
    return false;
  p->at += 2;
  if (!eat_hex(p, &low) || low < 0xDC00 || low > 0xDFFF) return false;
  *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
  return true;
}

/* Behind a backslash; appends what it stands for at *to. */
static bool eat_escape(header_text *p, char **to) {
  static const char short_of[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
  uint32_t c;
  if (p->at == p->end) return false;
  char e = *p->at++;
  for (const char *s = short_of; *s; s += 2)
    if (*s == e) {
      *(*to)++ = s[1];
      return true;
    }
  if (e != 'u' || !eat_character(p, &c)) return false;
  *to += td_utf8_put(c, *to);
  return true;
}

/* A string, unescaped in its place, which it never outgrows. */
static td_status *parse_string(header_text *p, char **out) {
  TD_TRY(expect(p, '"'));
  char *to = *out = p->at;
  for (;;) {
    if (p->at == p->end) return corrupt(p, "a string does not end");
    char c = *p->at++;
    if (c == '"') break;
    if ((unsigned char)c < 0x20)
      return corrupt(p, "a control character in a string");
    if (c != '\\')
      *to++ = c;
    else if (!eat_escape(p, &to))
      return corrupt(p, "a wrong escape in a string");
  }
  *to = '\0';
  if (td_utf8_valid(*out, (size_t)(to - *out))) return NULL;
  return corrupt(p, "a string is not UTF-8");
}

static td_status *parse_size(header_text *p, uint64_t *out) {
  uint64_t v = 0;
  skip_space(p);
  const char *start = p->at;
  for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
    if (__builtin_mul_overflow(v, 10, &v) ||
        __builtin_add_overflow(v, (uint64_t)(*p->at - '0'), &v) ||
        v > INT64_MAX)
      return corrupt(p, "a size that is too large");
  if (p->at == start) return corrupt(p, "a size is no whole number >= 0");
  if (*start == '0' && p->at > start + 1)
    return corrupt(p, "a size begins with 0");
  *out = v;
  return NULL;
}

/* ---- a tensor ------------------------------------------------------------ */

/* A tensor while it is read. */
typedef struct fields {
  td_safetensors_record record;
  td_shape shape;
  uint64_t end;
} fields;

static td_status *parse_dtype(header_text *p, fields *r) {
  char *name;
  TD_TRY(parse_string(p, &name));
  for (uint8_t i = 0; i < TD_SAFETENSORS_KINDS; i++)
    if (!strcmp(td_safetensors_kinds[i].name, name)) {
      r->record.kind = i;
      return NULL;
    }
  return td_error(TD_UNIMPLEMENTED,
                  "'%s': tensor '%.200s' has dtype '%.40s', of which nothing "
                  "is known",
                  p->path, p->tensor, name);
}

static td_status *too_many_sizes(const header_text *p) {
  return td_error(TD_UNIMPLEMENTED,
                  "'%s': tensor '%.200s' has more than the %d dimensions a "
                  "tensor may have",
                  p->path, p->tensor, TD_MAX_RANK);
}

static td_status *parse_shape(header_text *p, fields *r) {
  int64_t dim[TD_MAX_RANK];
  int rank = 0;
  bool is_more = true;
  uint64_t size;
  skip_space(p);
  r->record.shape = (uint32_t)(p->at - p->h->text);
  TD_TRY(expect(p, '['));
  for (;;) {
    TD_TRY(more(p, ']', rank == 0, &is_more));
    if (!is_more) break;
    if (rank == TD_MAX_RANK) return too_many_sizes(p);
    TD_TRY(parse_size(p, &size));
    dim[rank++] = (int64_t)size;
  }
  r->shape = td_shape_of(rank, dim);
  return NULL;
}

static td_status *parse_offsets(header_text *p, fields *r) {
  TD_TRY(expect(p, '['));
  TD_TRY(parse_size(p, &r->record.begin));
  TD_TRY(expect(p, ','));
  TD_TRY(parse_size(p, &r->end));
  return expect(p, ']');
}

static td_status *parse_field(header_text *p, fields *r, unsigned *seen) {
  static const struct {
    const char *key;
    td_status *(*parse)(header_text *p, fields *r);
  } keys[] = {{"dtype", parse_dtype},
              {"shape", parse_shape},
              {"data_offsets", parse_offsets}};
  char *key;
  TD_TRY(parse_string(p, &key));
  TD_TRY(expect(p, ':'));
  for (unsigned i = 0; i < TD_COUNT(keys); i++) {
    if (strcmp(keys[i].key, key)) continue;
    if (*seen & 1u << i) return corrupt(p, "a key comes twice");
    *seen |= 1u << i;
    return keys[i].parse(p, r);
  }
  return corrupt(p, "a key that is not dtype, shape or data_offsets");
}

/* Its bytes are what dtype and shape make, and lie within the data. */
static td_status *check_size(const header_text *p, fields *r, uint64_t data) {
  const td_safetensors_kind *kind = &td_safetensors_kinds[r->record.kind];
  int64_t count = td_shape_count(&r->shape);
  td_shape_text text;
  uint64_t bits;
  if (r->end < r->record.begin || r->end > data)
    return td_error(TD_DATA_LOSS,
                    "'%s': tensor '%.200s' lies from byte %llu to %llu of "
                    "%llu: the file is broken or cut short",
                    p->path, p->tensor, (unsigned long long)r->record.begin,
                    (unsigned long long)r->end, (unsigned long long)data);
  r->record.size = r->end - r->record.begin;
  if (count >= 0 &&
      !__builtin_mul_overflow((uint64_t)count, (uint64_t)kind->bits, &bits) &&
      bits % 8 == 0 && bits / 8 == r->record.size)
    return NULL;
  return td_error(TD_DATA_LOSS,
                  "'%s': tensor '%.200s' has %llu bytes, which do not make %s "
                  "%s",
                  p->path, p->tensor, (unsigned long long)r->record.size,
                  kind->name, td_shape_str(&r->shape, &text));
}

static td_status *parse_tensor(header_text *p, uint64_t data) {
  td_safetensors_header *h = p->h;
  fields r = {0};
  unsigned seen = 0;
  bool is_more = true;
  r.record.name = (uint32_t)(p->tensor - h->text);
  TD_TRY(expect(p, '{'));
  for (bool first = true;; first = false) {
    TD_TRY(more(p, '}', first, &is_more));
    if (!is_more) break;
    TD_TRY(parse_field(p, &r, &seen));
  }
  if (seen != 7) return corrupt(p, "dtype, shape or data_offsets is missing");
  TD_TRY(check_size(p, &r, data));
  h->tensors[h->n++] = r.record; /* within: it took RECORD_TEXT bytes */
  return NULL;
}

/* ---- metadata ------------------------------------------------------------ */

static int by_text(const void *a, const void *b, void *text) {
  return strcmp((char *)text + *(const uint32_t *)a,
                (char *)text + *(const uint32_t *)b);
}

/* Keys are compared in their order, of which nothing else needs to be kept. */
static td_status *check_pairs(const header_text *p) {
  td_safetensors_header *h = p->h;
  uint32_t *key = td_malloc((h->pairs ? h->pairs : 1) * sizeof *key);
  if (!key) return td_oom();
  const char *pair = h->text + h->metadata;
  for (size_t i = 0; i < h->pairs; i++) {
    key[i] = (uint32_t)(pair - h->text);
    pair += strlen(pair) + 1; /* the value */
    pair += strlen(pair) + 1;
  }
  qsort_r(key, h->pairs, sizeof *key, by_text, h->text);
  td_status *s = NULL;
  for (size_t i = 1; td_ok(s) && i < h->pairs; i++)
    if (!strcmp(h->text + key[i - 1], h->text + key[i]))
      s = corrupt(p, "a key of its metadata comes twice");
  td_free(key);
  return s;
}

static char *moved(char *to, const char *string) {
  size_t len = strlen(string) + 1;
  memmove(to, string, len);
  return to + len;
}

/* The pairs move together, over the text that they were. */
static td_status *parse_metadata(header_text *p) {
  td_safetensors_header *h = p->h;
  char *key, *value, *to;
  bool is_more = true;
  if (h->metadata) return corrupt(p, TD_SAFETENSORS_METADATA " comes twice");
  TD_TRY(expect(p, '{'));
  to = p->at;
  h->metadata = (uint32_t)(to - h->text);
  for (;;) {
    TD_TRY(more(p, '}', h->pairs == 0, &is_more));
    if (!is_more) break;
    TD_TRY(parse_string(p, &key));
    to = moved(to, key);
    TD_TRY(expect(p, ':'));
    TD_TRY(parse_string(p, &value));
    to = moved(to, value);
    h->pairs++;
  }
  h->metadata_len = (size_t)(to - h->text) - h->metadata;
  return check_pairs(p);
}

/* ---- the whole ----------------------------------------------------------- */

static td_status *parse_entry(header_text *p, uint64_t data) {
  char *name;
  TD_TRY(parse_string(p, &name));
  TD_TRY(expect(p, ':'));
  if (!strcmp(name, TD_SAFETENSORS_METADATA)) return parse_metadata(p);
  p->tensor = name;
  TD_TRY(parse_tensor(p, data));
  p->tensor = NULL;
  return NULL;
}

static td_status *parse_text(header_text *p, uint64_t data) {
  bool is_more = true;
  if (p->at == p->end || *p->at != '{')
    return corrupt(p, "its header does not begin with {");
  p->at++;
  for (bool first = true;; first = false) {
    TD_TRY(more(p, '}', first, &is_more));
    if (!is_more) break;
    TD_TRY(parse_entry(p, data));
  }
  skip_space(p);
  return p->at == p->end ? NULL : corrupt(p, "text follows the header");
}

static int by_place(const void *a, const void *b, void *arg) {
  const td_safetensors_header *h = arg;
  const td_safetensors_record *x = &h->tensors[*(const uint32_t *)a];
  const td_safetensors_record *y = &h->tensors[*(const uint32_t *)b];
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->size < y->size ? -1 : x->size > y->size;
}

static int by_name(const void *a, const void *b, void *arg) {
  const td_safetensors_header *h = arg;
  return strcmp(h->text + h->tensors[*(const uint32_t *)a].name,
                h->text + h->tensors[*(const uint32_t *)b].name);
}

/* One behind the other, from the first byte to the last. */
static td_status *check_places(header_text *p, uint64_t data) {
  td_safetensors_header *h = p->h;
  uint64_t end = 0;
  qsort_r(h->order, h->n, sizeof *h->order, by_place, h);
  for (size_t i = 0; i < h->n; i++) {
    const td_safetensors_record *r = &h->tensors[h->order[i]];
    p->tensor = h->text + r->name;
    if (r->begin < end) return corrupt(p, "it overlaps another");
    if (r->begin > end) return corrupt(p, "there is a hole before it");
    end = r->begin + r->size;
  }
  p->tensor = NULL;
  return end == data ? NULL : corrupt(p, "bytes follow the last tensor");
}

static td_status *check_names(header_text *p) {
  td_safetensors_header *h = p->h;
  qsort_r(h->order, h->n, sizeof *h->order, by_name, h);
  for (size_t i = 1; i < h->n; i++) {
    p->tensor = h->text + h->tensors[h->order[i]].name;
    if (by_name(&h->order[i - 1], &h->order[i], h) == 0)
      return corrupt(p, "it comes twice");
  }
  return NULL;
}

/* What was not needed of the room goes back; that cannot fail in earnest. */
static td_status *make_order(td_safetensors_header *h) {
  size_t n = h->n ? h->n : 1;
  void *less = td_realloc(h->tensors, n * sizeof *h->tensors);
  if (!less) return td_oom();
  h->tensors = less;
  h->order = td_malloc(n * sizeof *h->order);
  if (!h->order) return td_oom();
  for (size_t i = 0; i < h->n; i++) h->order[i] = (uint32_t)i;
  return NULL;
}

td_status *td_safetensors_header_parse(td_safetensors_header *h,
                                       const char *path, uint64_t data) {
  header_text p = {
      .h = h, .at = h->text, .end = h->text + h->len, .path = path};
  size_t most = h->len / RECORD_TEXT + 1;
  h->tensors = td_malloc(most * sizeof *h->tensors);
  if (!h->tensors) return td_oom();
  TD_TRY(parse_text(&p, data));
  TD_TRY(make_order(h));
  TD_TRY(check_places(&p, data));
  return check_names(&p);
}

void td_safetensors_header_deinit(td_safetensors_header *h) {
  td_free(h->text);
  td_free(h->tensors);
  td_free(h->order);
  *h = (td_safetensors_header){0};
}

td_shape td_safetensors_header_shape(const td_safetensors_header *h,
                                     const td_safetensors_record *r) {
  int64_t dim[TD_MAX_RANK];
  int rank = 0;
  char *end;
  for (const char *s = h->text + r->shape + 1;; s = end + 1) {
    while (*s && strchr(", \t\r\n", *s)) s++;
    if (*s == ']' || rank == TD_MAX_RANK) break;
    dim[rank++] = strtoll(s, &end, 10);
    end--; /* the loop goes past it */
  }
  return td_shape_of(rank, dim);
}
