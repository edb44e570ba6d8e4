/* gemm_tile_avx512.c - tiles for AVX-512: sixteen of 32 registers hold sums,
 * enough to hide the latency of two multiply-adds a cycle.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#define TILE_TABLE td_gemm_tile_avx512
#define BYTES 64
#define ROWS 8
#define EACH_ROWS EACH_EIGHT
#define FMA_f32(x, y, z)                                                       \
  ((vec_f32)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z))
#define FMA_f64(x, y, z)                                                       \
  ((vec_f64)_mm512_fmadd_pd((__m512d)x, (__m512d)y, (__m512d)z))
#define FMA1_f32(x, y, z) __builtin_fmaf(x, y, z)
#define FMA1_f64(x, y, z) __builtin_fma(x, y, z)
#include "kernels/simd/gemm_tile_loops.h"
