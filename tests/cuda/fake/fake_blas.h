/* fake_blas.h - what the fake cuBLASLt (tests/cuda/libraries/cublasLt.c) counts,
 * and what a test may have it do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CUDA_FAKE_BLAS_H
#define TEST_CUDA_FAKE_BLAS_H

#include "tests/cuda/fake/fake.h"

typedef struct td_fake_blas_counts {
  int64_t handles, descriptors; /* that are there */
  int64_t asked;    /* for a way */
  int64_t products; /* enqueued, or refused for what is wrong with them */
  int64_t refused;
  int64_t none; /* set by a test: there is no way to anything */
} td_fake_blas_counts;

TD_FAKE_EXPORT extern td_fake_blas_counts td_fake_blas; /* atomic, each */

#endif
