/* dtype.h - the element types, with TensorFlow's numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DTYPE_H
#define TD_DTYPE_H

#include "engine/base/base.h"

TD_BEGIN

typedef enum td_dtype {
  TD_INVALID = 0,
  TD_FLOAT32 = 1,
  TD_FLOAT64 = 2,
  TD_INT32 = 3,
  TD_UINT8 = 4,
  TD_INT16 = 5,
  TD_INT8 = 6,
  TD_STRING = 7,
  TD_COMPLEX64 = 8,
  TD_INT64 = 9,
  TD_BOOL = 10,
  TD_QINT8 = 11,
  TD_QUINT8 = 12,
  TD_QINT32 = 13,
  TD_BFLOAT16 = 14,
  TD_QINT16 = 15,
  TD_QUINT16 = 16,
  TD_UINT16 = 17,
  TD_COMPLEX128 = 18,
  TD_FLOAT16 = 19,
  TD_RESOURCE = 20,
  TD_VARIANT = 21,
  TD_UINT32 = 22,
  TD_UINT64 = 23,
} td_dtype;
enum { TD_DTYPES = 24 };

/* Sets of types, a bit each: these questions are asked for every node run. */
enum {
  TD_FLOATS =
      1 << TD_FLOAT16 | 1 << TD_BFLOAT16 | 1 << TD_FLOAT32 | 1 << TD_FLOAT64,
  TD_INTEGERS = 1 << TD_INT8 | 1 << TD_INT16 | 1 << TD_INT32 | 1 << TD_INT64 |
                1 << TD_UINT8 | 1 << TD_UINT16 | 1 << TD_UINT32 |
                1 << TD_UINT64,
  TD_COMPLEXES = 1 << TD_COMPLEX64 | 1 << TD_COMPLEX128,
  TD_QUANTIZED = 1 << TD_QINT8 | 1 << TD_QUINT8 | 1 << TD_QINT16 |
                 1 << TD_QUINT16 | 1 << TD_QINT32,
  TD_PLAIN =
      TD_FLOATS | TD_INTEGERS | TD_COMPLEXES | TD_QUANTIZED | 1 << TD_BOOL,
};
extern const uint8_t td_dtype_sizes[TD_DTYPES];

/* A number that is no type is in no set. */
static inline bool td_dtype_in(td_dtype t, int set) {
  return (unsigned)t < TD_DTYPES && (set >> t & 1);
}
/* Bytes of one element; string: of one offset (8); 0 for TD_INVALID. */
static inline size_t td_dtype_size(td_dtype t) {
  return (unsigned)t < TD_DTYPES ? td_dtype_sizes[t] : 0;
}
/* "float32"; "invalid" for what is none. */
const char *td_dtype_name(td_dtype t);
/* Takes "float32" and what signatures and GraphDef call it, "float"; TD_INVALID
 * when it is neither. */
td_dtype td_dtype_parse(const char *name, size_t len);

static inline bool td_dtype_is_float(td_dtype t) {
  return td_dtype_in(t, TD_FLOATS);
}
/* Signed and unsigned, not quantized. */
static inline bool td_dtype_is_integer(td_dtype t) {
  return td_dtype_in(t, TD_INTEGERS);
}
static inline bool td_dtype_is_complex(td_dtype t) {
  return td_dtype_in(t, TD_COMPLEXES);
}
/* Elements are bytes that may be copied; not string, resource, variant. */
static inline bool td_dtype_is_plain(td_dtype t) {
  return td_dtype_in(t, TD_PLAIN);
}

static inline float td_float_from_bfloat16(uint16_t h) {
  union {
    uint32_t u;
    float f;
  } v;
  v.u = (uint32_t)h << 16;
  return v.f;
}
/* Round to nearest even; NaN stays NaN. */
static inline uint16_t td_float_to_bfloat16(float f) {
  union {
    float f;
    uint32_t u;
  } v;
  v.f = f;
  if ((v.u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(v.u >> 16 | 0x40);
  return (uint16_t)((v.u + 0x7fffu + (v.u >> 16 & 1)) >> 16);
}
float td_float_from_half(uint16_t h);
uint16_t td_float_to_half(float f); /* round to nearest even */

TD_END
#endif
