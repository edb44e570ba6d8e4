/* reduce.h - axes of a tensor reduced (here: folded) to a sum, product, maximum
 * or minimum: plans, loops, and the one way to run them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REDUCE_H
#define TD_REDUCE_H

#include "kernels/cpu.h"

TD_BEGIN

/* ---- what is folded ------------------------------------------------------
 *
 * Axes of size 1 are dropped and neighbours that are both kept or both folded
 * are merged; what is left alternates. The result is `groups` rows of `width`
 * elements, `width` being the innermost axis when it is kept, else 1. A group
 * is folded from `blocks` blocks of `rows` rows of `width` elements, each block
 * one piece of memory. Of a {2, 3, 4} tensor
 *
 *   folded axes   groups  blocks  rows  width
 *   1                  2       1     3      4
 *   0                  1       1     2     12
 *   2                  6       1     4      1
 *   0 and 2            3       2     4      1
 */
typedef struct td_reduce_plan {
  int64_t groups, blocks, rows, width;
  /* where groups and blocks begin: axes, innermost first, in elements */
  int32_t n_kept, n_folded;
  int64_t kept_size[TD_MAX_RANK], kept_step[TD_MAX_RANK];
  int64_t folded_size[TD_MAX_RANK], folded_step[TD_MAX_RANK];
} td_reduce_plan;

/* `folded` has a flag for each axis of `shape`. */
void td_reduce_plan_of(const td_shape *shape, const bool *folded,
                       td_reduce_plan *p);

/* Reads axes (int32 or int64, scalar or vector, negative from the end) of a
 * tensor of rank `rank`: out of range and twice the same are refused. */
td_status *td_reduce_axes(const td_tensor *axes, int rank,
                          bool *folded) TD_MUST_USE;
/* The result's shape. */
td_shape td_reduce_shape(const td_shape *shape, const bool *folded, bool keep);

/* ---- loops --------------------------------------------------------------- */

enum {
  TD_REDUCE_SUM,
  TD_REDUCE_PROD,
  TD_REDUCE_MAX, /* NaN comes through */
  TD_REDUCE_MIN,
  TD_REDUCE_SQUARES, /* sum of squares; of a complex number's two parts */
  TD_REDUCE_TOTAL,   /* sum in 64 bits, integers */
  TD_REDUCE_LOOPS
};

typedef struct td_reduce_loop {
  /* Adds (multiplies, ...) x[i], x[i + stride], ... of n rows to acc[i], for
   * i < width. Four rows at a time are joined two by two, then with acc: the
   * same order on every processor. */
  void (*take)(void *acc, const void *x, int64_t n, int64_t width,
               int64_t stride);
  /* Folds `lanes` rows of `width`, a power of 2 of them, into the first: the
   * upper half into the lower one, again and again. */
  void (*halve)(void *acc, int64_t lanes, int64_t width);
} td_reduce_loop;
typedef td_reduce_loop td_reduce_table[TD_REDUCE_LOOPS][TD_DTYPES];

extern const td_reduce_table td_reduce_scalar, td_reduce_avx2, td_reduce_avx512;

/* `take` is NULL when there is none. */
td_reduce_loop td_reduce_find(int loop, td_dtype t, td_isa isa);

/* ---- running ------------------------------------------------------------- */

/* What is done with a sum at the end. */
typedef enum td_reduce_end {
  TD_REDUCE_KEEP,
  TD_REDUCE_MEAN, /* divided by the number of elements folded */
  TD_REDUCE_HALVE,
  TD_REDUCE_ROOT, /* of squares; of integers, rounded toward 0 */
} td_reduce_end;

/* Folds x by `plan` into y, which has plan->groups * plan->width elements of
 * x's dtype. float16 and bfloat16 are folded in float and rounded once, means
 * of integers in 64 bits. Same bits for any number of threads. */
td_status *td_reduce_run(td_kernel_ctx *c, int loop, td_reduce_end end,
                         const td_tensor *x, const td_reduce_plan *plan,
                         td_tensor *y) TD_MUST_USE;

TD_END
#endif
