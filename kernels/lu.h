/* lu.h - the factors of P A = L U of square matrices, for Lu and determinants.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LU_H
#define TD_LU_H

#include "kernels/linalg.h"

TD_BEGIN

typedef struct td_lu {
  const td_tensor *matrix; /* the matrices, set by the caller */
  bool visible;            /* pivots are part of the result */
  size_t a, pivots;        /* places in the working memory */
} td_lu;

/* Describes the matrices to `l`, begins it and makes room for a factor. */
td_status *td_lu_begin(td_linalg *l, td_lu *f) TD_MUST_USE;
/* Factors matrix i: *a is L, without its diagonal of ones, and U, by columns;
 * row k was exchanged for row (*pivots)[k] - 1, in the order of k. Not 0 when
 * the matrix is singular. */
int td_lu_factor(const td_linalg *l, const td_lu *f, int64_t i, void *work,
                 void **a, int **pivots);
/* The same in place, of l->m columns that are loaded. */
int td_lu_columns(const td_linalg *l, bool visible, void *a, int *pivots);

TD_END
#endif
