/* tensor.h - dtype, shape and a place in a buffer.
 *
 * A td_tensor is a small value: copy it with td_tensor_retain, move it by
 * assignment, end it with td_tensor_release. Contents are dense, row-major.
 * dtype TD_INVALID is "no tensor" (all zero bytes).
 *
 * string: `data` points to count + 1 offsets (uint64), each relative to the
 * *buffer's* start; element i is the bytes [offset[i], offset[i+1]). One block,
 * never changed once built; the memory form is the wire form.
 * resource, variant: each element is a counted td_object *, never NULL once
 * built; the buffer's release lets go of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TENSOR_H
#define TD_TENSOR_H

#include "engine/tensor/buffer.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

TD_BEGIN

typedef struct td_tensor {
  td_buffer *buffer; /* NULL only for TD_INVALID */
  void *data;        /* inside the buffer */
  td_dtype dtype;
  td_shape shape; /* last: its end is seldom read */
} td_tensor;

/* Uninitialised contents from `a` (NULL: host). Overflow and rank checked.
 * Plain dtypes only. */
td_status *td_tensor_new(td_allocator *a, td_dtype dtype, const td_shape *shape,
                         td_tensor *out) TD_MUST_USE;
/* Host tensor holding a copy of `bytes`. */
td_status *td_tensor_from(td_dtype dtype, const td_shape *shape,
                          const void *bytes, td_tensor *out) TD_MUST_USE;
/* A scalar of a plain dtype from a double / int64 (range not checked). */
td_status *td_tensor_scalar_f(td_dtype dtype, double v,
                              td_tensor *out) TD_MUST_USE;
td_status *td_tensor_scalar_i(td_dtype dtype, int64_t v,
                              td_tensor *out) TD_MUST_USE;

/* *to = *from, which is not retained. */
static inline void td_tensor_set(td_tensor *to, const td_tensor *from) {
  to->buffer = from->buffer;
  to->data = from->data;
  to->dtype = from->dtype;
  td_shape_set(&to->shape, &from->shape);
}
static inline void td_tensor_retain(const td_tensor *t, td_tensor *out) {
  td_tensor_set(out, t);
  td_buffer_retain(t->buffer);
}
static inline void td_tensor_release(td_tensor *t) {
  td_buffer_release(t->buffer);
  t->buffer = NULL;
  t->data = NULL;
  t->dtype = TD_INVALID;
}
static inline bool td_tensor_valid(const td_tensor *t) {
  return t->dtype != TD_INVALID;
}

int64_t td_tensor_count(const td_tensor *t);
/* Bytes of the contents; string: offsets and text; resource: 0. */
size_t td_tensor_bytes(const td_tensor *t);
bool td_tensor_on_host(const td_tensor *t); /* in host memory */
/* May code of this process read and write its contents? */
bool td_tensor_touchable(const td_tensor *t);

/* Same buffer, other shape of the same count. */
td_status *td_tensor_reshape(const td_tensor *t, const td_shape *shape,
                             td_tensor *out) TD_MUST_USE;
/* Rows [begin, begin + n) of axis 0, same buffer. */
td_status *td_tensor_rows(const td_tensor *t, int64_t begin, int64_t n,
                          td_tensor *out) TD_MUST_USE;
/* A fresh host copy. */
td_status *td_tensor_copy(const td_tensor *t, td_tensor *out) TD_MUST_USE;
/* n > 0 host tensors of one dtype side by side along a new first axis, in fresh
 * memory of `a`, which is touchable (NULL, and for strings: the host's). `room`
 * NULL: they have one shape. Else it is the shape each is padded to, of their
 * rank, -1 for as much as the longest needs, with the scalar `pad` (NULL: 0,
 * false, ""). Caller owns *out. */
td_status *td_tensor_stack(td_allocator *a, const td_tensor *at, int64_t n,
                           const td_shape *room, const td_tensor *pad,
                           td_tensor *out) TD_MUST_USE;
/* Same dtype, shape and bytes (NaNs by bits; strings by text). Host only. */
bool td_tensor_same(const td_tensor *a, const td_tensor *b);

/* Element i of a host tensor of plain dtype, widened; of a complex one the real
 * part (writing clears the other). Floats that an integer dtype cannot hold are
 * clamped, NaN is 0; integers wrap. */
double td_tensor_get_f(const td_tensor *t, int64_t i);
int64_t td_tensor_get_i(const td_tensor *t, int64_t i);
void td_tensor_set_f(td_tensor *t, int64_t i, double v); /* rounds */
void td_tensor_set_i(td_tensor *t, int64_t i, int64_t v);

/* Strings. */
const char *td_tensor_str(const td_tensor *t, int64_t i, size_t *len);
/* Builds a string tensor from count pointers and lengths. */
td_status *td_tensor_strings(const td_shape *shape, const char *const *at,
                             const size_t *len, td_tensor *out) TD_MUST_USE;
/* The same in two steps: allocates the block for `total` bytes of text; the
 * caller fills `text` and offsets 1 to count; offsets[0], where the text
 * begins, and the last one are set. */
td_status *td_tensor_strings_new(const td_shape *shape, size_t total,
                                 td_tensor *out, uint64_t **offsets,
                                 char **text) TD_MUST_USE;
/* Are the offsets of a block from outside ascending and within its buffer?
 * DATA_LOSS if not; nothing else of this header may see it before. */
td_status *td_tensor_strings_check(const td_tensor *t) TD_MUST_USE;

/* Counted things that resource and variant tensors hold. */
typedef struct td_object {
  int32_t refs;     /* atomic */
  const char *type; /* "variable", "queue", ...: a static string */
  void (*free)(struct td_object *o);
  bool named; /* it begins a td_resource (device/resource.h), and has a lock */
} td_object;

td_object *td_object_retain(td_object *o);
void td_object_release(td_object *o);
/* Scalar of TD_RESOURCE or TD_VARIANT. Takes ownership of `o`. */
td_status *td_tensor_object(td_dtype dtype, td_object *o,
                            td_tensor *out) TD_MUST_USE;
/* Of any shape, from as many objects; holds each of them once more. */
td_status *td_tensor_objects(td_dtype dtype, const td_shape *shape,
                             td_object *const *at, td_tensor *out) TD_MUST_USE;
/* Borrowed; valid while `t` lives. NULL when `t` is no such scalar. */
td_object *td_tensor_get_object(const td_tensor *t);

/* A person's view: "float32 {2, 3} 1 2 3 ..." with at most `limit` elements. */
void td_tensor_print(const td_tensor *t, int64_t limit, td_str *out);

TD_END
#endif
