/* element.h - the C types and sets of dtypes that element-wise loops run over.
 *
 * A set names the dtypes of a row in unary.def or binary.def three ways:
 * SIG_x as a signature writes them, TYPES_x as a kernel row does, EACH_x(M, ..)
 * as loops to be made, M(kind, ..) for each. float16 and bfloat16 have no
 * loops: they run the float ones between conversions. A file for one
 * instruction set defines TD_WIDE and gets only the kinds worth it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ELEMENT_H
#define TD_ELEMENT_H

#ifndef __cplusplus
#include <complex.h>
#endif

#include "engine/tensor/dtype.h"

/* The kinds: td_f32 is the C type of dtype TD_ELEMENT_f32. */
typedef float td_f32;
typedef double td_f64;
typedef int8_t td_i8;
typedef int16_t td_i16;
typedef int32_t td_i32;
typedef int64_t td_i64;
typedef uint8_t td_u8;
typedef uint16_t td_u16;
typedef uint32_t td_u32;
typedef uint64_t td_u64;
#ifndef __cplusplus
typedef float complex td_c64;
typedef double complex td_c128;
#endif
typedef uint8_t td_b8; /* bool: 0 or 1 */

enum {
  TD_ELEMENT_f32 = TD_FLOAT32,
  TD_ELEMENT_f64 = TD_FLOAT64,
  TD_ELEMENT_i8 = TD_INT8,
  TD_ELEMENT_i16 = TD_INT16,
  TD_ELEMENT_i32 = TD_INT32,
  TD_ELEMENT_i64 = TD_INT64,
  TD_ELEMENT_u8 = TD_UINT8,
  TD_ELEMENT_u16 = TD_UINT16,
  TD_ELEMENT_u32 = TD_UINT32,
  TD_ELEMENT_u64 = TD_UINT64,
  TD_ELEMENT_c64 = TD_COMPLEX64,
  TD_ELEMENT_c128 = TD_COMPLEX128,
  TD_ELEMENT_b8 = TD_BOOL,
};

/* clang-format off */
#ifdef TD_WIDE
#define EACH_SHORT_SIGNED(M, ...)
#define EACH_UNSIGNED(M, ...)
#define EACH_COMPLEX(M, ...)
#define EACH_BOOLS(M, ...)
#else
#define EACH_SHORT_SIGNED(M, ...) M(i8, __VA_ARGS__) M(i16, __VA_ARGS__)
#define EACH_UNSIGNED(M, ...) M(u8, __VA_ARGS__) M(u16, __VA_ARGS__) \
  M(u32, __VA_ARGS__) M(u64, __VA_ARGS__)
#define EACH_COMPLEX(M, ...) M(c64, __VA_ARGS__) M(c128, __VA_ARGS__)
#define EACH_BOOLS(M, ...) M(b8, __VA_ARGS__)
#endif
#define EACH_FLOATS(M, ...) M(f32, __VA_ARGS__) M(f64, __VA_ARGS__)
#define EACH_LONG_FLOATS(M, ...) EACH_FLOATS(M, __VA_ARGS__)
#define EACH_LONG_SIGNED(M, ...) M(i32, __VA_ARGS__) M(i64, __VA_ARGS__)

#define EACH_FLOATS_C(M, ...) EACH_FLOATS(M, __VA_ARGS__) \
  EACH_COMPLEX(M, __VA_ARGS__)
#define EACH_FLOATS_LONG(M, ...) EACH_FLOATS(M, __VA_ARGS__) \
  EACH_LONG_SIGNED(M, __VA_ARGS__)
#define EACH_FLOATS_LONG_C(M, ...) EACH_FLOATS_LONG(M, __VA_ARGS__) \
  EACH_COMPLEX(M, __VA_ARGS__)
#define EACH_SIGNED(M, ...) EACH_FLOATS_LONG(M, __VA_ARGS__) \
  EACH_SHORT_SIGNED(M, __VA_ARGS__)
#define EACH_SIGNED_C(M, ...) EACH_SIGNED(M, __VA_ARGS__) \
  EACH_COMPLEX(M, __VA_ARGS__)
#define EACH_INTS(M, ...) EACH_LONG_SIGNED(M, __VA_ARGS__) \
  EACH_SHORT_SIGNED(M, __VA_ARGS__) EACH_UNSIGNED(M, __VA_ARGS__)
#define EACH_REALS(M, ...) EACH_FLOATS(M, __VA_ARGS__) \
  EACH_INTS(M, __VA_ARGS__)
#define EACH_NUMBERS(M, ...) EACH_REALS(M, __VA_ARGS__) \
  EACH_COMPLEX(M, __VA_ARGS__)
#define EACH_LONG(M, ...) EACH_FLOATS_LONG(M, __VA_ARGS__)
#define EACH_ADD(M, ...) EACH_NUMBERS(M, __VA_ARGS__)
#define EACH_EQUAL(M, ...) EACH_NUMBERS(M, __VA_ARGS__) \
  EACH_BOOLS(M, __VA_ARGS__)

#define SIG_FLOATS "bfloat16, half, float, double"
#define SIG_LONG_FLOATS "float, double"
#define SIG_COMPLEX ", complex64, complex128"
#define SIG_INTS "int8, int16, int32, int64, uint8, uint16, uint32, uint64"
#define SIG_FLOATS_C SIG_FLOATS SIG_COMPLEX
#define SIG_FLOATS_LONG_C SIG_FLOATS ", int32, int64" SIG_COMPLEX
#define SIG_SIGNED SIG_FLOATS ", int8, int16, int32, int64"
#define SIG_SIGNED_C SIG_SIGNED SIG_COMPLEX
#define SIG_REALS SIG_FLOATS ", " SIG_INTS
#define SIG_REALS_Q SIG_REALS ", qint8"
#define SIG_NUMBERS SIG_REALS SIG_COMPLEX
#define SIG_BOOLS
#define SIG_ALL
#define SIG_ADD SIG_SIGNED ", uint8" SIG_COMPLEX ", string"
#define SIG_MOD "int32, int64, half, half, bfloat16, float, double"

#define TYPES_LONG_FLOATS "T=float|double"
#define TYPES_FLOATS "T=half|bfloat16|float|double"
#define TYPES_COMPLEX "|complex64|complex128"
#define TYPES_FLOATS_C TYPES_FLOATS TYPES_COMPLEX
#define TYPES_FLOATS_LONG TYPES_FLOATS "|int32|int64"
#define TYPES_FLOATS_LONG_C TYPES_FLOATS_LONG TYPES_COMPLEX
#define TYPES_SIGNED TYPES_FLOATS_LONG "|int8|int16"
#define TYPES_SIGNED_C TYPES_SIGNED TYPES_COMPLEX
#define TYPES_UNSIGNED "|uint8|uint16|uint32|uint64"
#define TYPES_INTS "T=int8|int16|int32|int64" TYPES_UNSIGNED
#define TYPES_REALS TYPES_SIGNED TYPES_UNSIGNED
#define TYPES_NUMBERS TYPES_REALS TYPES_COMPLEX
#define TYPES_LONG "T=float|double|int32|int64"
#define TYPES_ADD TYPES_SIGNED "|uint8|string" TYPES_COMPLEX
#define TYPES_EQUAL TYPES_NUMBERS \
  "|bool|string|qint8|quint8|qint16|quint16|qint32"
#define TYPES_BOOLS NULL
/* clang-format on */

#endif
