/* fake_cudnn.h - what the fake cuDNN (tests/cuda/libraries/cudnn.c) counts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CUDA_FAKE_CUDNN_H
#define TEST_CUDA_FAKE_CUDNN_H

#include "tests/cuda/fake/fake.h"

/* Its engines, best first; the last of another list. */
enum {
  TD_FAKE_RANDOM,   /* other bits in every run, it says */
  TD_FAKE_COMPILED, /* is to be compiled first */
  TD_FAKE_CORES,    /* tensor cores: of floats not exact */
  TD_FAKE_EXACT,    /* takes workspace */
  TD_FAKE_LAST,     /* takes none */
  TD_FAKE_ENGINES
};

typedef struct td_fake_cudnn_counts {
  int64_t handles, descriptors; /* that are there */
  int64_t asked;                /* for engines */
  int64_t refused;              /* for what is wrong with them */
  int64_t ran[TD_FAKE_ENGINES];
} td_fake_cudnn_counts;

TD_FAKE_EXPORT extern td_fake_cudnn_counts td_fake_cudnn; /* atomic, each */

#endif
