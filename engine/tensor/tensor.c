/* tensor.c - tensors made, viewed, copied and compared.
 *
 * A view holds its buffer and differs in shape and data pointer only. The
 * address arithmetic is the same for every dtype, because a string tensor's
 * elements are its offsets and an object tensor's its pointers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/tensor/tensor.h"

#include <string.h>

#include "engine/base/mem.h"

/* ---- sizes --------------------------------------------------------------- */

int64_t td_tensor_count(const td_tensor *t) {
  return td_tensor_valid(t) ? td_shape_count(&t->shape) : 0;
}

size_t td_tensor_bytes(const td_tensor *t) {
  size_t count = (size_t)td_tensor_count(t);
  if (t->dtype == TD_STRING) {
    const uint64_t *offset = t->data;
    return (count + 1) * sizeof *offset + (offset[count] - offset[0]);
  }
  return td_dtype_is_plain(t->dtype) ? count * td_dtype_size(t->dtype) : 0;
}

bool td_tensor_on_host(const td_tensor *t) {
  return t->buffer && t->buffer->allocator->host;
}

bool td_tensor_touchable(const td_tensor *t) {
  return t->buffer && t->buffer->allocator->touchable;
}

static td_status *check_size(td_dtype dtype, const td_shape *shape,
                             size_t *bytes) {
  td_shape_text text;
  int64_t count = td_shape_count(shape);
  if (TD_UNLIKELY(count < 0))
    return td_error(TD_INVALID_ARGUMENT,
                    td_shape_known(shape)
                        ? "a tensor of shape %s has more than 2^63-1 elements"
                        : "a tensor needs a known shape, not %s",
                    td_shape_str(shape, &text));
  if (TD_UNLIKELY(!td_mul((size_t)count, td_dtype_size(dtype), bytes) ||
                  *bytes > PTRDIFF_MAX))
    return td_error(TD_INVALID_ARGUMENT,
                    "a %s tensor of shape %s needs more than 2^63-1 bytes",
                    td_dtype_name(dtype), td_shape_str(shape, &text));
  return NULL;
}

static td_status *check_plain(td_dtype dtype) {
  if (TD_LIKELY(td_dtype_is_plain(dtype))) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "elements of dtype %s are not plain bytes: a number, bool "
                  "or quantized dtype is needed here",
                  td_dtype_name(dtype));
}

/* ---- making -------------------------------------------------------------- */

td_status *td_tensor_new(td_allocator *a, td_dtype dtype, const td_shape *shape,
                         td_tensor *out) {
  size_t bytes;
  td_buffer *b;
  TD_TRY(check_plain(dtype));
  TD_TRY(check_size(dtype, shape, &bytes));
  TD_TRY(td_buffer_new(a, bytes, &b));
  out->buffer = b;
  out->data = b->data;
  out->dtype = dtype;
  td_shape_set(&out->shape, shape);
  return NULL;
}

td_status *td_tensor_from(td_dtype dtype, const td_shape *shape,
                          const void *bytes, td_tensor *out) {
  TD_TRY(td_tensor_new(NULL, dtype, shape, out));
  size_t n = out->buffer->size;
  if (n) memcpy(out->data, bytes, n);
  return NULL;
}

/* ---- views --------------------------------------------------------------- */

td_status *td_tensor_reshape(const td_tensor *t, const td_shape *shape,
                             td_tensor *out) {
  int64_t have = td_tensor_count(t), want = td_shape_count(shape);
  td_shape_text from, to;
  if (!td_tensor_valid(t))
    return td_error(TD_INVALID_ARGUMENT, "reshape of no tensor");
  if (want != have)
    return td_error(TD_INVALID_ARGUMENT,
                    "cannot reshape %s (%lld elements) to %s%s",
                    td_shape_str(&t->shape, &from), (long long)have,
                    td_shape_str(shape, &to),
                    want < 0 ? ": its size is not known or too large"
                             : ": the number of elements differs");
  td_shape target = *shape; /* may be the shape of *out */
  td_tensor_retain(t, out);
  out->shape = target;
  return NULL;
}

td_status *td_tensor_rows(const td_tensor *t, int64_t begin, int64_t n,
                          td_tensor *out) {
  td_shape_text text;
  if (!td_tensor_valid(t) || t->shape.rank < 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "rows are taken of a tensor of rank 1 or more, not of %s",
                    td_tensor_valid(t) ? "a scalar" : "no tensor");
  if (begin < 0 || n < 0 || begin > t->shape.dim[0] ||
      n > t->shape.dim[0] - begin)
    return td_error(
        TD_OUT_OF_RANGE, "%lld rows from row %lld are not all in shape %s",
        (long long)n, (long long)begin, td_shape_str(&t->shape, &text));
  td_shape row = t->shape;
  row.dim[0] = 1;
  size_t step = (size_t)td_shape_count(&row) * td_dtype_size(t->dtype);
  td_tensor_retain(t, out);
  out->shape.dim[0] = n;
  out->data = (char *)t->data + (size_t)begin * step;
  return NULL;
}

/* ---- objects ------------------------------------------------------------- */

td_object *td_object_retain(td_object *o) {
  if (o) __atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED);
  return o;
}

void td_object_release(td_object *o) {
  if (o && __atomic_fetch_sub(&o->refs, 1, __ATOMIC_ACQ_REL) == 1) o->free(o);
}

static void release_objects(void *arg, void *data, size_t size) {
  td_object **at = data;
  (void)arg;
  for (size_t i = 0; i < size / sizeof *at; i++) td_object_release(at[i]);
}

td_status *td_tensor_objects(td_dtype dtype, const td_shape *shape,
                             td_object *const *at, td_tensor *out) {
  size_t bytes;
  td_buffer *b;
  if (dtype != TD_RESOURCE && dtype != TD_VARIANT)
    return td_error(TD_INVALID_ARGUMENT,
                    "objects are held by a resource or variant, not by %s",
                    td_dtype_name(dtype));
  TD_TRY(check_size(dtype, shape, &bytes));
  TD_TRY(td_buffer_new(NULL, bytes, &b));
  td_object **to = b->data;
  for (size_t i = 0; i < bytes / sizeof *to; i++)
    to[i] = td_object_retain(at[i]);
  b->release = release_objects;
  b->readonly = true;
  *out = (td_tensor){.shape = *shape, .dtype = dtype, .buffer = b, .data = to};
  return NULL;
}

td_status *td_tensor_object(td_dtype dtype, td_object *o, td_tensor *out) {
  td_shape scalar = td_shape_scalar();
  td_status *s = NULL;
  if ((dtype != TD_RESOURCE && dtype != TD_VARIANT) || !o)
    s = td_error(TD_INVALID_ARGUMENT,
                 "an object is held by a resource or variant, not by %s",
                 o ? td_dtype_name(dtype) : "a null pointer");
  if (td_ok(s)) s = td_tensor_objects(dtype, &scalar, &o, out);
  td_object_release(o); /* owned: the tensor holds it now, or nobody */
  return s;
}

td_object *td_tensor_get_object(const td_tensor *t) {
  if (t->dtype != TD_RESOURCE && t->dtype != TD_VARIANT) return NULL;
  return t->shape.rank == 0 ? *(td_object **)t->data : NULL;
}

/* ---- copies and comparison ----------------------------------------------- */

static td_status *copy_strings(const td_tensor *t, td_tensor *out) {
  const uint64_t *from = t->data;
  size_t count = (size_t)td_tensor_count(t);
  size_t total = from[count] - from[0];
  uint64_t *to;
  char *text;
  TD_TRY(td_tensor_strings_new(&t->shape, total, out, &to, &text));
  for (size_t i = 1; i <= count; i++) to[i] = to[0] + (from[i] - from[0]);
  if (total) memcpy(text, (const char *)t->buffer->data + from[0], total);
  return NULL;
}

td_status *td_tensor_copy(const td_tensor *t, td_tensor *out) {
  if (!td_tensor_valid(t)) {
    *out = (td_tensor){0};
    return NULL;
  }
  if (!td_tensor_touchable(t))
    return td_error(TD_FAILED_PRECONDITION,
                    "the tensor is in the memory of %s, which the host cannot "
                    "read: have the device copy it",
                    t->buffer->allocator->name);
  if (t->dtype == TD_STRING) return copy_strings(t, out);
  if (!td_dtype_is_plain(t->dtype))
    return td_tensor_objects(t->dtype, &t->shape, t->data, out);
  return td_tensor_from(t->dtype, &t->shape, t->data, out);
}

static bool same_strings(const td_tensor *a, const td_tensor *b) {
  int64_t count = td_tensor_count(a);
  for (int64_t i = 0; i < count; i++) {
    size_t la, lb;
    const char *sa = td_tensor_str(a, i, &la), *sb = td_tensor_str(b, i, &lb);
    if (la != lb || (la && memcmp(sa, sb, la))) return false;
  }
  return true;
}

bool td_tensor_same(const td_tensor *a, const td_tensor *b) {
  if (a->dtype != b->dtype) return false;
  if (!td_tensor_valid(a)) return true;
  if (!td_shape_equal(&a->shape, &b->shape)) return false;
  if (a->dtype == TD_STRING) return same_strings(a, b);
  size_t bytes = (size_t)td_tensor_count(a) * td_dtype_size(a->dtype);
  return bytes == 0 || memcmp(a->data, b->data, bytes) == 0;
}
