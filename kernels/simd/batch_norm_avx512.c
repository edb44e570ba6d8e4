/* batch_norm_avx512.c - the loops of batch normalisation for AVX-512.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define BATCH_NORM_LOOPS td_batch_norm_avx512
#include "kernels/simd/batch_norm_loops.h"
