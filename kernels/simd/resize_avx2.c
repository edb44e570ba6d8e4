/* resize_avx2.c - the loops of resizing for AVX2: a window is two vectors, of
 * which each element is looked up in both.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "kernels/resize_line.h"

#define RESIZE_TABLE td_resize_avx2
enum { BLOCK = 8, WINDOW = 16 };

static inline __m256 look_up(__m256 first, __m256 second, const int32_t *at) {
  __m256i i = _mm256_loadu_si256((const __m256i *)(const void *)at);
  __m256i behind = _mm256_cmpgt_epi32(i, _mm256_set1_epi32(7));
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(first, i),
                          _mm256_permutevar8x32_ps(second, i),
                          _mm256_castsi256_ps(behind));
}

static inline void mix_near(const td_resize_places *p, int64_t at,
                            const float *from, float *to) {
  __m256 first = _mm256_loadu_ps(from), second = _mm256_loadu_ps(from + 8);
  __m256 low = look_up(first, second, p->low + at);
  __m256 high = look_up(first, second, p->high + at);
  __m256 part =
      _mm256_mul_ps(_mm256_sub_ps(high, low), _mm256_loadu_ps(p->share + at));
  _mm256_storeu_ps(to + at, _mm256_add_ps(low, part));
}

#include "kernels/simd/resize_loops.h"
