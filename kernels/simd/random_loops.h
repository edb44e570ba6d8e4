/* random_loops.h - Philox blocks and Box-Muller on many lanes; makes the table
 * RANDOM_TABLE.
 *
 * Included once by each of kernels/random_fill.c, for every processor, and of
 * random_avx2.c and random_avx512.c here, whose flags decide what the compiler
 * makes of the loops. They say how wide a lane
 * set is: WIDTH bytes, and LOW_PRODUCT(a, b), the 64-bit products of the low
 * halves of 64-bit lanes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/random.h"
#include "kernels/simd/vec.h"

typedef uint64_t lanes __attribute__((vector_size(WIDTH)));

enum { LANES = WIDTH / 8, ROUNDS = 10 };

/* Blocks first, first + 1, ... of those that lie `stride` apart, one in each
 * lane; *low gets words 0 and 1 of each, *high words 2 and 3. As
 * td_philox_next; the upper halves of lanes are never looked at. */
static inline void philox(const td_philox *p, uint64_t first, uint64_t stride,
                          lanes *low, lanes *high) {
  uint64_t begin = (uint64_t)p->counter[1] << 32 | p->counter[0];
  uint64_t upper = (uint64_t)p->counter[3] << 32 | p->counter[2];
  lanes c0, c1, c2, c3;
  for (unsigned i = 0; i < LANES; i++) {
    uint64_t at = begin + (first + i) * stride;
    c0[i] = at;
    c2[i] = upper + (at < begin);
  }
  c1 = c0 >> 32;
  c3 = c2 >> 32;
  uint32_t k0 = p->key[0], k1 = p->key[1];
  for (int r = 0; r < ROUNDS; r++) {
    lanes a = LOW_PRODUCT(c0, (lanes){0} + 0xD2511F53u);
    lanes b = LOW_PRODUCT(c2, (lanes){0} + 0xCD9E8D57u);
    c0 = b >> 32 ^ c1 ^ k0;
    c2 = a >> 32 ^ c3 ^ k1;
    c1 = b;
    c3 = a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  *low = (c0 & 0xffffffff) | c1 << 32;
  *high = (c2 & 0xffffffff) | c3 << 32;
}

static void bits(const td_philox *p, int64_t blocks, uint64_t stride,
                 uint32_t *words) {
  for (int64_t b = 0; b < blocks; b += LANES) {
    lanes low, high;
    philox(p, (uint64_t)b, stride, &low, &high);
    for (int i = 0; i < LANES && b + i < blocks; i++) {
      uint64_t block[2] = {low[i], high[i]}; /* x86 keeps the low half first */
      memcpy(words + 4 * (b + i), block, sizeof block);
    }
  }
}

/* The low 23 bits as the fraction of a number in [1, 2). */
static inline float uniform(uint32_t word) {
  return td_vec_float(0x3f800000u | (word & 0x7fffff)) - 1.0f;
}

/* Sine and cosine for |r| <= pi/4: minimax polynomials, good to 37 bits. */
static inline double sine_near(double r) {
  double z = r * r, p = 2.7181178665817465e-06;
  p = p * z - 0.0001983931187664652;
  p = p * z + 0.008333329303626642;
  p = p * z - 0.166666666407866;
  return r + r * z * p;
}

static inline double cosine_near(double r) {
  double z = r * r, p = -2.720572001957041e-07;
  p = p * z + 2.479945973991039e-05;
  p = p * z - 0.001388888349849808;
  p = p * z + 0.04166666661947292;
  return 1.0 - 0.5 * z + z * z * p;
}

/* Rounded to float where TensorFlow rounds; each step in double before that, so
 * that it gives the float nearest to the true value, or its neighbour. */
static void normal(int64_t pairs, const uint32_t *words, float *to) {
  TD_VEC_LOOP
  for (int64_t i = 0; i < pairs; i++) {
    float u = uniform(words[2 * i]);
    u = u < 1.0e-7f ? 1.0e-7f : u;
    float length = -2.0f * (float)(td_vec_log2(u) * 0.6931471805599453);
    length = sqrtf(length);
    float angle = (float)(6.283185307179586 * uniform(words[2 * i + 1]));
    double z = angle * 0.6366197723675814 + TD_VEC_ROUND64;
    double turns = z - TD_VEC_ROUND64; /* quarters; pi/2 is in two parts */
    double r = angle - turns * 1.5707963267341256;
    r -= turns * 6.077100506506192e-11;
    uint64_t q = td_vec_bits64(z);
    double s = sine_near(r), c = cosine_near(r);
    double x = q & 1 ? c : s, y = q & 1 ? s : c;
    x = q & 2 ? -x : x;
    y = (q + 1) & 2 ? -y : y;
    to[2 * i] = (float)x * length;
    to[2 * i + 1] = (float)y * length;
  }
}

const td_random_table RANDOM_TABLE = {bits, normal};
