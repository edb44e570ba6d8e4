/* num.cuh - the names of num.h on a card: unary.def and binary.def are the same
 * text there.
 *
 * A name is a set of overloaded functions. float16 and bfloat16 are computed in
 * float: td_half and td_bfloat convert themselves. Integers wrap: signed ones
 * are added and multiplied as unsigned ones by the compilers' flags.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_NUM_CUH
#define TD_CUDA_NUM_CUH

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#define TD_DEVICE static __device__ inline

/* ---- 16 bits ------------------------------------------------------------- */

#ifndef __CUDACC__
static inline float td_num_half_out(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
  if (e == 0) {
    float v = (float)m * 0x1p-24f;
    return sign ? -v : v;
  }
  uint32_t bits = sign | (e == 31 ? 255u << 23 : (e + 112) << 23) | m << 13;
  return __uint_as_float(bits);
}
static inline uint16_t td_num_half_in(float x) {
  uint32_t u = __float_as_uint(x), sign = u >> 16 & 0x8000;
  float a = fabsf(x);
  if (x != x) return (uint16_t)(sign | 0x7e00);
  if (a >= 65520.0f) return (uint16_t)(sign | 0x7c00);
  if (a < 0x1p-14f) /* adding 2^-1 lines the last bits up, and rounds them */
    return (uint16_t)(sign | (__float_as_uint(a + 0.5f) & 0xffff));
  uint32_t b = u & 0x7fffffff, odd = b >> 13 & 1;
  return (uint16_t)(sign | (b - (112u << 23) + 0xfff + odd) >> 13);
}
static inline float td_num_bfloat_out(uint16_t h) {
  return __uint_as_float((uint32_t)h << 16);
}
static inline uint16_t td_num_bfloat_in(float x) {
  uint32_t u = __float_as_uint(x);
  if (x != x) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
#else
TD_DEVICE float td_num_half_out(uint16_t h) {
  return __half2float(__ushort_as_half(h));
}
TD_DEVICE uint16_t td_num_half_in(float x) {
  return __half_as_ushort(__float2half_rn(x));
}
TD_DEVICE float td_num_bfloat_out(uint16_t h) {
  return __uint_as_float((uint32_t)h << 16);
}
TD_DEVICE uint16_t td_num_bfloat_in(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
#endif

/* In memory. */
struct td_half {
  uint16_t bits;
};
struct td_bfloat {
  uint16_t bits;
};

/* What T is computed in, and the ways there and back. */
template <class T> struct td_num {
  typedef T in;
  static __device__ inline T load(T x) { return x; }
  static __device__ inline T store(T x) { return x; }
};
template <> struct td_num<td_half> {
  typedef float in;
  static __device__ inline float load(td_half x) {
    return td_num_half_out(x.bits);
  }
  static __device__ inline td_half store(float x) {
    return td_half{td_num_half_in(x)};
  }
};
template <> struct td_num<td_bfloat> {
  typedef float in;
  static __device__ inline float load(td_bfloat x) {
    return td_num_bfloat_out(x.bits);
  }
  static __device__ inline td_bfloat store(float x) {
    return td_bfloat{td_num_bfloat_in(x)};
  }
};

/* ---- functions of floats ------------------------------------------------- */

#define TD_NUM_SELU_HIGH 1.0507009873554804934193349852946
#define TD_NUM_SELU_LOW 1.7580993408473768599402175208123

/* NaN comes through from either side. */
#define td_num_max(x, y) ((x) > (y) || (x) != (x) ? (x) : (T)(y))
#define td_num_min(x, y) ((x) < (y) || (x) != (x) ? (x) : (T)(y))

#define TD_NUM_BOTH(name, f32, f64)                                            \
  TD_DEVICE float td_num_##name(float x) { return f32(x); }                    \
  TD_DEVICE double td_num_##name(double x) { return f64(x); }
TD_NUM_BOTH(exp, expf, exp)
TD_NUM_BOTH(log, logf, log)
TD_NUM_BOTH(sin, sinf, sin)
TD_NUM_BOTH(cos, cosf, cos)
TD_NUM_BOTH(tan, tanf, tan)
TD_NUM_BOTH(sinh, sinhf, sinh)
TD_NUM_BOTH(cosh, coshf, cosh)
TD_NUM_BOTH(tanh, tanhf, tanh)
TD_NUM_BOTH(asin, asinf, asin)
TD_NUM_BOTH(acos, acosf, acos)
TD_NUM_BOTH(atan, atanf, atan)
TD_NUM_BOTH(asinh, asinhf, asinh)
TD_NUM_BOTH(acosh, acoshf, acosh)
TD_NUM_BOTH(atanh, atanhf, atanh)
TD_NUM_BOTH(sqrt, sqrtf, sqrt)
TD_NUM_BOTH(log1p, log1pf, log1p)
TD_NUM_BOTH(expm1, expm1f, expm1)
TD_NUM_BOTH(floor, floorf, floor)
TD_NUM_BOTH(ceil, ceilf, ceil)
TD_NUM_BOTH(rint, rintf, rint)
TD_NUM_BOTH(trunc, truncf, trunc)
TD_NUM_BOTH(erf, erff, erf)
TD_NUM_BOTH(erfc, erfcf, erfc)

template <class T> TD_DEVICE T td_num_sigmoid(T x) {
  return 1 / (1 + td_num_exp(-x));
}
template <class T> TD_DEVICE T td_num_elu(T x) {
  return x > 0 ? x : td_num_expm1(x);
}
template <class T> TD_DEVICE T td_num_selu(T x) {
  return x > 0 ? (T)TD_NUM_SELU_HIGH * x : (T)TD_NUM_SELU_LOW * td_num_expm1(x);
}
template <class T> TD_DEVICE T td_num_softplus(T x) {
  T high = x > 0 || x != x ? x : 0;
  return high + td_num_log1p(td_num_exp(x > 0 ? -x : x));
}

/* ---- functions of all numbers -------------------------------------------- */

TD_DEVICE float td_num_abs(float x) {
  return fabsf(x);
}
TD_DEVICE double td_num_abs(double x) {
  return fabs(x);
}
/* The lowest integer stays what it is. */
template <class T> TD_DEVICE T td_num_abs(T x) {
  return (T)(x < 0 ? 0 - (uint64_t)x : (uint64_t)x);
}
TD_DEVICE float td_num_sign(float x) {
  return x > 0 ? 1 : x < 0 ? -1 : x != x ? x : 0;
}
TD_DEVICE double td_num_sign(double x) {
  return x > 0 ? 1 : x < 0 ? -1 : x != x ? x : 0;
}
template <class T> TD_DEVICE T td_num_sign(T x) {
  return (T)((x > 0) - (x < 0));
}
TD_DEVICE float td_num_round(float x) {
  return rintf(x);
}
TD_DEVICE double td_num_round(double x) {
  return rint(x);
}
template <class T> TD_DEVICE T td_num_round(T x) {
  return x;
}
template <class T> TD_DEVICE int td_num_bits(T x) {
  return __popcll((unsigned long long)x & ~0ull >> (64 - 8 * sizeof(x)));
}

/* ---- functions of two ---------------------------------------------------- */

#define TD_NUM_BOTH_2(name, f32, f64)                                          \
  TD_DEVICE float td_num_##name(float x, float y) { return f32(x, y); }        \
  TD_DEVICE double td_num_##name(double x, double y) { return f64(x, y); }
TD_NUM_BOTH_2(atan2, atan2f, atan2)
TD_NUM_BOTH_2(next, nextafterf, nextafter)
TD_NUM_BOTH_2(pow, powf, pow)
TD_NUM_BOTH_2(trunc_mod, fmodf, fmod)

#define TD_NUM_DIVISIONS(T)                                                    \
  TD_DEVICE T td_num_div(T x, T y) { return x / y; }                           \
  TD_DEVICE T td_num_floor_div(T x, T y) { return td_num_floor(x / y); }       \
  TD_DEVICE T td_num_trunc_div(T x, T y) { return td_num_trunc(x / y); }       \
  TD_DEVICE T td_num_floor_mod(T x, T y) {                                     \
    T r = td_num_trunc_mod(x, y);                                              \
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;                           \
  }
TD_NUM_DIVISIONS(float)
TD_NUM_DIVISIONS(double)

template <class T> constexpr bool td_num_signed = (T)-1 < (T)0;

/* Of integers: nothing traps, whatever y is. */
template <class T> TD_DEVICE T td_num_div(T x, T y) {
  if (y == 0) return 0;
  if constexpr (td_num_signed<T>)
    if (y == -1) return (T)(0 - (uint64_t)x);
  return (T)(x / y);
}
template <class T> TD_DEVICE T td_num_trunc_div(T x, T y) {
  return td_num_div(x, y);
}
template <class T> TD_DEVICE T td_num_trunc_mod(T x, T y) {
  if (y == 0) return 0;
  if constexpr (td_num_signed<T>)
    if (y == -1) return 0;
  return (T)(x % y);
}
template <class T> TD_DEVICE T td_num_floor_mod(T x, T y) {
  T r = td_num_trunc_mod(x, y);
  if constexpr (td_num_signed<T>)
    if (r != 0 && (r < 0) != (y < 0)) return (T)(r + y);
  return r;
}
template <class T> TD_DEVICE T td_num_floor_div(T x, T y) {
  T q = td_num_div(x, y);
  if constexpr (td_num_signed<T>) {
    T r = td_num_trunc_mod(x, y);
    if (r != 0 && (r < 0) != (y < 0)) return (T)(q - 1);
  }
  return q;
}
template <class T> TD_DEVICE T td_num_pow(T x, T y) {
  uint64_t r = 1, power = (uint64_t)x, most = ~0ull >> (64 - 8 * sizeof(T));
  for (uint64_t n = (uint64_t)y & most; n; n >>= 1, power *= power)
    if (n & 1) r *= power;
  return (T)r;
}
/* By less than 0: by 0; by too much: by all bits but one. */
template <class T> TD_DEVICE int td_num_shift(T y) {
  constexpr T most = (T)(sizeof(T) * 8 - 1);
  if constexpr (td_num_signed<T>)
    if (y < 0) return 0;
  return (int)(y > most ? most : y);
}
template <class T> TD_DEVICE T td_num_shift_left(T x, T y) {
  return (T)((uint64_t)x << td_num_shift(y));
}
template <class T> TD_DEVICE T td_num_shift_right(T x, T y) {
  return (T)(x >> td_num_shift(y));
}

#endif
