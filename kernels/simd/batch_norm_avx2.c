/* batch_norm_avx2.c - the loops of batch normalisation for AVX2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define BATCH_NORM_LOOPS td_batch_norm_avx2
#include "kernels/simd/batch_norm_loops.h"
