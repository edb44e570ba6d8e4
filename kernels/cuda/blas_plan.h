/* blas_plan.h - cuBLASLt's functions, and a product as its descriptors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_BLAS_PLAN_H
#define TD_CUDA_BLAS_PLAN_H

#include <cublasLt.h>

#include "engine/device/precision.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/door.h"

/* Its functions that are used, by the ends of their names. */
#define TD_CUBLASLT_EACH(M)                                                    \
  M(GetVersion)                                                                \
  M(Create)                                                                    \
  M(Destroy)                                                                   \
  M(Matmul)                                                                    \
  M(MatmulAlgoGetHeuristic)                                                    \
  M(MatmulDescCreate)                                                          \
  M(MatmulDescDestroy)                                                         \
  M(MatmulDescSetAttribute)                                                    \
  M(MatrixLayoutCreate)                                                        \
  M(MatrixLayoutDestroy)                                                       \
  M(MatrixLayoutSetAttribute)                                                  \
  M(MatmulPreferenceCreate)                                                    \
  M(MatmulPreferenceDestroy)                                                   \
  M(MatmulPreferenceSetAttribute)

typedef struct td_cublaslt {
#define TD_CUBLASLT_FIELD(name) __typeof__(&cublasLt##name) name;
  TD_CUBLASLT_EACH(TD_CUBLASLT_FIELD)
#undef TD_CUBLASLT_FIELD
} td_cublaslt;

/* The library; NULL: it is not there. Opened at the first call. */
const td_cublaslt *td_cublaslt_open(void);
void td_cublaslt_tell(td_str *out);

/* All that a plan depends on. Without padding: compared byte by byte. */
typedef struct td_cuda_plan_key {
  int64_t m, n, k, batch, step_a, step_b;
  int32_t dtype, matmul; /* td_dtype, td_matmul_type */
  int32_t op_a, op_b;    /* cublasOperation_t of our a and b */
  /* Bytes, powers of two up to 256, that addresses are multiples of. */
  int32_t align_a, align_b, align_to;
  int32_t deterministic;
} td_cuda_plan_key;

/* Columns one after the other, as the library sees it: first is b, second a. */
typedef struct td_cuda_plan {
  td_cuda_plan_key key;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t first, second, to;
  cublasLtMatmulAlgo_t algo;
  size_t workspace; /* bytes that algo needs */
  bool none;        /* the library has no way to do it */
} td_cuda_plan;

/* False: no kind of product that the library may know. */
bool td_cuda_plan_key_of(const td_cuda_product *p, td_precision precision,
                         td_cuda_plan_key *key);
/* Makes the descriptors of plan->key. False: `none` is set. */
bool td_cuda_plan_describe(const td_cublaslt *lt, td_cuda_plan *plan);
/* And finds the way, of `most` bytes of working memory at most. The same. */
bool td_cuda_plan_find(const td_cublaslt *lt, cublasLtHandle_t handle,
                       size_t most, td_cuda_plan *plan);
void td_cuda_plan_deinit(const td_cublaslt *lt, td_cuda_plan *plan);
/* 1 and 0 in what sums are scaled by. */
const void *td_cuda_plan_one(const td_cuda_plan *plan);
const void *td_cuda_plan_zero(void);

#endif
