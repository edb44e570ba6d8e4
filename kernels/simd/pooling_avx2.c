/* pooling_avx2.c - the loops of pooling for AVX2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define TD_WIDE
#define POOLING_TABLE td_pooling_avx2
#include "kernels/simd/pooling_loops.h"
