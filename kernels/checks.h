/* checks.h - what ops ask of their operands before they run, on whatever
 * device: the kernels of a card and those of the processor refuse alike.
 *
 * Each is defined beside the op's row. Operands that are looked at are in the
 * host's memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CHECKS_H
#define TD_CHECKS_H

#include "engine/device/kernel.h"
#include "kernels/broadcast.h"

TD_BEGIN

/* A tensor seen along one of its axes. */
typedef struct td_along {
  int64_t outer, n, inner; /* before the axis, along it, behind it */
} td_along;

/* Gradient ops of binary.def: operands that do not broadcast. */
td_status *td_binary_check_same(const td_tensor *x,
                                const td_tensor *y) TD_MUST_USE;
td_status *td_approximate_check(const td_kernel_ctx *c) TD_MUST_USE;
/* ArgMax, ArgMin; *out is the result's shape. */
td_status *td_argmax_check(const td_kernel_ctx *c, td_along *a,
                           td_shape *out) TD_MUST_USE;
/* Cumsum and its like. */
td_status *td_scan_check(const td_kernel_ctx *c, td_along *a) TD_MUST_USE;
/* Select: the condition's shape, with axes of 1 behind it. */
td_status *td_select_check(const td_kernel_ctx *c, td_shape *seen) TD_MUST_USE;
/* Ops of ternary.c: scalars go with everything, others must agree. */
td_status *td_ternary_check(const td_kernel_ctx *c, bool clip,
                            td_broadcast *plan, td_shape *out) TD_MUST_USE;
td_status *td_cast_check(td_dtype from, td_dtype to) TD_MUST_USE;
/* With Truncate: bits of the fraction, as a float or double, to clear. */
int td_cast_drop(const td_kernel_ctx *c);
td_status *td_add_n_check(const td_kernel_ctx *c) TD_MUST_USE;
td_status *td_cross_check(const td_kernel_ctx *c, td_shape *out) TD_MUST_USE;
td_status *td_fill_check(const td_kernel_ctx *c, td_shape *out) TD_MUST_USE;
td_status *td_broadcast_to_check(const td_kernel_ctx *c,
                                 td_shape *out) TD_MUST_USE;
td_status *td_one_hot_check(const td_kernel_ctx *c, int *axis,
                            td_shape *out) TD_MUST_USE;

/* Range: element k is f[0] + k * f[2], or so in integers. */
typedef struct td_range_bounds {
  td_dtype dtype;
  double f[3]; /* start, limit, delta */
  int64_t i[3];
} td_range_bounds;
td_status *td_range_check(const td_kernel_ctx *c, td_range_bounds *b,
                          int64_t *n) TD_MUST_USE;
td_status *td_linspace_check(const td_kernel_ctx *c, double *start,
                             double *stop, int64_t *n) TD_MUST_USE;

/* Bincount (dense: DenseBincount): rows of bins, `size` each. */
td_status *td_bincount_check(const td_kernel_ctx *c, bool dense, int64_t *rows,
                             int64_t *size, td_shape *out) TD_MUST_USE;
td_status *td_histogram_check(const td_kernel_ctx *c, double *low, double *high,
                              int64_t *bins) TD_MUST_USE;

TD_END
#endif
