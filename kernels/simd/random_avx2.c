/* random_avx2.c - the loops of the random ops for AVX2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#define RANDOM_TABLE td_random_avx2
#define WIDTH 32
#define LOW_PRODUCT(a, b) (lanes) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#include "kernels/simd/random_loops.h"
