/* row_reduce.h - rows that go to one row of the result are summed, multiplied
 * or compared there, as in UnsortedSegmentSum, ScatterNd and SparseSegmentMean.
 *
 * With `to` = {2, 0, 2} and sums, row 2 of the result is rows 0 and 2 of the
 * input added up, row 0 is row 1 of the input, and nothing goes to row 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ROW_REDUCE_H
#define TD_ROW_REDUCE_H

#include "engine/device/kernel.h"

TD_BEGIN

typedef enum td_row_reduce_op {
  TD_ROW_REDUCE_SUM, /* of bools: or */
  TD_ROW_REDUCE_SUB, /* from what there is */
  TD_ROW_REDUCE_PROD,
  TD_ROW_REDUCE_MAX, /* NaN comes through */
  TD_ROW_REDUCE_MIN,
  TD_ROW_REDUCE_SET, /* the last one stays; any plain dtype */
} td_row_reduce_op;

/* Row from[i] of an input is reduced into row to[i] of the result, in the order
 * of i. The rows must be in range. */
typedef struct td_row_reduce {
  td_row_reduce_op op;
  int64_t n, each;     /* items; elements of a row */
  const int64_t *to;   /* -1: left out */
  const int64_t *from; /* NULL: i */
  const double *by;    /* multiply item i first, in sums of floats; or NULL */
  const double *over;  /* divide the result's rows at the end; or NULL */
  bool onto;           /* begin with input 0, of the result's shape ... */
  bool zero;           /* ... or with what changes nothing; rows that nothing
                        * went to are then 0, else the least or greatest
                        * number of a maximum or minimum */
} td_row_reduce;

/* Makes output 0, of `shape`, from the rows of input `in`. float16 and
 * bfloat16 are reduced in float and rounded once. Same bits for any number of
 * threads. */
td_status *td_row_reduce_run(td_kernel_ctx *c, int in, const td_row_reduce *f,
                             const td_shape *shape) TD_MUST_USE;

TD_END
#endif
