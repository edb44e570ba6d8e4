/* array.c - elements of any dtype, read and written; see array.h.
 *
 * A string tensor is one block that is never changed, so that it cannot be
 * written element by element: the ops move pointers to text, and the block is
 * built once at the end, when its size is known.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"

#include <string.h>

/* Below this a copy costs less than keeping the whole source alive. */
enum { VIEW_BYTES = 4096 };

/* ---- elements ------------------------------------------------------------ */

static size_t element_size(td_dtype t) {
  return t == TD_STRING ? sizeof(td_bytes) : td_dtype_size(t);
}

td_status *td_array_in(const td_tensor *t, td_array *a) {
  *a = (td_array){.at = t->data,
                  .size = element_size(t->dtype),
                  .dtype = t->dtype,
                  .shape = t->shape};
  if (t->dtype != TD_STRING) return NULL;
  int64_t count = td_tensor_count(t);
  td_bytes *text = td_calloc((size_t)count, sizeof *text);
  if (!text) return td_oom();
  for (int64_t i = 0; i < count; i++)
    text[i].at = td_tensor_str(t, i, &text[i].len);
  a->own = text;
  a->at = a->own;
  return NULL;
}

td_status *td_array_edit(const td_tensor *t, td_array *a) {
  TD_TRY(td_array_in(t, a));
  if (a->own) return NULL;
  size_t bytes = (size_t)td_shape_count(&a->shape) * a->size;
  a->own = td_malloc(bytes);
  if (!a->own) return td_oom();
  if (bytes) memcpy(a->own, a->at, bytes);
  a->at = a->own;
  return NULL;
}

enum { MANY = 1 << 16 };

td_status *td_array_fits(td_kernel_ctx *c, const td_shape *shape) {
  td_tensor probe;
  int64_t count = 0;
  TD_TRY(td_array_count(shape, &count));
  if (count <= MANY) return NULL;
  TD_TRY(td_temp(c, TD_COMPLEX128, shape, &probe));
  td_tensor_release(&probe);
  return NULL;
}

td_status *td_array_out(td_kernel_ctx *c, int i, const td_shape *shape,
                        td_array *a) {
  td_dtype dtype = td_ctx_node(c)->out[i].dtype;
  *a = (td_array){.size = element_size(dtype), .dtype = dtype, .shape = *shape};
  if (td_dtype_is_plain(dtype)) {
    td_tensor *t;
    TD_TRY(td_out(c, i, shape, &t));
    a->at = t->data;
    return NULL;
  }
  TD_TRY(td_array_fits(c, shape));
  a->own = td_calloc((size_t)td_shape_count(shape), a->size);
  if (!a->own) return td_oom();
  a->at = a->own;
  return NULL;
}

static td_status *build_strings(const td_array *a, td_tensor *t) {
  const td_bytes *from = (const void *)a->at;
  int64_t count = td_shape_count(&a->shape);
  size_t total = 0;
  uint64_t *offset;
  char *text;
  for (int64_t i = 0; i < count; i++)
    if (!td_add(total, from[i].len, &total)) return td_oom();
  TD_TRY(td_tensor_strings_new(&a->shape, total, t, &offset, &text));
  for (int64_t i = 0; i < count; i++) {
    if (from[i].len) memcpy(text, from[i].at, from[i].len);
    text += from[i].len;
    offset[i + 1] = offset[i] + from[i].len;
  }
  return NULL;
}

static td_status *build_objects(const td_array *a, td_tensor *t) {
  td_object *const *from = (const void *)a->at;
  int64_t count = td_shape_count(&a->shape);
  for (int64_t i = 0; i < count; i++)
    if (!from[i])
      return td_error(TD_INVALID_ARGUMENT,
                      "element %lld of a %s tensor would be left empty",
                      (long long)i, td_dtype_name(a->dtype));
  return td_tensor_objects(a->dtype, &a->shape, from, t);
}

td_status *td_array_make(const td_array *a, td_tensor *t) {
  return a->dtype == TD_STRING ? build_strings(a, t) : build_objects(a, t);
}

td_status *td_array_done(td_kernel_ctx *c, int i, const td_array *a) {
  td_tensor t;
  if (!a->own) return NULL; /* written in place */
  TD_TRY(td_array_make(a, &t));
  td_out_set(c, i, &t);
  td_tensor_release(&t);
  return NULL;
}

void td_array_drop(td_array *a) {
  td_free(a->own);
  a->own = NULL;
}

/* ---- shared buffers ------------------------------------------------------ */

td_status *td_array_share(td_kernel_ctx *c, int i, int in,
                          const td_shape *shape) {
  td_shape_text a, b;
  if (td_shape_count(shape) != td_tensor_count(td_in(c, in)))
    return td_error(
        TD_INVALID_ARGUMENT, "%s and %s have different numbers of elements",
        td_shape_str(&td_in(c, in)->shape, &a), td_shape_str(shape, &b));
  td_shape to = *shape; /* may be the input's own */
  td_out_pass(c, i, in);
  c->out[i].shape = to;
  return NULL;
}

td_status *td_array_view(td_kernel_ctx *c, int i, int in, int64_t first,
                         const td_shape *shape, bool *taken) {
  const td_tensor *x = td_in(c, in);
  td_shape flat = td_shape_vector(td_tensor_count(x));
  int64_t n = td_shape_count(shape);
  td_tensor all, some, t;
  *taken = !td_dtype_is_plain(x->dtype) ||
           n >= VIEW_BYTES / (int64_t)td_dtype_size(x->dtype);
  if (!*taken) return NULL;
  TD_TRY(td_tensor_reshape(x, &flat, &all));
  td_status *s = td_tensor_rows(&all, first, n, &some);
  td_tensor_release(&all);
  if (!td_ok(s)) return s;
  s = td_tensor_reshape(&some, shape, &t);
  td_tensor_release(&some);
  if (!td_ok(s)) return s;
  td_out_set(c, i, &t);
  td_tensor_release(&t);
  return NULL;
}

/* ---- results ------------------------------------------------------------- */

td_status *td_array_count(const td_shape *s, int64_t *count) {
  td_shape_text text;
  int64_t n = td_shape_count(s);
  if (n < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "a result of shape %s would have more than 2^63-1 elements",
                    td_shape_str(s, &text));
  if (count) *count = n;
  return NULL;
}

td_status *td_array_put(td_tensor *t, int64_t i, int64_t size,
                        const char *what) {
  if (t->dtype == TD_INT32 && size > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s is %lld, which does not fit int32: ask for int64", what,
                    (long long)size);
  td_tensor_set_i(t, i, size);
  return NULL;
}
