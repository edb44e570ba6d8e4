/* product.h - one product of two matrices, as every way to compute it takes it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PRODUCT_H
#define TD_PRODUCT_H

#include "engine/tensor/dtype.h"

/* C = op(A) op(B), all row-major; op transposes, and conjugates complex
 * elements that it transposes. C overlaps neither A nor B. */
typedef struct td_product {
  td_dtype dtype;
  int64_t m, n, k; /* C is m x n, op(A) m x k, op(B) k x n */
  const void *a, *b;
  void *c;
  int64_t lda, ldb, ldc; /* elements from one row to the next, as stored */
  bool trans_a, trans_b;
  bool conj_a, conj_b; /* only with trans_a, trans_b */
} td_product;

#endif
