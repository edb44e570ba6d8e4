/* half.c - float16 and bfloat16 blocks; see half.h.
 *
 * float16 has instructions of its own from AVX2 machines on; bfloat16 is shifts
 * and adds, which the compiler turns into vectors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/simd/half.h"

static void load_float16(int64_t n, const uint16_t *from, float *to) {
  for (int64_t i = 0; i < n; i++) to[i] = td_float_from_half(from[i]);
}

static void store_float16(int64_t n, const float *from, uint16_t *to) {
  for (int64_t i = 0; i < n; i++) to[i] = td_float_to_half(from[i]);
}

static const td_half_table float16 = {load_float16, store_float16};
static const td_half_table bfloat16 = {td_half_load_bfloat16,
                                       td_half_store_bfloat16};

const td_half_table *td_half_table_of(td_dtype t, td_isa isa) {
  if (isa >= TD_AVX2) return &td_half_avx2[t == TD_BFLOAT16];
  return t == TD_BFLOAT16 ? &bfloat16 : &float16;
}

void td_half_load(td_dtype t, int64_t n, const void *from, float *to) {
  td_half_table_of(t, td_cpu_isa())->load(n, from, to);
}

void td_half_store(td_dtype t, int64_t n, const float *from, void *to) {
  td_half_table_of(t, td_cpu_isa())->store(n, from, to);
}
