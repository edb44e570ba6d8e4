/* tensor_list.h - a list of tensors of one dtype, as a variant.
 *
 * Loops of TensorFlow 2 put aside in lists what their gradients need. A list
 * does not change: who appends to one gets another, which shares the elements.
 * Where nobody else holds the first it is not copied but changed, so that
 * appending in a loop takes no longer as the list grows. An element that nobody
 * set is TD_INVALID and reads as zeros. All lives in host memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TENSOR_LIST_H
#define TD_TENSOR_LIST_H

#include "engine/base/vec.h"
#include "kernels/variant.h"

TD_BEGIN

typedef struct td_tensor_list {
  td_variant variant;     /* first: a list is a td_variant */
  td_dtype dtype;         /* TD_INVALID: not known */
  td_shape each;          /* of every element, as far as it was said */
  int64_t most;           /* elements that may be appended to, -1: any number */
  TD_VEC(td_tensor) list; /* counted each; TD_INVALID: not set */
} td_tensor_list;

/* An empty list, with room for `room` elements. Caller owns the result. */
td_status *td_tensor_list_new(td_kernel_ctx *c, td_dtype dtype,
                              const td_shape *each, int64_t room,
                              td_tensor_list **out) TD_MUST_USE;
static inline void td_tensor_list_release(td_tensor_list *l) {
  if (l) td_object_release(&l->variant.object);
}
/* Input i; it holds `dtype` (TD_INVALID: any). Borrowed. */
td_status *td_tensor_list_in(const td_kernel_ctx *c, int i, td_dtype dtype,
                             const td_tensor_list **out) TD_MUST_USE;
/* The same of any object of a variant tensor. */
td_status *td_tensor_list_of(td_object *o, td_dtype dtype,
                             const td_tensor_list **out) TD_MUST_USE;

/* Input i, to be changed and given as output 0: itself where the kernel alone
 * holds it, else a copy. Ends with td_tensor_list_close. */
typedef struct td_tensor_list_edit {
  td_tensor_list *list;
  bool fresh; /* a copy; owned */
} td_tensor_list_edit;
td_status *td_tensor_list_open(td_kernel_ctx *c, int i, td_dtype dtype,
                               td_tensor_list_edit *e) TD_MUST_USE;
/* Ends with the list as output 0, unless `s` is an error. Takes ownership of
 * `s` and gives it back. */
td_status *td_tensor_list_close(td_kernel_ctx *c, int i, td_tensor_list_edit *e,
                                td_status *s) TD_MUST_USE;

/* Elements 0 to size - 1 remain, new ones are not set. */
td_status *td_tensor_list_resize(td_kernel_ctx *c, td_tensor_list *l,
                                 int64_t size) TD_MUST_USE;
/* Element k, which is there, becomes a share of `t`; k may be one beyond the
 * end. */
td_status *td_tensor_list_put(td_tensor_list *l, int64_t k,
                              const td_tensor *t) TD_MUST_USE;
/* A share of `t` behind the last one, unless the list is full. */
td_status *td_tensor_list_append(td_tensor_list *l,
                                 const td_tensor *t) TD_MUST_USE;

/* Input i, a vector of sizes (-1: not known) or the scalar -1, as a shape: for
 * kernels and for shape functions. */
td_status *td_tensor_list_shape(const td_tensor *t, td_shape *out) TD_MUST_USE;
td_status *td_tensor_list_infer_shape(td_infer *c, int i,
                                      td_shape *out) TD_MUST_USE;
/* `each` becomes what it and the list say; an error when they contradict. */
td_status *td_tensor_list_merge(const td_tensor_list *l,
                                td_shape *each) TD_MUST_USE;

TD_END
#endif
