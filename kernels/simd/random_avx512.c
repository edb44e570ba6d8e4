/* random_avx512.c - the loops of the random ops for AVX-512.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#define RANDOM_TABLE td_random_avx512
#define WIDTH 64
#define LOW_PRODUCT(a, b) (lanes) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#include "kernels/simd/random_loops.h"
