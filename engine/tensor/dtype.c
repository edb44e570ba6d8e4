/* dtype.c - the table of element types and the half-precision conversions.
 *
 * Everything that is known about a type is one row; the predicates read it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/tensor/dtype.h"

#include <string.h>

enum { FLOAT = 1, INTEGER = 2, COMPLEX = 4, PLAIN = 8 };

typedef struct dtype_row {
  const char *name; /* ours and NumPy's */
  const char *sig;  /* TensorFlow's in signatures and GraphDef */
  uint8_t size;     /* bytes of one element */
  uint8_t kind;     /* of the above */
} dtype_row;

/* clang-format off */
static const dtype_row rows[TD_DTYPES] = {
  [TD_INVALID] = {"invalid", "invalid", 0, 0},
  [TD_FLOAT32] = {"float32", "float", 4, FLOAT | PLAIN},
  [TD_FLOAT64] = {"float64", "double", 8, FLOAT | PLAIN},
  [TD_INT32] = {"int32", "int32", 4, INTEGER | PLAIN},
  [TD_UINT8] = {"uint8", "uint8", 1, INTEGER | PLAIN},
  [TD_INT16] = {"int16", "int16", 2, INTEGER | PLAIN},
  [TD_INT8] = {"int8", "int8", 1, INTEGER | PLAIN},
  [TD_STRING] = {"string", "string", 8, 0},
  [TD_COMPLEX64] = {"complex64", "complex64", 8, COMPLEX | PLAIN},
  [TD_INT64] = {"int64", "int64", 8, INTEGER | PLAIN},
  [TD_BOOL] = {"bool", "bool", 1, PLAIN},
  [TD_QINT8] = {"qint8", "qint8", 1, PLAIN},
  [TD_QUINT8] = {"quint8", "quint8", 1, PLAIN},
  [TD_QINT32] = {"qint32", "qint32", 4, PLAIN},
  [TD_BFLOAT16] = {"bfloat16", "bfloat16", 2, FLOAT | PLAIN},
  [TD_QINT16] = {"qint16", "qint16", 2, PLAIN},
  [TD_QUINT16] = {"quint16", "quint16", 2, PLAIN},
  [TD_UINT16] = {"uint16", "uint16", 2, INTEGER | PLAIN},
  [TD_COMPLEX128] = {"complex128", "complex128", 16, COMPLEX | PLAIN},
  [TD_FLOAT16] = {"float16", "half", 2, FLOAT | PLAIN},
  [TD_RESOURCE] = {"resource", "resource", 8, 0},
  [TD_VARIANT] = {"variant", "variant", 8, 0},
  [TD_UINT32] = {"uint32", "uint32", 4, INTEGER | PLAIN},
  [TD_UINT64] = {"uint64", "uint64", 8, INTEGER | PLAIN},
};
/* clang-format on */

/* A number that is no type reads as TD_INVALID. */
static const dtype_row *row_of(td_dtype t) {
  return &rows[(unsigned)t < TD_DTYPES ? (unsigned)t : TD_INVALID];
}

size_t td_dtype_size(td_dtype t) {
  return row_of(t)->size;
}
const char *td_dtype_name(td_dtype t) {
  return row_of(t)->name;
}
const char *td_dtype_sig_name(td_dtype t) {
  return row_of(t)->sig;
}
bool td_dtype_is_float(td_dtype t) {
  return row_of(t)->kind & FLOAT;
}
bool td_dtype_is_integer(td_dtype t) {
  return row_of(t)->kind & INTEGER;
}
bool td_dtype_is_complex(td_dtype t) {
  return row_of(t)->kind & COMPLEX;
}
bool td_dtype_is_plain(td_dtype t) {
  return row_of(t)->kind & PLAIN;
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
float td_half_to_float(uint16_t h) {
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
