/* resize_avx512.c - the loops of resizing for AVX-512: a window is two vectors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "kernels/resize_line.h"

#define RESIZE_TABLE td_resize_avx512
enum { BLOCK = 16, WINDOW = 32 };

static inline void mix_near(const td_resize_places *p, int64_t at,
                            const float *from, float *to) {
  __m512 first = _mm512_loadu_ps(from), second = _mm512_loadu_ps(from + 16);
  __m512i i = _mm512_loadu_si512(p->low + at);
  __m512i k = _mm512_loadu_si512(p->high + at);
  __m512 low = _mm512_permutex2var_ps(first, i, second);
  __m512 high = _mm512_permutex2var_ps(first, k, second);
  __m512 part =
      _mm512_mul_ps(_mm512_sub_ps(high, low), _mm512_loadu_ps(p->share + at));
  _mm512_storeu_ps(to + at, _mm512_add_ps(low, part));
}

#include "kernels/simd/resize_loops.h"
