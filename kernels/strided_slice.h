/* strided_slice.h - what x[a:b:c, ..., new, i] means.
 *
 * One reading of begin, end, strides and the five masks for the shape function,
 * the kernel, the gradient and assignments to slices.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STRIDED_SLICE_H
#define TD_STRIDED_SLICE_H

#include "kernels/array.h"
#include "kernels/strided_copy.h"

TD_BEGIN

/* Bit i of a mask speaks of position i of the vectors. */
typedef struct td_strided_masks {
  int64_t begin, end, ellipsis, new_axis, shrink;
} td_strided_masks;

typedef struct td_strided_slice {
  int rank; /* of the input; one of each for every axis of it: */
  int64_t begin[TD_MAX_RANK], stride[TD_MAX_RANK];
  int64_t size[TD_MAX_RANK]; /* elements taken; -1: not known */
  td_shape out;              /* with new axes, without those shrunk */
  bool known;                /* every begin, stride and size is */
} td_strided_slice;

/* `in` is of known rank; its sizes and the vectors may be known in part. */
td_status *td_strided_slice_parse(const td_shape *in, const td_small *begin,
                                  const td_small *end, const td_small *strides,
                                  const td_strided_masks *masks,
                                  td_strided_slice *s) TD_MUST_USE;
/* The masks of a node that has them as attributes. */
td_strided_masks td_strided_slice_masks(const td_node *n);
/* Describes a known slice as a copy: `from` steps through the whole tensor, `to`
 * through what is taken of it. Returns the element of the whole it begins at. */
int64_t td_strided_slice_copy(const td_strided_slice *s, const td_shape *in,
                              td_strided_copy *copy);
/* In a shape function: what a node whose vectors are the inputs from `first` on
 * takes of `in`; of unknown rank while that is not known. */
td_status *td_strided_slice_ask(td_infer *c, const td_shape *in, int first,
                                td_shape *out) TD_MUST_USE;
/* In a kernel: the slice itself. */
td_status *td_strided_slice_read(td_kernel_ctx *c, const td_shape *in,
                                 int first,
                                 td_strided_slice *slice) TD_MUST_USE;
/* Writes `part` into a slice of `whole`, of `shape` and with elements. */
void td_strided_slice_put(const td_kernel_ctx *c, const td_strided_slice *s,
                          const td_shape *shape, const td_array *part,
                          td_array *whole);
/* Is a known slice a dense run of elements? */
bool td_strided_slice_dense(const td_strided_slice *s, const td_shape *in);

TD_END
#endif
