/* pooling_avx512.c - the loops of pooling for AVX-512.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define TD_WIDE
#define POOLING_TABLE td_pooling_avx512
#include "kernels/simd/pooling_loops.h"
