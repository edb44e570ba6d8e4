/* training_avx512.c - the loops of training.def for AVX-512.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define TD_WIDE
#define TRAINING_TABLE td_training_avx512
#include "kernels/simd/training_loops.h"
