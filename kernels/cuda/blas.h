/* blas.h - products of matrices by cuBLASLt, where it is there.
 *
 *   blas_plan.c  the library, and what is told it of a product
 *   blas.c       products enqueued; the plans of those seen before
 *
 * A product that is declined (*done false) is for kernels of our own: the
 * library is absent, or has no way to it. How exact it is: td_precision_get().
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_BLAS_H
#define TD_CUDA_BLAS_H

#include "kernels/cuda/cuda.h"
#include "kernels/matmul.h"

#ifdef __cplusplus
extern "C" {
#endif

/* to {m, n} = a {m, k} b {k, n}, `batch` times; all of dtype, rows one after
 * the other. A transposed operand is stored the other way round. */
typedef struct td_cuda_product {
  td_dtype dtype;
  int64_t m, n, k, batch;
  bool trans_a, trans_b;
  bool conj_a, conj_b;    /* only with trans_ */
  int64_t step_a, step_b; /* elements from a matrix to the next; 0: the same */
  const void *a, *b;
  void *to;
} td_cuda_product;

/* By a kernel that runs. */
td_status *td_cuda_blas_product(td_kernel_ctx *c, const td_cuda_product *p,
                                bool *done) TD_MUST_USE;
/* What `p` says of a and b, whose batches broadcast, into y. */
td_status *td_cuda_blas_matmul(td_kernel_ctx *c, const td_matmul *p,
                               const td_tensor *a, const td_tensor *b,
                               const td_tensor *y, bool *done) TD_MUST_USE;
/* What a device has of the library; NULL: nothing. */
void td_cuda_blas_free(struct td_cuda_blas *b);
/* A line for people. */
void td_cuda_blas_tell(td_str *out);

#ifdef __cplusplus
}
#endif
#endif
