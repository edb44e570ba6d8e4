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

/* Bytes of one element; string: of one offset (8); 0 for TD_INVALID. */
size_t td_dtype_size(td_dtype t);
/* "float32"; "invalid" for what is none. */
const char *td_dtype_name(td_dtype t);
/* As signatures and GraphDef spell it: "float", "half", "int32". */
const char *td_dtype_sig_name(td_dtype t);
/* Takes both spellings; TD_INVALID when it is none. */
td_dtype td_dtype_parse(const char *name, size_t len);

bool td_dtype_is_float(td_dtype t);   /* float16 bfloat16 float32 float64 */
bool td_dtype_is_integer(td_dtype t); /* signed and unsigned, not quantized */
bool td_dtype_is_complex(td_dtype t);
/* Elements are bytes that may be copied; not string, resource, variant. */
bool td_dtype_is_plain(td_dtype t);

static inline float td_bfloat16_to_float(uint16_t h) {
  union { uint32_t u; float f; } v;
  v.u = (uint32_t)h << 16;
  return v.f;
}
/* Round to nearest even; NaN stays NaN. */
static inline uint16_t td_float_to_bfloat16(float f) {
  union { float f; uint32_t u; } v;
  v.f = f;
  if ((v.u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(v.u >> 16 | 0x40);
  return (uint16_t)((v.u + 0x7fffu + (v.u >> 16 & 1)) >> 16);
}
float td_half_to_float(uint16_t h);
uint16_t td_float_to_half(float f); /* round to nearest even */

TD_END
#endif
