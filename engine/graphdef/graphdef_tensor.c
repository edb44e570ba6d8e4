/* graphdef_tensor.c - TensorProto and TensorShapeProto, both ways.
 *
 * Written: raw little-endian bytes (this machine's own), strings one by one.
 * Read: those, packed strings, and the typed lists, of which the last value
 * stands for all that are missing, and those beyond the shape are left out; a
 * list of another dtype, or a value that does not fit, is refused. An empty
 * tensor is one whatever stands beside its shape.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graphdef/graphdef_impl.h"

#include <inttypes.h>
#include <string.h>

/* ---- shapes -------------------------------------------------------------- */

td_status *td_graphdef_shape_in(const Td__TensorShapeProto *p, td_shape *out) {
  *out = td_shape_unknown();
  if (p->unknown_rank && p->n_dim)
    return td_error(TD_INVALID_ARGUMENT,
                    "a shape of unknown rank has %zu sizes", p->n_dim);
  if (p->unknown_rank) return NULL;
  if (p->n_dim > TD_MAX_RANK) return td_shape_check_rank((int64_t)p->n_dim);
  td_shape s = {.rank = (int32_t)p->n_dim};
  int64_t product = 1;
  for (size_t i = 0; i < p->n_dim; i++) {
    int64_t size = s.dim[i] = p->dim[i]->size;
    if (size < -1)
      return td_error(
          TD_INVALID_ARGUMENT,
          "a shape with a size of %" PRId64 ": -1 (unknown) or more", size);
    if (size > 0 && __builtin_mul_overflow(product, size, &product))
      return td_error(TD_INVALID_ARGUMENT,
                      "a shape with more than 2^63-1 elements");
  }
  *out = s;
  return NULL;
}

/* NULL when there is no memory. */
Td__TensorShapeProto *td_graphdef_shape_out(td_arena *arena,
                                            const td_shape *shape) {
  Td__TensorShapeProto *p = td_arena_alloc(arena, sizeof *p);
  size_t n = shape->rank < 0 ? 0 : (size_t)shape->rank;
  Td__TensorShapeProto__Dim *dims = td_arena_alloc(arena, n * sizeof *dims);
  if (!p || !dims) return NULL;
  td__tensor_shape_proto__init(p);
  p->unknown_rank = shape->rank < 0;
  p->dim = td_arena_alloc(arena, n * sizeof *p->dim);
  if (!p->dim) return NULL;
  for (size_t i = 0; i < n; i++) {
    td__tensor_shape_proto__dim__init(&dims[i]);
    dims[i].size = shape->dim[i];
    p->dim[i] = &dims[i];
  }
  p->n_dim = n;
  return p;
}

/* ---- typed lists --------------------------------------------------------- */

/* The list a dtype's values stand in, its length in elements, and the place of
 * the list in the message. */
typedef struct values {
  const char *name;
  const void *at;
  size_t n;
} values;

static size_t values_everywhere(const Td__TensorProto *p) {
  return p->n_float_val + p->n_double_val + p->n_int_val + p->n_string_val +
         p->n_scomplex_val + p->n_int64_val + p->n_bool_val +
         p->n_dcomplex_val + p->n_half_val + p->n_resource_handle_val +
         p->n_variant_val + p->n_uint32_val + p->n_uint64_val;
}

static values values_of(const Td__TensorProto *p, td_dtype dtype) {
  switch (dtype) {
  case TD_FLOAT32:
    return (values){"float_val", p->float_val, p->n_float_val};
  case TD_FLOAT64:
    return (values){"double_val", p->double_val, p->n_double_val};
  case TD_INT64:
    return (values){"int64_val", p->int64_val, p->n_int64_val};
  case TD_UINT32:
    return (values){"uint32_val", p->uint32_val, p->n_uint32_val};
  case TD_UINT64:
    return (values){"uint64_val", p->uint64_val, p->n_uint64_val};
  case TD_BOOL:
    return (values){"bool_val", p->bool_val, p->n_bool_val};
  case TD_STRING:
    return (values){"string_val", p->string_val, p->n_string_val};
  case TD_FLOAT16:
  case TD_BFLOAT16:
    return (values){"half_val", p->half_val, p->n_half_val};
  case TD_COMPLEX64:
    return (values){"scomplex_val", p->scomplex_val, p->n_scomplex_val};
  case TD_COMPLEX128:
    return (values){"dcomplex_val", p->dcomplex_val, p->n_dcomplex_val};
  default:
    return (values){"int_val", p->int_val, p->n_int_val};
  }
}

static bool is_pair(td_dtype dtype) {
  return dtype == TD_COMPLEX64 || dtype == TD_COMPLEX128;
}

/* The whole numbers that a dtype of int_val, half_val or bool_val (all int32 in
 * memory) can hold; false when it is of another list. */
static bool range_of(td_dtype dtype, int64_t *low, int64_t *high) {
  *low = 0;
  switch (dtype) {
  case TD_BOOL:
    *high = 1;
    return true;
  case TD_INT8:
  case TD_QINT8:
    *low = INT8_MIN, *high = INT8_MAX;
    return true;
  case TD_UINT8:
  case TD_QUINT8:
    *high = UINT8_MAX;
    return true;
  case TD_INT16:
  case TD_QINT16:
    *low = INT16_MIN, *high = INT16_MAX;
    return true;
  case TD_UINT16:
  case TD_QUINT16:
  case TD_FLOAT16:
  case TD_BFLOAT16:
    *high = UINT16_MAX;
    return true;
  case TD_INT32:
  case TD_QINT32:
    *low = INT32_MIN, *high = INT32_MAX;
    return true;
  default:
    return false;
  }
}

/* int32 of the file to 1, 2 or 4 bytes: the low ones, as the machine is
 * little-endian. */
static td_status *narrow(const values *v, size_t k, td_dtype dtype, int64_t low,
                         int64_t high, char *to) {
  const int32_t *from = v->at;
  size_t size = td_dtype_size(dtype);
  for (size_t i = 0; i < k; i++) {
    if (from[i] < low || from[i] > high)
      return td_error(TD_INVALID_ARGUMENT,
                      "%s holds %d: %s goes from %" PRId64 " to %" PRId64,
                      v->name, (int)from[i], td_dtype_name(dtype), low, high);
    memcpy(to + i * size, &from[i], size);
  }
  return NULL;
}

/* Element k - 1 to those from k to n. */
static void repeat_last(char *at, size_t size, size_t k, size_t n) {
  for (size_t i = k; i < n; i++)
    memcpy(at + i * size, at + (k - 1) * size, size);
}

static const char repeated[] = "repeated values";

td_status *td_graphdef_take_fill(const char *what, size_t more, size_t *fill) {
  if (more > *fill)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "%s would take %zu bytes more than the file "
                    "has: %zu are allowed",
                    what, more, *fill);
  *fill -= more;
  return NULL;
}

/* How many elements the list gives and the shape has. Values that the shape has
 * no room for say nothing, as in TensorFlow. */
static td_status *count_values(const values *v, td_dtype dtype,
                               const td_shape *shape, size_t *k, size_t *n) {
  *k = v->n;
  *n = (size_t)td_shape_count(shape);
  if (is_pair(dtype)) {
    if (v->n % 2)
      return td_error(TD_INVALID_ARGUMENT,
                      "%s has %zu values: pairs are needed", v->name, v->n);
    *k /= 2;
  }
  if (*k > *n) *k = *n;
  return NULL;
}

static td_status *plain_in(const values *v, td_dtype dtype,
                           const td_shape *shape, size_t *fill,
                           td_tensor *out) {
  size_t k, n, size = td_dtype_size(dtype), bytes;
  int64_t low, high;
  TD_TRY(count_values(v, dtype, shape, &k, &n));
  if (!td_mul(n, size, &bytes)) bytes = SIZE_MAX;
  if (k < n) TD_TRY(td_graphdef_take_fill(repeated, bytes - k * size, fill));
  TD_TRY(td_tensor_new(NULL, dtype, shape, out));
  td_status *s = NULL;
  if (range_of(dtype, &low, &high))
    s = narrow(v, k, dtype, low, high, out->data);
  else if (k)
    memcpy(out->data, v->at, k * size);
  if (td_ok(s) && k)
    repeat_last(out->data, size, k, n);
  else if (n)
    memset(out->data, 0, bytes);
  if (!td_ok(s)) td_tensor_release(out);
  return s;
}

/* ---- strings ------------------------------------------------------------- */

static td_status *strings_in(const Td__TensorProto *p, const td_shape *shape,
                             size_t *fill, td_tensor *out) {
  static const ProtobufCBinaryData empty = {0};
  values v = values_of(p, TD_STRING);
  size_t k, n, total = 0, more;
  uint64_t *offset;
  char *text;
  TD_TRY(count_values(&v, TD_STRING, shape, &k, &n));
  for (size_t i = 0; i < k; i++) total += p->string_val[i].len;
  const ProtobufCBinaryData *last = k ? &p->string_val[k - 1] : &empty;
  if (!td_mul(n - k, last->len + sizeof *offset, &more)) more = SIZE_MAX;
  TD_TRY(td_graphdef_take_fill(repeated, more, fill));
  total += (n - k) * last->len;
  TD_TRY(td_tensor_strings_new(shape, total, out, &offset, &text));
  for (size_t i = 0; i < n; i++) {
    const ProtobufCBinaryData *b = i < k ? &p->string_val[i] : last;
    if (b->len) memcpy(text, b->data, b->len);
    text += b->len;
    offset[i + 1] = offset[i] + b->len;
  }
  return NULL;
}

/* One of the n lengths that packed strings begin with; 0 when it is cut off or
 * over 32 bits. */
static size_t read_length(const uint8_t *at, size_t left, uint64_t *out) {
  *out = 0;
  for (size_t i = 0; i < left && i < 5; i++) {
    *out |= (uint64_t)(at[i] & 0x7f) << (7 * i);
    if (!(at[i] & 0x80)) return *out > UINT32_MAX ? 0 : i + 1;
  }
  return 0;
}

/* n lengths, then all bytes. Counts of n come from the file: each takes a byte
 * of it at least. */
static td_status *packed_strings_in(const ProtobufCBinaryData *content,
                                    const td_shape *shape, td_tensor *out) {
  size_t n = (size_t)td_shape_count(shape), at = 0, total = 0;
  uint64_t length, *offset;
  char *text;
  for (size_t i = 0; i < n; i++) {
    size_t step = read_length(content->data + at, content->len - at, &length);
    at += step;
    total += length;
    if (!step || total > content->len - at)
      return td_error(TD_INVALID_ARGUMENT,
                      "tensor_content of %zu bytes does not hold %zu strings",
                      content->len, n);
  }
  if (total != content->len - at)
    return td_error(TD_INVALID_ARGUMENT,
                    "tensor_content has %zu bytes of text; its lengths say %zu",
                    content->len - at, total);
  TD_TRY(td_tensor_strings_new(shape, total, out, &offset, &text));
  if (total) memcpy(text, content->data + at, total);
  at = 0;
  for (size_t i = 0; i < n; i++) {
    at += read_length(content->data + at, content->len - at, &length);
    offset[i + 1] = offset[i] + length;
  }
  return NULL;
}

/* ---- tensors ------------------------------------------------------------- */

static td_status *content_in(const ProtobufCBinaryData *content, td_dtype dtype,
                             const td_shape *shape, td_tensor *out) {
  td_shape_text text;
  size_t bytes;
  if (!td_mul((size_t)td_shape_count(shape), td_dtype_size(dtype), &bytes) ||
      bytes != content->len)
    return td_error(
        TD_INVALID_ARGUMENT, "tensor_content has %zu bytes: not those of %s %s",
        content->len, td_dtype_name(dtype), td_shape_str(shape, &text));
  return td_tensor_from(dtype, shape, content->data, out);
}

static td_status *check_dtype(int32_t dtype) {
  if (dtype > 100 && dtype < 100 + TD_DTYPES)
    return td_error(TD_INVALID_ARGUMENT,
                    "a constant of reference dtype %d (%s_ref)", (int)dtype,
                    td_dtype_name((td_dtype)(dtype - 100)));
  if (dtype <= TD_INVALID || dtype >= TD_DTYPES)
    return td_error(TD_INVALID_ARGUMENT, "a constant of unknown dtype %d",
                    (int)dtype);
  if (dtype == TD_RESOURCE || dtype == TD_VARIANT)
    return td_error(TD_INVALID_ARGUMENT,
                    "a constant of dtype %s: handles do not come from files",
                    td_dtype_name((td_dtype)dtype));
  return NULL;
}

static td_status *shape_in(const Td__TensorProto *p, td_shape *out) {
  td_shape_text text;
  *out = td_shape_scalar();
  if (p->tensor_shape) TD_TRY(td_graphdef_shape_in(p->tensor_shape, out));
  if (td_shape_count(out) < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "a constant needs a known shape, not %s",
                    td_shape_str(out, &text));
  return NULL;
}

/* Whatever the message has beside the shape: there is no element to take it. */
static td_status *empty_in(td_dtype dtype, const td_shape *shape,
                           td_tensor *out) {
  uint64_t *offset;
  char *text;
  return dtype == TD_STRING
             ? td_tensor_strings_new(shape, 0, out, &offset, &text)
             : td_tensor_new(NULL, dtype, shape, out);
}

td_status *td_graphdef_tensor_in(const Td__TensorProto *p, size_t *fill,
                                 td_tensor *out) {
  td_shape shape;
  td_dtype dtype = (td_dtype)p->dtype;
  const ProtobufCBinaryData *content = &p->tensor_content;
  *out = (td_tensor){0};
  TD_TRY(check_dtype(p->dtype));
  TD_TRY(shape_in(p, &shape));
  if (td_shape_count(&shape) == 0) return empty_in(dtype, &shape, out);
  values v = values_of(p, dtype);
  size_t given = values_everywhere(p);
  if (given != v.n)
    return td_error(TD_INVALID_ARGUMENT,
                    "a constant of dtype %s has values beside %s",
                    td_dtype_name(dtype), v.name);
  if (content->len && given)
    return td_error(TD_INVALID_ARGUMENT, "a constant has tensor_content and %s",
                    v.name);
  if (dtype == TD_STRING)
    return content->len ? packed_strings_in(content, &shape, out)
                        : strings_in(p, &shape, fill, out);
  if (!content->len)
    TD_TRY(plain_in(&v, dtype, &shape, fill, out));
  else
    TD_TRY(content_in(content, dtype, &shape, out));
  if (dtype == TD_BOOL) {
    uint8_t *b = out->data;
    for (int64_t i = 0; i < td_tensor_count(out); i++) b[i] = b[i] != 0;
  }
  return NULL;
}

/* How many strings are written: of empty ones at the end, the first. A reader
 * takes the last for all that are missing. A file of a few bytes may hold
 * millions of them, which written one by one would take more memory to read
 * than their size allows (graphdef_scan.c). */
static size_t strings_written(const td_tensor *t) {
  size_t n = (size_t)td_tensor_count(t), len;
  while (n > 1) {
    td_tensor_str(t, (int64_t)n - 1, &len);
    if (len) break;
    td_tensor_str(t, (int64_t)n - 2, &len);
    if (len) break;
    n--;
  }
  return n;
}

static td_status *strings_out(td_arena *arena, const td_tensor *t,
                              Td__TensorProto *p) {
  size_t n = strings_written(t);
  p->string_val = td_arena_alloc(arena, n * sizeof *p->string_val);
  if (!p->string_val) return td_oom();
  for (size_t i = 0; i < n; i++) {
    ProtobufCBinaryData *b = &p->string_val[i];
    b->data = (uint8_t *)td_tensor_str(t, (int64_t)i, &b->len);
  }
  p->n_string_val = n;
  return NULL;
}

td_status *td_graphdef_tensor_out(td_arena *arena, const td_tensor *t,
                                  Td__TensorProto **out) {
  Td__TensorProto *p = td_arena_alloc(arena, sizeof *p);
  if (!p) return td_oom();
  td__tensor_proto__init(p);
  *out = p;
  if (t->dtype != TD_STRING && !td_dtype_is_plain(t->dtype))
    return td_error(TD_INVALID_ARGUMENT, "a %s tensor has no form in a file",
                    td_dtype_name(t->dtype));
  if (!td_tensor_touchable(t))
    return td_error(TD_INVALID_ARGUMENT,
                    "a tensor in the memory of %s must be copied first",
                    t->buffer->allocator->name);
  p->dtype = (int32_t)t->dtype;
  p->tensor_shape = td_graphdef_shape_out(arena, &t->shape);
  if (!p->tensor_shape) return td_oom();
  if (t->dtype == TD_STRING) return strings_out(arena, t, p);
  p->tensor_content =
      (ProtobufCBinaryData){.len = td_tensor_bytes(t), .data = t->data};
  return NULL;
}

/* ---- one tensor as bytes ------------------------------------------------- */

td_status *td_tensorproto_write(const td_tensor *t, char **bytes, size_t *len) {
  td_arena arena;
  Td__TensorProto *p;
  td_arena_init(&arena);
  td_status *s = td_graphdef_tensor_out(&arena, t, &p);
  if (td_ok(s)) s = td_graphdef_pack(&p->base, bytes, len);
  td_arena_deinit(&arena);
  return s;
}

td_status *td_tensorproto_read(const void *bytes, size_t len, size_t limit,
                               td_tensor *out) {
  td_arena arena;
  Td__TensorProto *p;
  *out = (td_tensor){0};
  td_arena_init(&arena);
  td_status *s =
      td_graphdef_unpack(&td__tensor_proto__descriptor, &arena, bytes, len, &p);
  if (td_ok(s)) s = td_graphdef_tensor_in(p, &limit, out);
  td_arena_deinit(&arena);
  return s;
}
