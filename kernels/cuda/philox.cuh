/* philox.cuh - Philox-4x32-10 on a card: the words of engine/base/philox.h, block
 * by block.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_PHILOX_CUH
#define TD_CUDA_PHILOX_CUH

#include "engine/base/philox.h"
#include "kernels/cuda/num.cuh"

/* The four words of the block that is `skip` behind where p stands. */
TD_DEVICE void td_philox_block(const td_philox &p, uint64_t skip,
                               uint32_t *out) {
  uint64_t low = (uint64_t)p.counter[1] << 32 | p.counter[0];
  uint64_t high = (uint64_t)p.counter[3] << 32 | p.counter[2];
  low += skip;
  high += low < skip;
  uint32_t c0 = (uint32_t)low, c1 = (uint32_t)(low >> 32);
  uint32_t c2 = (uint32_t)high, c3 = (uint32_t)(high >> 32);
  uint32_t k0 = p.key[0], k1 = p.key[1];
  for (int i = 0; i < 10; i++) {
    uint64_t a = (uint64_t)0xD2511F53u * c0;
    uint64_t b = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)b;
    c3 = (uint32_t)a;
    k0 += 0x9E3779B9u; /* golden ratio */
    k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* ---- arithmetic that is not contracted: the CPU's bits ------------------- */

#ifdef __CUDACC__
TD_DEVICE double td_exact_mul(double x, double y) {
  return __dmul_rn(x, y);
}
TD_DEVICE double td_exact_add(double x, double y) {
  return __dadd_rn(x, y);
}
TD_DEVICE float td_exact_mul(float x, float y) {
  return __fmul_rn(x, y);
}
TD_DEVICE double td_exact_of(uint64_t u) {
  return __longlong_as_double((long long)u);
}
TD_DEVICE uint64_t td_exact_bits(double x) {
  return (uint64_t)__double_as_longlong(x);
}
#else
static inline double td_exact_mul(double x, double y) {
  return x * y;
}
static inline double td_exact_add(double x, double y) {
  return x + y;
}
static inline float td_exact_mul(float x, float y) {
  return x * y;
}
static inline double td_exact_of(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}
static inline uint64_t td_exact_bits(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
#endif
TD_DEVICE double td_exact_step(double p, double z, double c) {
  return td_exact_add(td_exact_mul(p, z), c);
}

/* ---- numbers ------------------------------------------------------------- */

/* The low 23 bits as the fraction of a number in [1, 2), less 1. */
TD_DEVICE float td_philox_float(uint32_t word) {
  return __uint_as_float(0x3f800000u | (word & 0x7fffff)) - 1.0f;
}
/* In [0, 1), of two words. */
TD_DEVICE double td_philox_double(const uint32_t *words) {
  uint64_t high = words[0] & 0xfffff;
  return td_exact_of(0x3ffull << 52 | high << 32 | words[1]) - 1.0;
}

#endif
