/* dtype.c - the table of element types and the half-precision conversions.
 *
 * Everything that is known about a type is one row.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/tensor/dtype.h"

#include <string.h>

typedef struct dtype_row {
  const char *name; /* ours and NumPy's */
  const char *sig;  /* TensorFlow's in signatures and GraphDef */
} dtype_row;

/* type, name, TensorFlow's spelling, bytes of an element */
#define EACH_TYPE(ROW)                                                         \
  ROW(TD_INVALID, "invalid", "invalid", 0)                                     \
  ROW(TD_FLOAT32, "float32", "float", 4)                                       \
  ROW(TD_FLOAT64, "float64", "double", 8)                                      \
  ROW(TD_INT32, "int32", "int32", 4)                                           \
  ROW(TD_UINT8, "uint8", "uint8", 1)                                           \
  ROW(TD_INT16, "int16", "int16", 2)                                           \
  ROW(TD_INT8, "int8", "int8", 1)                                              \
  ROW(TD_STRING, "string", "string", 8)                                        \
  ROW(TD_COMPLEX64, "complex64", "complex64", 8)                               \
  ROW(TD_INT64, "int64", "int64", 8)                                           \
  ROW(TD_BOOL, "bool", "bool", 1)                                              \
  ROW(TD_QINT8, "qint8", "qint8", 1)                                           \
  ROW(TD_QUINT8, "quint8", "quint8", 1)                                        \
  ROW(TD_QINT32, "qint32", "qint32", 4)                                        \
  ROW(TD_BFLOAT16, "bfloat16", "bfloat16", 2)                                  \
  ROW(TD_QINT16, "qint16", "qint16", 2)                                        \
  ROW(TD_QUINT16, "quint16", "quint16", 2)                                     \
  ROW(TD_UINT16, "uint16", "uint16", 2)                                        \
  ROW(TD_COMPLEX128, "complex128", "complex128", 16)                           \
  ROW(TD_FLOAT16, "float16", "half", 2)                                        \
  ROW(TD_RESOURCE, "resource", "resource", 8)                                  \
  ROW(TD_VARIANT, "variant", "variant", 8)                                     \
  ROW(TD_UINT32, "uint32", "uint32", 4)                                        \
  ROW(TD_UINT64, "uint64", "uint64", 8)

#define NAMES(type, name, sig, size) [type] = {name, sig},
#define SIZE(type, name, sig, size) [type] = size,
static const dtype_row rows[TD_DTYPES] = {EACH_TYPE(NAMES)};
const uint8_t td_dtype_sizes[TD_DTYPES] = {EACH_TYPE(SIZE)};

/* A number that is no type reads as TD_INVALID. */
static const dtype_row *row_of(td_dtype t) {
  return &rows[(unsigned)t < TD_DTYPES ? (unsigned)t : TD_INVALID];
}

const char *td_dtype_name(td_dtype t) {
  return row_of(t)->name;
}

static bool spells(const char *word, const char *name, size_t len) {
  return strlen(word) == len && memcmp(word, name, len) == 0;
}

td_dtype td_dtype_parse(const char *name, size_t len) {
  for (int t = TD_INVALID + 1; t < TD_DTYPES; t++)
    if (spells(rows[t].name, name, len) || spells(rows[t].sig, name, len))
      return (td_dtype)t;
  return TD_INVALID;
}

/* ---- half precision: 1 sign, 5 exponent, 10 fraction bits ---------------- */

typedef union bits32 {
  uint32_t u;
  float f;
} bits32;

/* Kernels run with denormals read as zero: no step below makes a float one. A
 * subnormal half gets the least normal exponent and has that part taken off
 * again, which normalises it. */
float td_float_from_half(uint16_t h) {
  bits32 v = {.u = (uint32_t)(h & 0x7fff) << 13};
  const bits32 least = {.u = (127u - 14u) << 23};
  uint32_t exponent = h & 0x7c00;
  if (exponent == 0x7c00) {
    v.u |= 0x7f800000u; /* infinity or NaN, its payload kept */
  } else if (exponent) {
    v.u += (127u - 15u) << 23;
  } else {
    v.u += least.u;
    v.f -= least.f;
  }
  v.u |= (uint32_t)(h & 0x8000) << 16;
  return v.f;
}

/* Below the normal range of halves: the float's addition rounds for us, 0.5
 * having its last bit where the half's subnormals have theirs. */
static uint16_t half_subnormal(float magnitude) {
  bits32 v = {.f = magnitude + 0.5f};
  return (uint16_t)(v.u - 0x3f000000u);
}

uint16_t td_float_to_half(float f) {
  bits32 v = {.f = f};
  uint16_t sign = (uint16_t)(v.u >> 16 & 0x8000);
  v.u &= 0x7fffffffu;
  if (v.u > 0x7f800000u) /* NaN stays one, quiet */
    return (uint16_t)(sign | 0x7e00 | (v.u >> 13 & 0x3ff));
  if (v.u >= 0x47800000u) return sign | 0x7c00; /* 65536 and above */
  if (v.u < 0x38800000u) return sign | half_subnormal(v.f);
  uint32_t odd = v.u >> 13 & 1;
  return (uint16_t)(sign | (v.u - 0x38000000u + 0xfff + odd) >> 13);
}
