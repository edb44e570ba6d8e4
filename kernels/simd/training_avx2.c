/* training_avx2.c - the loops of training.def for AVX2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define TD_WIDE
#define TRAINING_TABLE td_training_avx2
#include "kernels/simd/training_loops.h"
