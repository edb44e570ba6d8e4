/* half_avx2.c - float16 blocks by F16C, eight at a time; tails go through the
 * same instructions in a block of zeros. bfloat16 by the compiler.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/simd/half.h"

#include <immintrin.h>
#include <string.h>

enum { LANES = 8, NEAREST = _MM_FROUND_TO_NEAREST_INT };

static void load(int64_t n, const uint16_t *from, float *to) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    __m128i h = _mm_loadu_si128((const __m128i *)(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(h));
  }
  if (i == n) return;
  uint16_t in[LANES] = {0};
  float out[LANES];
  memcpy(in, from + i, (size_t)(n - i) * sizeof *in);
  load(LANES, in, out);
  memcpy(to + i, out, (size_t)(n - i) * sizeof *out);
}

static void store(int64_t n, const float *from, uint16_t *to) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), NEAREST);
    _mm_storeu_si128((__m128i *)(to + i), h);
  }
  if (i == n) return;
  float in[LANES] = {0};
  uint16_t out[LANES];
  memcpy(in, from + i, (size_t)(n - i) * sizeof *in);
  store(LANES, in, out);
  memcpy(to + i, out, (size_t)(n - i) * sizeof *out);
}

const td_half_table td_half_avx2[2] = {
    {load, store},
    {td_half_load_bfloat16, td_half_store_bfloat16},
};
