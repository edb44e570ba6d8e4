/* gemm.h - products of matrices, one or many.
 *
 * A product is cut into panels by its sizes, dtype and the way it is computed,
 * never by threads, so that results have the same bits for any number of them.
 * A panel takes 20 ms at most, so that a cancelled step stops soon.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GEMM_H
#define TD_GEMM_H

#include "engine/base/cpu.h"
#include "engine/device/kernel.h"
#include "kernels/blas/product.h"

/* Computes all of C, zeros where k is 0. `batch` products alike, each with its
 * place in A, B and C: offsets in elements, triples {a, b, c}; NULL: one. Any
 * number dtype but float16 and bfloat16. */
td_status *td_gemm(td_kernel_ctx *c, const td_product *p, int64_t batch,
                   const int64_t *offsets) TD_MUST_USE;
/* The same for float16 and bfloat16, whole tensors: computed in float, rounded
 * once. Sets dtype, a, b and c of `p`. */
td_status *td_gemm_half(td_kernel_ctx *c, td_product *p, int64_t batch,
                        const int64_t *offsets, const td_tensor *a,
                        const td_tensor *b, td_tensor *out) TD_MUST_USE;

/* The sum of `count` parts of n elements, one after the other, in order; `sum`
 * may be the first of them. */
void td_gemm_sum(td_kernel_ctx *c, td_dtype dtype, const void *parts, int64_t n,
                 int64_t count, void *sum);

/* ---- for the above, and tests of it ---- */

typedef enum td_gemm_way {
  TD_GEMM_LOOP, /* plain loops: any dtype */
  TD_GEMM_TILE, /* gemm_tile.h: float, double */
  TD_GEMM_BLAS, /* OpenBLAS: float, double, complex */
  TD_GEMM_DNN,  /* oneDNN: float */
} td_gemm_way;

td_status *td_gemm_by(td_kernel_ctx *c, td_gemm_way way, const td_product *p,
                      int64_t batch, const int64_t *offsets) TD_MUST_USE;
/* Plain loops. */
void td_gemm_loop(const td_product *p);

#endif
