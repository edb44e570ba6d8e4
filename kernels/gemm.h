/* gemm.h - products of matrices, one or many.
 *
 * C = op(A) op(B) for row-major matrices; op transposes, and conjugates complex
 * elements. C is cut into panels by sizes and dtype alone, so that results have
 * the same bits for any number of threads; a panel takes at most some 20 ms,
 * so that a cancelled step stops soon.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GEMM_H
#define TD_GEMM_H

#include "engine/device/kernel.h"

typedef struct td_gemm {
  td_dtype dtype;
  int64_t m, n, k; /* C is m x n, op(A) m x k, op(B) k x n */
  const void *a, *b;
  void *c;
  int64_t lda, ldb, ldc; /* elements from one row to the next, as stored */
  bool trans_a, trans_b;
  bool conj_a, conj_b;
  /* Many products: `batch` of them, each with its place in A, B and C. NULL:
   * one. Offsets are in elements, batch triples {a, b, c}. */
  int64_t batch;
  const int64_t *offsets;
} td_gemm;

/* Computes all of C, zeros where k is 0. */
td_status *td_gemm_run(const td_kernel_ctx *c, const td_gemm *g) TD_MUST_USE;

/* The same for float16 and bfloat16 tensors, whole: computed in float, rounded
 * once. Sets dtype, a, b and c of `g`. */
td_status *td_gemm_half(td_kernel_ctx *c, td_gemm *g, const td_tensor *a,
                        const td_tensor *b, td_tensor *out) TD_MUST_USE;

#endif
