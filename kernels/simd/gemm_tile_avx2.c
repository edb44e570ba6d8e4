/* gemm_tile_avx2.c - tiles for AVX2: twelve of sixteen registers hold sums.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#define TILE_TABLE td_gemm_tile_avx2
#define BYTES 32
#define ROWS 6
#define EACH_ROWS EACH_SIX
#define FMA_f32(x, y, z)                                                       \
  ((vec_f32)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z))
#define FMA_f64(x, y, z)                                                       \
  ((vec_f64)_mm256_fmadd_pd((__m256d)x, (__m256d)y, (__m256d)z))
#define FMA1_f32(x, y, z) __builtin_fmaf(x, y, z)
#define FMA1_f64(x, y, z) __builtin_fma(x, y, z)
#include "kernels/simd/gemm_tile_loops.h"
