/* vec.h - float functions that the compiler can run on many lanes at once.
 *
 * Each is a straight line of float operations and selects: no branch, no call,
 * no table. A loop around one becomes SSE2, AVX2 or AVX-512 by the flags of the
 * file it stands in, and since every lane does the same correctly rounded
 * operations, all of them (and the tails of a loop) give the same bits. Errors,
 * in units in the last place, are bounded by tests/kernels/unary.c; polynomials
 * are minimax fits made for these intervals. Results below the normal range are
 * right when denormals are on, and 0 in kernels, which run with denormals off.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_VEC_H
#define TD_VEC_H

#include <math.h>

#include "engine/base/base.h"

/* Iterations do not depend on each other, even where a result overwrites its
 * own operand. A loop that cannot become vectors (a call to libm) is no fault.
 */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define TD_VEC_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TD_VEC_LOOP _Pragma("GCC ivdep")
#endif

static inline uint32_t td_vec_bits(float x) {
  union {
    float f;
    uint32_t u;
  } v = {.f = x};
  return v.u;
}
static inline float td_vec_float(uint32_t u) {
  union {
    uint32_t u;
    float f;
  } v = {.u = u};
  return v.f;
}
static inline uint64_t td_vec_bits64(double x) {
  union {
    double d;
    uint64_t u;
  } v = {.d = x};
  return v.u;
}
static inline double td_vec_double(uint64_t u) {
  union {
    uint64_t u;
    double d;
  } v = {.u = u};
  return v.d;
}

/* a * b + c, rounded once. Without the instruction the product is exact in
 * double and the sum is rounded to odd where rounding it twice could tell:
 * where its last 29 bits say half-way. */
#ifdef __FMA__
static inline float td_vec_fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
#else
static inline float td_vec_fma(float a, float b, float c) {
  double p = (double)a * b, s = p + c;
  uint64_t u = td_vec_bits64(s);
  if (TD_UNLIKELY((u & 0x1fffffff) == 0x10000000)) {
    double t = s - p, lost = (p - (s - t)) + (c - t);
    if (lost > 0 || lost < 0) u += (lost > 0) == (s > 0) ? 1 : UINT64_MAX;
  }
  return (float)td_vec_double(u);
}
#endif

/* Adding it rounds to an integer, to nearest even, and leaves that integer in
 * the low bits; for |x| < 2^22 (float), 2^51 (double). */
#define TD_VEC_ROUND 12582912.0f
#define TD_VEC_ROUND64 6755399441055744.0

/* x = n ln 2 + r with |r| <= ln(2) / 2; n < 2^8. */
static inline float td_vec_reduce(float x, int32_t *n) {
  float z = td_vec_fma(x, 1.44269504f, TD_VEC_ROUND);
  float k = z - TD_VEC_ROUND;
  *n = (int32_t)(td_vec_bits(z) - td_vec_bits(TD_VEC_ROUND));
  float r = td_vec_fma(k, -0.693147182f, x);
  return td_vec_fma(k, 1.9046543e-09f, r);
}

/* exp(r) - 1 for |r| <= ln(2) / 2. */
static inline float td_vec_expm1_near(float r) {
  float q = td_vec_fma(0.00138825167f, r, 0.00836654752f);
  q = td_vec_fma(q, r, 0.0416672006f);
  q = td_vec_fma(q, r, 0.166665435f);
  q = td_vec_fma(q, r, 0.49999997f);
  return td_vec_fma(r * r, q, r);
}

/* 2^n for the exponents of normal numbers. */
static inline float td_vec_power2(int32_t n) {
  return td_vec_float((uint32_t)(n + 127) << 23);
}

/* Scaled in two steps, so that neither 2^128 nor a denormal is lost. */
static inline float td_vec_exp(float x) {
  int32_t n;
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  float y = td_vec_expm1_near(td_vec_reduce(x, &n)) + 1.0f;
  int32_t half = n >> 1;
  return y * td_vec_power2(half) * td_vec_power2(n - half);
}

/* 2^n p + (2^n - 1), all halved so that n = 128 fits. */
static inline float td_vec_expm1(float x) {
  int32_t n;
  float c = x < -30.0f ? -30.0f : x;
  c = c > 89.0f ? 89.0f : c;
  float y = td_vec_expm1_near(td_vec_reduce(c, &n));
  float s = td_vec_power2(n - 1);
  y = 2.0f * td_vec_fma(s, y, s - 0.5f);
  return __builtin_fabsf(x) < 0x1p-25f ? x : y; /* keeps -0 and tiny ones */
}

/* log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2)], plus `low`. */
static inline float td_vec_log_near(float f, float low) {
  float p = td_vec_fma(-0.0763565749f, f, 0.127633289f);
  p = td_vec_fma(p, f, -0.131605819f);
  p = td_vec_fma(p, f, 0.142015532f);
  p = td_vec_fma(p, f, -0.166232988f);
  p = td_vec_fma(p, f, 0.200012341f);
  p = td_vec_fma(p, f, -0.250008225f);
  p = td_vec_fma(p, f, 0.333333313f);
  float f2 = f * f;
  return td_vec_fma(f2, -0.5f, td_vec_fma(f2 * f, p, low));
}

/* log(x) + low for finite x > 0; `low` is small beside it. */
static inline float td_vec_log_finite(float x, float low) {
  bool tiny = x < 1.17549435e-38f;
  uint32_t u = td_vec_bits(tiny ? x * 8388608.0f : x) - 0x3f3504f3u;
  int32_t n = ((int32_t)u >> 23) - (tiny ? 23 : 0);
  float k = (float)n;
  float f = td_vec_float((u & 0x7fffff) + 0x3f3504f3u) - 1.0f;
  float r = td_vec_log_near(f, td_vec_fma(k, -1.9046543e-09f, low));
  return td_vec_fma(k, 0.693147182f, r + f);
}

static inline float td_vec_log(float x) {
  float y = td_vec_log_finite(x, 0.0f);
  y = x < INFINITY ? y : x;
  return x > 0.0f ? y : x == 0.0f ? -INFINITY : NAN;
}

/* log(u) + (1 + x - u) / u, where u is 1 + x rounded. */
static inline float td_vec_log1p(float x) {
  float u = 1.0f + x;
  float y = td_vec_log_finite(u, (x - (u - 1.0f)) / u);
  y = x < INFINITY && x != 0.0f ? y : x;
  return x > -1.0f ? y : x == -1.0f ? -INFINITY : NAN;
}

/* expm1(2x) / (expm1(2x) + 2); 1 from 9.02 on. */
static inline float td_vec_tanh(float x) {
  float a = fabsf(x);
  a = a > 10.0f ? 10.0f : a;
  float t = td_vec_expm1(2.0f * a);
  return copysignf(t / (t + 2.0f), x);
}

/* exp(-|x|) cannot overflow. */
static inline float td_vec_sigmoid(float x) {
  float e = td_vec_exp(-fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

static inline float td_vec_softplus(float x) {
  return (x > 0.0f || x != x ? x : 0.0f) + td_vec_log1p(td_vec_exp(-fabsf(x)));
}

static inline float td_vec_elu(float x) {
  float y = td_vec_expm1(x);
  return x > 0.0f ? x : y;
}

static inline float td_vec_erf(float x) {
  float a = fabsf(x), z = x * x;
  float p = td_vec_fma(-0.000586208247f, z, 0.00496750697f);
  p = td_vec_fma(p, z, -0.026748864f);
  p = td_vec_fma(p, z, 0.112813205f);
  p = td_vec_fma(p, z, -0.376124471f);
  p = td_vec_fma(p, z, 0.128379136f);
  p = td_vec_fma(p, x, x);
  a = a > 4.0f ? 4.0f : a;
  float q = td_vec_fma(-0.000193606684f, a, 0.00302025443f);
  q = td_vec_fma(q, a, -0.0221349411f);
  q = td_vec_fma(q, a, 0.103739783f);
  q = td_vec_fma(q, a, 0.637402058f);
  q = td_vec_fma(q, a, 1.12754428f);
  q = td_vec_fma(q, a, 0.000227656841f);
  q = copysignf(1.0f - td_vec_exp(-q), x);
  return a < 0.95f ? p : q;
}

/* 32 bits of 2/pi from place 32 (k / 32 + i) - 2 on, for k < 128, where w[0]
 * holds two zeros and the first 30 bits. */
static inline uint32_t td_vec_two_over_pi(int32_t k, int i) {
  static const uint32_t w[7] = {0x28be60dbu, 0x9391054au, 0x7f09d5f4u,
                                0x7d4d3770u, 0x36d8a566u, 0x4f10e410u,
                                0x7f9458eau};
  uint32_t low = k & 32 ? w[i + 1] : w[i];
  uint32_t high = k & 32 ? w[i + 3] : w[i + 2];
  return k & 64 ? high : low;
}

/* x = (q + r) pi/2 with |r| <= 1/2, for any float; *q modulo 4. Gives r pi/2.
 *
 * x is m 2^k, m of 24 bits, and 2/pi 2^k is needed modulo 4 only: 89 bits of
 * it, in pieces of 29, 29 and 31. The first two times m are exact in double. k
 * is 0 for x < 2^24. Infinity and NaN give NaN. */
static inline float td_vec_quadrant(float x, uint32_t *q) {
  int32_t k = (int32_t)(td_vec_bits(x) >> 23 & 0xff) - 150;
  k = k < 0 ? 0 : k;
  uint32_t w0 = td_vec_two_over_pi(k, 0), w1 = td_vec_two_over_pi(k, 1);
  uint32_t w2 = td_vec_two_over_pi(k, 2), w3 = td_vec_two_over_pi(k, 3);
  uint32_t left = k & 31, right = 31 - left;
  w0 = w0 << left | w1 >> 1 >> right;
  w1 = w1 << left | w2 >> 1 >> right;
  w2 = w2 << left | w3 >> 1 >> right;
  double m = x * td_vec_power2(-k);
  double high = m * (int32_t)(w0 >> 3) * 0x1p-27;
  double middle = m * (int32_t)((w0 & 7) << 26 | w1 >> 6) * 0x1p-56;
  double low = m * (int32_t)((w1 & 63) << 25 | w2 >> 7) * 0x1p-87;
  double z = high + middle + TD_VEC_ROUND64;
  double r = (high - (z - TD_VEC_ROUND64)) + middle + low;
  *q = (uint32_t)td_vec_bits64(z);
  return (float)(r * 1.5707963267948966);
}

static inline float td_vec_sin_near(float f) {
  float z = f * f;
  float s = td_vec_fma(2.71808403e-06f, z, -0.000198393085f);
  s = td_vec_fma(s, z, 0.00833332911f);
  s = td_vec_fma(s, z, -0.166666672f);
  return td_vec_fma(s * z, f, f);
}

static inline float td_vec_cos_near(float f) {
  float z = f * f;
  float c = td_vec_fma(2.44327857e-05f, z, -0.0013887313f);
  c = td_vec_fma(c, z, 0.0416666456f);
  return td_vec_fma(z * z, c, td_vec_fma(z, -0.5f, 1.0f));
}

/* Sine of (q + r) pi/2, f = r pi/2. */
static inline float td_vec_turned(float f, uint32_t q) {
  float s = td_vec_sin_near(f), c = td_vec_cos_near(f);
  float y = q & 1 ? c : s;
  return td_vec_float(td_vec_bits(y) ^ (q & 2) << 30);
}

static inline float td_vec_sin(float x) {
  uint32_t q;
  float f = td_vec_quadrant(x, &q);
  return td_vec_turned(f, q);
}

static inline float td_vec_cos(float x) {
  uint32_t q;
  float f = td_vec_quadrant(x, &q);
  return td_vec_turned(f, q + 1);
}

/* log2 of a normal x > 0, 40 bits good. */
static inline double td_vec_log2(double x) {
  uint64_t u = td_vec_bits64(x) - 0x3fe6a09e667f3bcdu;
  double n = (double)(int32_t)(int64_t)((int64_t)u >> 52);
  double m = td_vec_double((u & 0xfffffffffffff) + 0x3fe6a09e667f3bcdu);
  double s = (m - 1) / (m + 1), z = s * s;
  double p = 0.34078039195025689 * z + 0.41167004801647455;
  p = p * z + 0.57708362877023056;
  p = p * z + 0.9617966731153611;
  p = p * z + 2.8853900817902653;
  return n + s * p;
}

/* 2^x, 29 bits good, for |x| <= 200. */
static inline double td_vec_exp2(double x) {
  double z = x + TD_VEC_ROUND64, r = x - (z - TD_VEC_ROUND64);
  double p = 0.00015345812002929402 * r + 0.0013399931219311039;
  p = p * r + 0.0096184889571147465;
  p = p * r + 0.05550328776964799;
  p = p * r + 0.24022646890634092;
  p = p * r + 0.69314720573726807;
  p = p * r + 1.0000000005541665;
  return td_vec_double(td_vec_bits64(p) + (td_vec_bits64(z) << 52));
}

/* The same as c ? a : b; of many in a row the compiler would make branches. */
static inline float td_vec_pick(bool c, float a, float b) {
  uint32_t mask = 0u - (uint32_t)c;
  return td_vec_float((td_vec_bits(a) & mask) | (td_vec_bits(b) & ~mask));
}

/* As C's pow: x < 0 needs a whole y; pow(x, 0) = pow(1, y) = 1. */
static inline float td_vec_pow(float x, float y) {
  float big = fabsf(y);
  double a = fabsf(x), l = td_vec_log2(a);
  l = a == 0 ? -INFINITY : l;
  l = a < INFINITY ? l : INFINITY;
  double t = (double)y * l;
  t = a == 1 ? 0.0 : t;
  t = t < -200 ? -200.0 : t;
  t = t > 200 ? 200.0 : t;
  float r = (float)td_vec_exp2(t);
  /* adding 2^23 rounds to a whole number; from there on all are whole, and
   * from 2^24 on even */
  float whole = (big + 8388608.0f) - 8388608.0f;
  float pairs = (big * 0.5f + 8388608.0f) - 8388608.0f;
  bool integral = (big >= 8388608.0f) | (whole == big);
  bool odd = integral & (big < 16777216.0f) & (2.0f * pairs != big);
  uint32_t sign = odd ? td_vec_bits(x) & 0x80000000u : 0;
  r = td_vec_float(td_vec_bits(r) ^ sign);
  bool undefined = (x < 0.0f) & (x > -INFINITY) & !integral;
  r = td_vec_pick(undefined | (x != x) | (y != y), NAN, r);
  return td_vec_pick((y == 0.0f) | (x == 1.0f), 1.0f, r);
}

#endif
