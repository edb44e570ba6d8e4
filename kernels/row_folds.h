/* row_folds.h - rows of elements summed, multiplied, compared where they meet.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ROW_FOLDS_H
#define TD_ROW_FOLDS_H

#include "kernels/array.h"

TD_BEGIN

typedef enum td_row_fold_op {
  TD_ROW_FOLD_SUM, /* of bools: or */
  TD_ROW_FOLD_SUB, /* from what there is */
  TD_ROW_FOLD_PROD,
  TD_ROW_FOLD_MAX, /* NaN comes through */
  TD_ROW_FOLD_MIN,
  TD_ROW_FOLD_SET, /* the last one stays; any plain dtype */
} td_row_fold_op;

/* Row from[i] of an input is folded into row to[i] of the result, in the order
 * of i. The rows must be in range. */
typedef struct td_row_fold {
  td_row_fold_op op;
  int64_t n, each;     /* items; elements of a row */
  const int64_t *to;   /* -1: left out */
  const int64_t *from; /* NULL: i */
  const double *by;    /* multiply item i first, in sums of floats; or NULL */
  const double *over;  /* divide the result's rows at the end; or NULL */
  bool onto;           /* begin with input 0, of the result's shape ... */
  bool zero;           /* ... or with what changes nothing; rows that nothing
                        * went to are then 0, else the least or greatest
                        * number of a maximum or minimum */
} td_row_fold;

/* Makes output 0, of `shape`, from the rows of input `in`. half and bfloat16
 * are folded in float and rounded once. Same bits for any number of threads. */
td_status *td_row_fold_run(td_kernel_ctx *c, int in, const td_row_fold *f,
                           const td_shape *shape) TD_MUST_USE;

TD_END
#endif
