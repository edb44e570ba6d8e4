/* npy.c - NumPy's .npy files.
 *
 * A magic word, a version, the length of a header, the header: a Python
 * dictionary with the dtype, the order and the shape; then the elements. The
 * header is read by a small parser that knows these three keys and nothing
 * else. The size that the shape asks for is compared with what is there before
 * memory is taken.
 * Format: numpy/lib/format.py, versions 1.0, 2.0, 3.0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/npy.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"

static const char magic[] = "\x93NUMPY";
enum { MAGIC = 6, HEADER_MAX = 1 << 16, ALIGN = 64 };

/* ---- dtypes -------------------------------------------------------------- */

/* clang-format off */
static const struct { char kind[4]; td_dtype dtype; } dtypes[] = {
  {"b1", TD_BOOL},
  {"i1", TD_INT8},      {"i2", TD_INT16},   {"i4", TD_INT32},   {"i8", TD_INT64},
  {"u1", TD_UINT8},     {"u2", TD_UINT16},  {"u4", TD_UINT32},  {"u8", TD_UINT64},
  {"f2", TD_FLOAT16},   {"f4", TD_FLOAT32}, {"f8", TD_FLOAT64},
  {"c8", TD_COMPLEX64}, {"c16", TD_COMPLEX128},
};
/* clang-format on */

static const char *kind_of(td_dtype t) {
  for (size_t i = 0; i < TD_COUNT(dtypes); i++)
    if (dtypes[i].dtype == t) return dtypes[i].kind;
  return NULL;
}

static td_dtype dtype_of(const char *kind, size_t len) {
  for (size_t i = 0; i < TD_COUNT(dtypes); i++)
    if (strlen(dtypes[i].kind) == len && !memcmp(dtypes[i].kind, kind, len))
      return dtypes[i].dtype;
  return TD_INVALID;
}

/* ---- the header ---------------------------------------------------------- */

/* A place in the header, and the source for messages. */
typedef struct parser {
  const char *at, *end;
  const char *from;
} parser;

typedef struct header {
  td_dtype dtype;
  td_shape shape;
  bool big_endian, fortran;
} header;

static td_status *corrupt(const parser *p, const char *what) {
  return td_error(TD_DATA_LOSS, "%s is no readable .npy array: %s", p->from,
                  what);
}

static void skip_space(parser *p) {
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\n')) p->at++;
}

static bool at(parser *p, char c) {
  skip_space(p);
  return p->at < p->end && *p->at == c;
}

static bool eat(parser *p, char c) {
  if (!at(p, c)) return false;
  p->at++;
  return true;
}

static bool eat_word(parser *p, const char *word) {
  size_t len = strlen(word);
  skip_space(p);
  if ((size_t)(p->end - p->at) < len || memcmp(p->at, word, len)) return false;
  p->at += len;
  return true;
}

/* A quoted string without escapes. */
static bool eat_string(parser *p, const char **s, size_t *len) {
  char quote = at(p, '"') ? '"' : '\'';
  if (!eat(p, quote)) return false;
  const char *close = memchr(p->at, quote, (size_t)(p->end - p->at));
  if (!close) return false;
  *s = p->at;
  *len = (size_t)(close - p->at);
  p->at = close + 1;
  return true;
}

static td_status *refuse_dtype(const parser *p, const char *s, size_t len) {
  int shown = len < 40 ? (int)len : 40;
  bool half = len >= 2 && !memcmp(s + len - 2, "V2", 2);
  return td_error(
      TD_UNIMPLEMENTED,
      "%s has NumPy dtype '%.*s', which has no counterpart here: %s", p->from,
      shown, s,
      half ? "if it is bfloat16, save it with .astype('float32')"
           : "convert it to a number or bool dtype in NumPy");
}

static td_status *parse_dtype(parser *p, header *h) {
  const char *s;
  size_t len;
  if (at(p, '[')) return refuse_dtype(p, "[(record)]", 10);
  if (!eat_string(p, &s, &len)) return corrupt(p, "'descr' is no string");
  bool order = len > 0 && memchr("<>|=", s[0], 4);
  h->dtype = dtype_of(s + order, len - order);
  h->big_endian = order && s[0] == '>';
  return h->dtype ? NULL : refuse_dtype(p, s, len);
}

static td_status *parse_order(parser *p, header *h) {
  h->fortran = eat_word(p, "True");
  if (h->fortran || eat_word(p, "False")) return NULL;
  return corrupt(p, "'fortran_order' is neither True nor False");
}

/* Python 2 wrote long integers with an L. */
static bool eat_size(parser *p, int64_t *out) {
  int64_t v = 0;
  skip_space(p);
  const char *start = p->at;
  for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
    if (__builtin_mul_overflow(v, 10, &v) ||
        __builtin_add_overflow(v, *p->at - '0', &v))
      return false;
  if (p->at == start) return false;
  eat_word(p, "L");
  *out = v;
  return true;
}

static td_status *parse_shape(parser *p, header *h) {
  int64_t dim[TD_MAX_RANK];
  int rank = 0;
  if (!eat(p, '(')) return corrupt(p, "'shape' is no tuple");
  while (!eat(p, ')')) {
    if (rank == TD_MAX_RANK)
      return td_error(TD_UNIMPLEMENTED,
                      "%s has more than the %d dimensions a tensor may have",
                      p->from, TD_MAX_RANK);
    if (!eat_size(p, &dim[rank++]))
      return corrupt(p, "'shape' holds something else than sizes");
    if (!eat(p, ',') && !at(p, ')'))
      return corrupt(p, "'shape' is no tuple of sizes");
  }
  h->shape = td_shape_of(rank, dim);
  return NULL;
}

static td_status *parse_entry(parser *p, header *h, unsigned *seen) {
  static const struct {
    const char *key;
    td_status *(*parse)(parser *p, header *h);
  } keys[] = {{"descr", parse_dtype},
              {"fortran_order", parse_order},
              {"shape", parse_shape}};
  const char *key;
  size_t len;
  if (!eat_string(p, &key, &len) || !eat(p, ':'))
    return corrupt(p, "the header is no dictionary");
  for (unsigned i = 0; i < TD_COUNT(keys); i++) {
    if (strlen(keys[i].key) != len || memcmp(keys[i].key, key, len)) continue;
    if (*seen & 1u << i) return corrupt(p, "a key of the header comes twice");
    *seen |= 1u << i;
    return keys[i].parse(p, h);
  }
  return corrupt(p, "the header has an unknown key");
}

static td_status *parse_header(parser *p, header *h) {
  unsigned seen = 0;
  if (!eat(p, '{')) return corrupt(p, "the header is no dictionary");
  while (!eat(p, '}')) {
    TD_TRY(parse_entry(p, h, &seen));
    if (!eat(p, ',') && !at(p, '}'))
      return corrupt(p, "the header is no dictionary");
  }
  skip_space(p);
  if (p->at < p->end) return corrupt(p, "text follows the header");
  if (seen != 7) return corrupt(p, "descr, fortran_order or shape is missing");
  return NULL;
}

/* Leaves `p` at the header's text and *data behind it. */
static td_status *find_header(parser *p, const char **data) {
  const unsigned char *b = (const unsigned char *)p->at;
  size_t len = (size_t)(p->end - p->at), start, size;
  if (len < 10 || memcmp(b, magic, MAGIC))
    return corrupt(p, "it does not begin with \\x93NUMPY");
  if (b[6] < 1 || b[6] > 3)
    return td_error(TD_UNIMPLEMENTED,
                    "%s is .npy version %d; 1 to 3 are readable", p->from,
                    b[6]);
  start = b[6] == 1 ? 10 : 12;
  if (len < start) return corrupt(p, "it ends inside the header");
  size = (size_t)b[8] | (size_t)b[9] << 8;
  if (b[6] > 1) size |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
  if (size > HEADER_MAX) return corrupt(p, "its header is over 64 KiB");
  if (size > len - start) return corrupt(p, "it ends inside the header");
  p->at += start;
  p->end = *data = p->at + size;
  return NULL;
}

/* ---- the elements -------------------------------------------------------- */

static void swap_bytes(char *at, size_t bytes, size_t unit) {
  for (char *p = at; p < at + bytes; p += unit)
    for (size_t i = 0; i < unit / 2; i++) {
      char c = p[i];
      p[i] = p[unit - 1 - i];
      p[unit - 1 - i] = c;
    }
}

/* From the order in which the first index runs fastest. */
static void from_fortran(const td_shape *shape, size_t item, const char *from,
                         char *to) {
  int last = shape->rank - 1;
  size_t step[TD_MAX_RANK], stride = item;
  int64_t index[TD_MAX_RANK] = {0};
  int64_t rows = td_shape_count(shape);
  if (rows == 0) return;
  rows /= shape->dim[last];
  for (int k = 0; k <= last; k++) {
    step[k] = stride;
    stride *= (size_t)shape->dim[k];
  }
  for (; rows > 0; rows--) {
    const char *row = from;
    for (int k = 0; k < last; k++) row += (size_t)index[k] * step[k];
    for (int64_t i = 0; i < shape->dim[last]; i++, to += item)
      memcpy(to, row + (size_t)i * step[last], item);
    for (int k = last - 1; k >= 0 && ++index[k] == shape->dim[k]; k--)
      index[k] = 0;
  }
}

/* In place, what the file says otherwise than the tensor. */
static void convert(const header *h, td_tensor *t) {
  size_t bytes = td_tensor_bytes(t), item = td_dtype_size(h->dtype);
  if (bytes == 0) return;
  if (h->big_endian)
    swap_bytes(t->data, bytes, td_dtype_is_complex(h->dtype) ? item / 2 : item);
  if (h->dtype == TD_BOOL) /* any byte may be there: only 0 and 1 are bools */
    for (size_t i = 0; i < bytes; i++)
      ((uint8_t *)t->data)[i] = ((uint8_t *)t->data)[i] != 0;
}

/* ---- reading ------------------------------------------------------------- */

/* The beginning of the source, which holds the header whole. */
typedef struct beginning {
  char *bytes;
  size_t len;
  const char *data; /* within it, behind the header */
} beginning;

static td_status *read_beginning(const td_npy_source *src, beginning *b,
                                 header *h) {
  enum { MOST = HEADER_MAX + 12 };
  b->len = src->size < MOST ? src->size : MOST;
  b->bytes = td_malloc(b->len ? b->len : 1);
  if (!b->bytes) return td_oom();
  TD_TRY(src->read(src->arg, b->bytes, b->len));
  parser p = {.at = b->bytes, .end = b->bytes + b->len, .from = src->from};
  TD_TRY(find_header(&p, &b->data));
  return parse_header(&p, h);
}

/* The header's array is what `have` bytes make. */
static td_status *check_size(const td_npy_source *src, const header *h,
                             size_t have) {
  td_shape_text text;
  size_t want;
  int64_t count = td_shape_count(&h->shape);
  if (count >= 0 && td_mul((size_t)count, td_dtype_size(h->dtype), &want) &&
      want == have)
    return NULL;
  return td_error(TD_DATA_LOSS,
                  "%s is no readable .npy array: %zu bytes of data do not "
                  "make %s %s",
                  src->from, have, td_dtype_name(h->dtype),
                  td_shape_str(&h->shape, &text));
}

/* All `have` bytes behind the header. */
static td_status *read_data(const td_npy_source *src, const beginning *b,
                            size_t have, char *to) {
  size_t first = b->len - (size_t)(b->data - b->bytes);
  if (first) memcpy(to, b->data, first);
  return src->read(src->arg, to + first, have - first);
}

static td_status *read_elements(const td_npy_source *src, const beginning *b,
                                const header *h, size_t have, td_tensor *out) {
  bool turned = h->fortran && h->shape.rank > 1 && have > 0;
  char *bytes = turned ? td_malloc(have) : NULL;
  if (turned && !bytes) return td_oom();
  td_status *s = td_tensor_new(NULL, h->dtype, &h->shape, out);
  if (td_ok(s)) {
    s = read_data(src, b, have, turned ? bytes : out->data);
    if (td_ok(s) && turned)
      from_fortran(&h->shape, td_dtype_size(h->dtype), bytes, out->data);
    if (td_ok(s))
      convert(h, out);
    else
      td_tensor_release(out);
  }
  td_free(bytes);
  return s;
}

td_status *td_npy_decode_from(const td_npy_source *source, td_tensor *out) {
  beginning b = {NULL, 0, NULL};
  header h = {0};
  td_status *s = read_beginning(source, &b, &h);
  size_t have = td_ok(s) ? source->size - (size_t)(b.data - b.bytes) : 0;
  if (td_ok(s)) s = check_size(source, &h, have);
  if (td_ok(s)) s = read_elements(source, &b, &h, have, out);
  td_free(b.bytes);
  return s;
}

td_status *td_npy_describe_from(const td_npy_source *source, td_dtype *dtype,
                                td_shape *shape) {
  beginning b = {NULL, 0, NULL};
  header h = {0};
  td_status *s = read_beginning(source, &b, &h);
  td_free(b.bytes);
  *dtype = h.dtype;
  *shape = h.shape;
  return s;
}

static td_status *from_memory(void *arg, void *to, size_t n) {
  const char **at = arg;
  if (n) memcpy(to, *at, n);
  *at += n;
  return NULL;
}

td_status *td_npy_decode(const void *bytes, size_t len, const char *from,
                         td_tensor *out) {
  const char *at = bytes;
  td_npy_source source = {from_memory, &at, len, from};
  return td_npy_decode_from(&source, out);
}

/* ---- writing ------------------------------------------------------------- */

static void add_shape(td_str *s, const td_shape *shape) {
  td_str_addc(s, '(');
  for (int i = 0; i < shape->rank; i++)
    td_str_addf(s, i ? ", %lld" : "%lld", (long long)shape->dim[i]);
  td_str_add(s, shape->rank == 1 ? ",)" : ")");
}

static td_status *check_writable(const td_tensor *t) {
  if (!td_tensor_valid(t)) return td_error(TD_INVALID_ARGUMENT, "no tensor");
  if (!kind_of(t->dtype))
    return td_error(TD_INVALID_ARGUMENT, "NumPy files hold no %s: %s",
                    td_dtype_name(t->dtype),
                    t->dtype == TD_BFLOAT16 ? "cast it to float32 first"
                    : td_dtype_is_plain(t->dtype)
                        ? "cast it to an integer or float dtype first"
                        : "only numbers and bool can be written");
  if (!td_tensor_touchable(t))
    return td_error(TD_FAILED_PRECONDITION,
                    "the tensor is in the memory of %s: copy it to the host "
                    "first",
                    t->buffer->allocator->name);
  return NULL;
}

/* As NumPy writes it: padded with spaces, so that the data is aligned. */
static void add_header(td_str *s, const td_tensor *t) {
  bool order = td_dtype_size(t->dtype) > 1;
  td_str_addn(s, "\x93NUMPY\x01\0\0\0", 10);
  td_str_addf(s, "{'descr': '%c%s', 'fortran_order': False, 'shape': ",
              order ? '<' : '|', kind_of(t->dtype));
  add_shape(s, &t->shape);
  td_str_add(s, ", }");
  while (!s->failed && (s->len + 1) % ALIGN) td_str_addc(s, ' ');
  td_str_addc(s, '\n');
  if (s->failed) return;
  s->at[8] = (char)(s->len - 10);
  s->at[9] = (char)((s->len - 10) >> 8);
}

td_status *td_npy_head(const td_tensor *t, td_str *out) {
  TD_TRY(check_writable(t));
  add_header(out, t);
  return out->failed ? td_oom() : NULL;
}

td_status *td_npy_encode(const td_tensor *t, char **bytes, size_t *len) {
  td_str head;
  TD_TRY(check_writable(t));
  td_str_init(&head);
  add_header(&head, t);
  size_t n = td_tensor_bytes(t);
  char *to = NULL;
  if (!head.failed && td_add(head.len, n, len)) to = td_malloc(*len);
  if (to) memcpy(to, head.at, head.len);
  if (to && n) memcpy(to + head.len, t->data, n);
  td_str_deinit(&head);
  *bytes = to;
  return to ? NULL : td_oom();
}

/* ---- files --------------------------------------------------------------- */

/* A file that is read in pieces. */
typedef struct pieces {
  td_file *file;
  uint64_t at;
  const char *from;
} pieces;

static td_status *read_piece(void *arg, void *to, size_t n) {
  pieces *p = arg;
  size_t got;
  TD_TRY(td_file_read_at(p->file, p->at, to, n, &got));
  p->at += got;
  if (got == n) return NULL;
  return td_error(TD_DATA_LOSS, "%s became shorter while it was read", p->from);
}

static td_status *too_large(const char *from, size_t limit) {
  return td_error(TD_RESOURCE_EXHAUSTED, "%s has over %zu bytes, the limit",
                  from, limit);
}

/* Does it begin as such a file, as far as it goes? */
static bool begins_well(const td_str *s) {
  return memcmp(td_str_c(s), magic, s->len < MAGIC ? s->len : MAGIC) == 0;
}

/* Of what has no size, such as a pipe: what is none may have no end. */
static td_status *read_whole(td_file *f, size_t limit, const char *from,
                             td_tensor *out) {
  char piece[4096];
  size_t got = 1;
  td_str all;
  td_status *s = NULL;
  td_str_init(&all);
  while (td_ok(s) && got > 0 && begins_well(&all)) {
    s = td_file_read_at(f, all.len, piece, sizeof piece, &got);
    if (td_ok(s)) td_str_addn(&all, piece, got);
    if (td_ok(s) && all.failed) s = td_oom();
    if (td_ok(s) && all.len > limit) s = too_large(from, limit);
  }
  if (td_ok(s)) s = td_npy_decode(td_str_c(&all), all.len, from, out);
  td_str_deinit(&all);
  return s;
}

static td_status *read_pieces(td_file *f, uint64_t size, size_t limit,
                              const char *from, td_tensor *out) {
  pieces p = {f, 0, from};
  if (size > limit) return too_large(from, limit);
  td_npy_source source = {read_piece, &p, (size_t)size, from};
  return td_npy_decode_from(&source, out);
}

td_status *td_npy_read(const char *path, size_t limit, td_tensor *out) {
  char from[256];
  uint64_t size = 0;
  td_file *f;
  snprintf(from, sizeof from, "'%s'", path);
  TD_TRY(td_file_open(path, TD_FILE_READ, &f));
  td_status *s = td_file_size(f, &size);
  if (td_ok(s))
    s = size > 0 ? read_pieces(f, size, limit, from, out)
                 : read_whole(f, limit, from, out);
  td_status_release(td_file_close(f));
  return s;
}

/* ---- mapped files -------------------------------------------------------- */

static td_status *cannot_map(const char *from, const char *why) {
  return td_error(TD_FAILED_PRECONDITION,
                  "%s cannot be mapped: %s; load it without mmap", from, why);
}

static bool holds_bools(const char *at, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)at[i] > 1) return false;
  return true;
}

/* A pipe has no bytes that stay. */
static td_status *check_file(const char *path, const char *from) {
  uint64_t size;
  td_file *f;
  TD_TRY(td_file_open(path, TD_FILE_READ, &f));
  td_status *s = td_file_size(f, &size);
  if (td_ok(s) && size == 0) s = cannot_map(from, "it is empty, or no file");
  td_status_release(td_file_close(f));
  return s;
}

/* Are the bytes at `data` those of a tensor? */
static td_status *check_mapped(const header *h, const char *from,
                               const char *data, size_t bytes) {
  size_t item = td_dtype_size(h->dtype);
  if (td_dtype_is_complex(h->dtype)) item /= 2;
  if (h->big_endian && item > 1)
    return cannot_map(from, "its numbers are big-endian");
  if (h->fortran && h->shape.rank > 1)
    return cannot_map(from, "it is in Fortran order");
  if ((uintptr_t)data % item != 0)
    return cannot_map(from, "its elements are not aligned in the file");
  if (h->dtype == TD_BOOL && !holds_bools(data, bytes))
    return cannot_map(from, "it has bytes that are neither 0 nor 1");
  return NULL;
}

static void unmap(void *arg, void *data, size_t size) {
  (void)data;
  (void)size;
  td_file_unmap(arg);
  td_free(arg);
}

/* Takes ownership of the mapping when all is well. */
static td_status *wrap_mapped(td_file_mapping *m, const char *from,
                              td_tensor *out) {
  header h = {0};
  const char *data;
  parser p = {.at = m->at, .end = (const char *)m->at + m->size, .from = from};
  td_npy_source size_of = {.size = m->size, .from = from};
  td_buffer *b;
  TD_TRY(find_header(&p, &data));
  TD_TRY(parse_header(&p, &h));
  size_t bytes = m->size - (size_t)(data - (const char *)m->at);
  TD_TRY(check_size(&size_of, &h, bytes));
  TD_TRY(check_mapped(&h, from, data, bytes));
  TD_TRY(td_buffer_wrap((void *)data, bytes, unmap, m, &b));
  b->readonly = true;
  *out = (td_tensor){.buffer = b, .data = b->data, .dtype = h.dtype};
  td_shape_set(&out->shape, &h.shape);
  return NULL;
}

td_status *td_npy_map(const char *path, td_tensor *out) {
  char from[256];
  snprintf(from, sizeof from, "'%s'", path);
  TD_TRY(check_file(path, from));
  td_file_mapping *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  td_status *s = td_file_map(path, m);
  if (!td_ok(s)) {
    td_free(m);
    return s;
  }
  s = wrap_mapped(m, from, out);
  if (!td_ok(s)) unmap(m, NULL, 0);
  return s;
}

td_status *td_npy_write(const char *path, const td_tensor *t) {
  char *bytes;
  size_t len;
  TD_TRY(td_npy_encode(t, &bytes, &len));
  td_status *s = td_file_write(path, bytes, len);
  td_free(bytes);
  return s;
}
