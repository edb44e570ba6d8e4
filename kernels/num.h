/* num.h - one name for a function whatever the type of its argument.
 *
 * The expressions of unary.def and binary.def are plain C over x, y and the
 * type T; what C spells by type (expf, exp, cexpf) or does not have (division
 * that rounds down, a shift by too much) has a name here. The CUDA build gives
 * the same names to overloaded functions. float goes to vec.h where it can run
 * on many lanes, else to libm.
 *
 * Integers wrap (the kernels are compiled so). A zero divisor and a negative
 * power are refused before a loop runs; here they must only not trap.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_NUM_H
#define TD_NUM_H

#include "kernels/element.h"
#include "kernels/simd/vec.h"

/* clang-format off */
#define TD_NUM_FLOAT(x, f32, f64) _Generic((x), td_f32: f32, td_f64: f64)(x)
#define TD_NUM_FLOAT_C(x, f32, f64, c64, c128) \
  _Generic((x), td_f32: f32, td_f64: f64, td_c64: c64, td_c128: c128)(x)
#define TD_NUM_F(f) td_f32: f##_f32, td_f64: f##_f64
#define TD_NUM_L(f) td_i32: f##_i32, td_i64: f##_i64
#define TD_NUM_S(f) td_i8: f##_i8, td_i16: f##_i16, TD_NUM_L(f)
#define TD_NUM_U(f) \
  td_u8: f##_u8, td_u16: f##_u16, td_u32: f##_u32, td_u64: f##_u64
#define TD_NUM_C(f) td_c64: f##_c64, td_c128: f##_c128
#define TD_NUM_REAL(x, f) _Generic((x), TD_NUM_F(f), TD_NUM_S(f), TD_NUM_U(f))
#define TD_NUM_INT(x, f) _Generic((x), TD_NUM_S(f), TD_NUM_U(f))

/* Slopes of selu: at 0 from above, and what it falls to far below. Klambauer et
 * al. (2017), equation 14. */
#define TD_NUM_SELU_HIGH 1.0507009873554804934193349852946
#define TD_NUM_SELU_LOW 1.7580993408473768599402175208123

/* NaN comes through from either side. */
#define td_num_max(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define td_num_min(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))

#define td_num_exp(x) TD_NUM_FLOAT_C(x, td_vec_exp, exp, cexpf, cexp)
#define td_num_log(x) TD_NUM_FLOAT_C(x, td_vec_log, log, clogf, clog)
#define td_num_sin(x) TD_NUM_FLOAT_C(x, td_vec_sin, sin, csinf, csin)
#define td_num_cos(x) TD_NUM_FLOAT_C(x, td_vec_cos, cos, ccosf, ccos)
#define td_num_tan(x) TD_NUM_FLOAT_C(x, tanf, tan, ctanf, ctan)
#define td_num_sinh(x) TD_NUM_FLOAT_C(x, sinhf, sinh, csinhf, csinh)
#define td_num_cosh(x) TD_NUM_FLOAT_C(x, coshf, cosh, ccoshf, ccosh)
#define td_num_tanh(x) TD_NUM_FLOAT_C(x, td_vec_tanh, tanh, ctanhf, ctanh)
#define td_num_asin(x) TD_NUM_FLOAT_C(x, asinf, asin, casinf, casin)
#define td_num_acos(x) TD_NUM_FLOAT_C(x, acosf, acos, cacosf, cacos)
#define td_num_atan(x) TD_NUM_FLOAT_C(x, atanf, atan, catanf, catan)
#define td_num_asinh(x) TD_NUM_FLOAT_C(x, asinhf, asinh, casinhf, casinh)
#define td_num_acosh(x) TD_NUM_FLOAT_C(x, acoshf, acosh, cacoshf, cacosh)
#define td_num_atanh(x) TD_NUM_FLOAT_C(x, atanhf, atanh, catanhf, catanh)
#define td_num_sqrt(x) TD_NUM_FLOAT_C(x, sqrtf, sqrt, csqrtf, csqrt)
#define td_num_sigmoid(x) TD_NUM_FLOAT_C(x, td_vec_sigmoid, \
  td_num_sigmoid_f64, td_num_sigmoid_c64, td_num_sigmoid_c128)
#define td_num_log1p(x) TD_NUM_FLOAT_C(x, td_vec_log1p, log1p, \
  td_num_log1p_c64, td_num_log1p_c128)
#define td_num_expm1(x) TD_NUM_FLOAT_C(x, td_vec_expm1, expm1, \
  td_num_expm1_c64, td_num_expm1_c128)
#define td_num_floor(x) TD_NUM_FLOAT(x, floorf, floor)
#define td_num_ceil(x) TD_NUM_FLOAT(x, ceilf, ceil)
#define td_num_rint(x) TD_NUM_FLOAT(x, rintf, rint)
#define td_num_trunc(x) TD_NUM_FLOAT(x, truncf, trunc)
#define td_num_erf(x) TD_NUM_FLOAT(x, td_vec_erf, erf)
#define td_num_erfc(x) TD_NUM_FLOAT(x, erfcf, erfc)
#define td_num_elu(x) TD_NUM_FLOAT(x, td_vec_elu, td_num_elu_f64)
#define td_num_selu(x) ((x) > 0 ? (T)TD_NUM_SELU_HIGH * (x) : \
  (T)TD_NUM_SELU_LOW * td_num_expm1(x))
#define td_num_softplus(x) TD_NUM_FLOAT(x, td_vec_softplus, td_num_softplus_f64)
#define td_num_atan2(x, y) _Generic((x), td_f32: atan2f, td_f64: atan2)(x, y)
#define td_num_next(x, y) \
  _Generic((x), td_f32: nextafterf, td_f64: nextafter)(x, y)
/* How many bits are set; of a short integer, of its own width. */
#define td_num_bits(x) \
  __builtin_popcountll((uint64_t)(x) & UINT64_MAX >> (64 - 8 * sizeof(x)))

/* |x|; the lowest integer stays what it is. */
#define td_num_abs(x) \
  _Generic((x), TD_NUM_F(td_num_abs), TD_NUM_S(td_num_abs))(x)
/* -1, 0, 1, NaN; of a complex number z / |z|. */
#define td_num_sign(x) _Generic((x), TD_NUM_F(td_num_sign), \
  TD_NUM_S(td_num_sign), TD_NUM_C(td_num_sign))(x)
/* To the nearest whole number, half-way to even. */
#define td_num_round(x) \
  _Generic((x), TD_NUM_F(td_num_round), TD_NUM_L(td_num_same))(x)
#define td_num_conj(x) _Generic((x), TD_NUM_F(td_num_same), \
  TD_NUM_L(td_num_same), td_c64: conjf, td_c128: conj)(x)
#define td_num_div(x, y) _Generic((x), TD_NUM_F(td_num_div), \
  TD_NUM_S(td_num_div), TD_NUM_U(td_num_div), TD_NUM_C(td_num_div))(x, y)
#define td_num_floor_div(x, y) TD_NUM_REAL(x, td_num_floor_div)(x, y)
#define td_num_floor_mod(x, y) TD_NUM_REAL(x, td_num_floor_mod)(x, y)
#define td_num_trunc_div(x, y) TD_NUM_REAL(x, td_num_trunc_div)(x, y)
#define td_num_trunc_mod(x, y) TD_NUM_REAL(x, td_num_trunc_mod)(x, y)
#define td_num_pow(x, y) _Generic((x), td_f32: td_vec_pow, td_f64: pow, \
  TD_NUM_S(td_num_pow), TD_NUM_C(td_num_pow))(x, y)
/* By less than 0: by 0; by too much: by all bits but one. */
#define td_num_shift_left(x, y) TD_NUM_INT(x, td_num_shift_left)(x, y)
#define td_num_shift_right(x, y) TD_NUM_INT(x, td_num_shift_right)(x, y)
/* clang-format on */

/* ---- the functions behind the names, by kind ----------------------------- */

#define TD_NUM_SAME(kind)                                                      \
  static inline td_##kind td_num_same_##kind(td_##kind x) {                    \
    return x;                                                                  \
  }
TD_NUM_SAME(f32)
TD_NUM_SAME(f64)
TD_NUM_SAME(i32)
TD_NUM_SAME(i64)

#define TD_NUM_FLOATS(kind, fabs, rint, floor, trunc, fmod)                    \
  static inline td_##kind td_num_abs_##kind(td_##kind x) {                     \
    return fabs(x);                                                            \
  }                                                                            \
  static inline td_##kind td_num_round_##kind(td_##kind x) {                   \
    return rint(x);                                                            \
  }                                                                            \
  static inline td_##kind td_num_sign_##kind(td_##kind x) {                    \
    return x > 0 ? 1 : x < 0 ? -1 : x != x ? x : 0;                            \
  }                                                                            \
  static inline td_##kind td_num_div_##kind(td_##kind x, td_##kind y) {        \
    return x / y;                                                              \
  }                                                                            \
  static inline td_##kind td_num_floor_div_##kind(td_##kind x, td_##kind y) {  \
    return floor(x / y);                                                       \
  }                                                                            \
  static inline td_##kind td_num_trunc_div_##kind(td_##kind x, td_##kind y) {  \
    return trunc(x / y);                                                       \
  }                                                                            \
  static inline td_##kind td_num_trunc_mod_##kind(td_##kind x, td_##kind y) {  \
    return fmod(x, y);                                                         \
  }                                                                            \
  static inline td_##kind td_num_floor_mod_##kind(td_##kind x, td_##kind y) {  \
    td_##kind r = fmod(x, y);                                                  \
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;                           \
  }
TD_NUM_FLOATS(f32, fabsf, rintf, floorf, truncf, fmodf)
TD_NUM_FLOATS(f64, fabs, rint, floor, trunc, fmod)

/* The lowest integer by -1 traps: negate instead. */
#define TD_NUM_SIGNED(kind, unsigned_kind)                                     \
  static inline td_##kind td_num_abs_##kind(td_##kind x) {                     \
    return (td_##kind)(x < 0 ? -x : x);                                        \
  }                                                                            \
  static inline td_##kind td_num_sign_##kind(td_##kind x) {                    \
    return (td_##kind)((x > 0) - (x < 0));                                     \
  }                                                                            \
  static inline td_##kind td_num_div_##kind(td_##kind x, td_##kind y) {        \
    return (td_##kind)(y == 0 ? 0 : y == -1 ? -x : x / y);                     \
  }                                                                            \
  static inline td_##kind td_num_trunc_mod_##kind(td_##kind x, td_##kind y) {  \
    return (td_##kind)(y == 0 || y == -1 ? 0 : x % y);                         \
  }                                                                            \
  static inline td_##kind td_num_trunc_div_##kind(td_##kind x, td_##kind y) {  \
    return td_num_div_##kind(x, y);                                            \
  }                                                                            \
  static inline td_##kind td_num_floor_mod_##kind(td_##kind x, td_##kind y) {  \
    td_##kind r = td_num_trunc_mod_##kind(x, y);                               \
    return (td_##kind)(r != 0 && (r < 0) != (y < 0) ? r + y : r);              \
  }                                                                            \
  static inline td_##kind td_num_floor_div_##kind(td_##kind x, td_##kind y) {  \
    td_##kind r = td_num_trunc_mod_##kind(x, y);                               \
    td_##kind q = td_num_div_##kind(x, y);                                     \
    return (td_##kind)(r != 0 && (r < 0) != (y < 0) ? q - 1 : q);              \
  }                                                                            \
  static inline td_##kind td_num_pow_##kind(td_##kind x, td_##kind y) {        \
    td_##kind r = 1;                                                           \
    for (td_##unsigned_kind n = (td_##unsigned_kind)y; n; n >>= 1) {           \
      if (n & 1) r = (td_##kind)(r * x);                                       \
      x = (td_##kind)(x * x);                                                  \
    }                                                                          \
    return r;                                                                  \
  }                                                                            \
  static inline td_##kind td_num_shift_##kind(td_##kind y) {                   \
    const td_##kind most = sizeof y * 8 - 1;                                   \
    return (td_##kind)(y < 0 ? 0 : y > most ? most : y);                       \
  }                                                                            \
  static inline td_##kind td_num_shift_left_##kind(td_##kind x, td_##kind y) { \
    return (td_##kind)((td_##unsigned_kind)x << td_num_shift_##kind(y));       \
  }                                                                            \
  static inline td_##kind td_num_shift_right_##kind(td_##kind x,               \
                                                    td_##kind y) {             \
    return (td_##kind)(x >> td_num_shift_##kind(y));                           \
  }
TD_NUM_SIGNED(i8, u8)
TD_NUM_SIGNED(i16, u16)
TD_NUM_SIGNED(i32, u32)
TD_NUM_SIGNED(i64, u64)

#define TD_NUM_UNSIGNED(kind)                                                  \
  static inline td_##kind td_num_div_##kind(td_##kind x, td_##kind y) {        \
    return (td_##kind)(y == 0 ? 0 : x / y);                                    \
  }                                                                            \
  static inline td_##kind td_num_trunc_mod_##kind(td_##kind x, td_##kind y) {  \
    return (td_##kind)(y == 0 ? 0 : x % y);                                    \
  }                                                                            \
  static inline td_##kind td_num_trunc_div_##kind(td_##kind x, td_##kind y) {  \
    return td_num_div_##kind(x, y);                                            \
  }                                                                            \
  static inline td_##kind td_num_floor_div_##kind(td_##kind x, td_##kind y) {  \
    return td_num_div_##kind(x, y);                                            \
  }                                                                            \
  static inline td_##kind td_num_floor_mod_##kind(td_##kind x, td_##kind y) {  \
    return td_num_trunc_mod_##kind(x, y);                                      \
  }                                                                            \
  static inline td_##kind td_num_shift_##kind(td_##kind y) {                   \
    const td_##kind most = sizeof y * 8 - 1;                                   \
    return y > most ? most : y;                                                \
  }                                                                            \
  static inline td_##kind td_num_shift_left_##kind(td_##kind x, td_##kind y) { \
    return (td_##kind)((td_u64)x << td_num_shift_##kind(y));                   \
  }                                                                            \
  static inline td_##kind td_num_shift_right_##kind(td_##kind x,               \
                                                    td_##kind y) {             \
    return (td_##kind)(x >> td_num_shift_##kind(y));                           \
  }
TD_NUM_UNSIGNED(u8)
TD_NUM_UNSIGNED(u16)
TD_NUM_UNSIGNED(u32)
TD_NUM_UNSIGNED(u64)

static inline double td_num_sigmoid_f64(double x) {
  return 1 / (1 + exp(-x));
}
static inline double td_num_elu_f64(double x) {
  return x > 0 ? x : expm1(x);
}
static inline double td_num_softplus_f64(double x) {
  return (x > 0 || x != x ? x : 0) + log1p(exp(-fabs(x)));
}

static inline td_c128 td_num_complex(double x, double y) {
  union {
    double part[2];
    td_c128 z;
  } v = {{x, y}};
  return v.z;
}
static inline td_c128 td_num_sigmoid_c128(td_c128 z) {
  return 1 / (1 + cexp(-z));
}
/* Through log1p, for z near 0; far out 1 does not matter. */
static inline td_c128 td_num_log1p_c128(td_c128 z) {
  double x = creal(z), y = cimag(z);
  if (!(fabs(x) + fabs(y) < 0x1p100)) return clog(1 + z);
  return td_num_complex(0.5 * log1p(x * (2 + x) + y * y), atan2(y, 1 + x));
}
static inline td_c128 td_num_expm1_c128(td_c128 z) {
  double x = creal(z), y = cimag(z), half = sin(y / 2);
  return td_num_complex(expm1(x) * cos(y) - 2 * half * half, exp(x) * sin(y));
}
static inline td_c128 td_num_sign_c128(td_c128 z) {
  return z == 0 ? 0 : z / cabs(z);
}
static inline td_c128 td_num_pow_c128(td_c128 z, td_c128 w) {
  return w == 0 ? 1 : z == 0 ? 0 : cpow(z, w);
}
static inline td_c128 td_num_div_c128(td_c128 z, td_c128 w) {
  return z / w;
}
static inline td_c64 td_num_div_c64(td_c64 z, td_c64 w) {
  return z / w;
}

/* In double: no intermediate result overflows. */
static inline td_c64 td_num_sigmoid_c64(td_c64 z) {
  return (td_c64)td_num_sigmoid_c128(z);
}
static inline td_c64 td_num_log1p_c64(td_c64 z) {
  return (td_c64)td_num_log1p_c128(z);
}
static inline td_c64 td_num_expm1_c64(td_c64 z) {
  return (td_c64)td_num_expm1_c128(z);
}
static inline td_c64 td_num_sign_c64(td_c64 z) {
  return (td_c64)td_num_sign_c128(z);
}
static inline td_c64 td_num_pow_c64(td_c64 z, td_c64 w) {
  return (td_c64)td_num_pow_c128(z, w);
}

#endif
