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

typedef struct td_strided_slice {
  int rank; /* of the input; one of each for every axis of it: */
  int64_t begin[TD_MAX_RANK], stride[TD_MAX_RANK];
  int64_t size[TD_MAX_RANK]; /* elements taken; -1: not known */
  td_shape out;              /* with new axes, without those shrunk */
  bool known;                /* every begin, stride and size is */
} td_strided_slice;

/* In a shape function: what a node whose vectors are the inputs from `first` on
 * takes of `in`; of unknown rank while that is not known. */
td_status *td_strided_slice_ask(td_infer *c, const td_shape *in, int first,
                                td_shape *out) TD_MUST_USE;
/* In a kernel: the slice itself. */
td_status *td_strided_slice_read(td_kernel_ctx *c, const td_shape *in,
                                 int first,
                                 td_strided_slice *slice) TD_MUST_USE;
/* Writes `part` into a slice of `whole`, of `shape` and with elements. */
td_status *td_strided_slice_put(const td_kernel_ctx *c,
                                const td_strided_slice *s,
                                const td_shape *shape, const td_array *part,
                                td_array *whole) TD_MUST_USE;

TD_END
#endif
