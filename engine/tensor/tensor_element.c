/* tensor_element.c - single elements of a tensor, read, written and printed.
 *
 * For constants, literals, tests and people; kernels have their own loops. No
 * value is undefined: what an integer type cannot hold is clamped when it comes
 * from a float (NaN: 0) and wraps when it comes from an integer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/tensor/tensor.h"

/* ---- reading ------------------------------------------------------------- */

double td_tensor_get_f(const td_tensor *t, int64_t i) {
  switch (t->dtype) {
  case TD_FLOAT32:
    return ((const float *)t->data)[i];
  case TD_FLOAT64:
    return ((const double *)t->data)[i];
  case TD_FLOAT16:
    return td_float_from_half(((const uint16_t *)t->data)[i]);
  case TD_BFLOAT16:
    return td_float_from_bfloat16(((const uint16_t *)t->data)[i]);
  case TD_COMPLEX64:
    return ((const float *)t->data)[2 * i];
  case TD_COMPLEX128:
    return ((const double *)t->data)[2 * i];
  case TD_UINT64:
    return (double)((const uint64_t *)t->data)[i];
  default:
    return (double)td_tensor_get_i(t, i);
  }
}

/* Towards zero; the nearest bound for what does not fit, 0 for NaN. */
static int64_t clamp_i64(double v) {
  if (isnan(v)) return 0;
  if (v >= 0x1p63) return INT64_MAX;
  return v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

int64_t td_tensor_get_i(const td_tensor *t, int64_t i) {
  switch (t->dtype) {
  case TD_BOOL:
    return ((const uint8_t *)t->data)[i] != 0;
  case TD_INT8:
  case TD_QINT8:
    return ((const int8_t *)t->data)[i];
  case TD_UINT8:
  case TD_QUINT8:
    return ((const uint8_t *)t->data)[i];
  case TD_INT16:
  case TD_QINT16:
    return ((const int16_t *)t->data)[i];
  case TD_UINT16:
  case TD_QUINT16:
    return ((const uint16_t *)t->data)[i];
  case TD_INT32:
  case TD_QINT32:
    return ((const int32_t *)t->data)[i];
  case TD_UINT32:
    return ((const uint32_t *)t->data)[i];
  case TD_INT64:
  case TD_UINT64:
    return ((const int64_t *)t->data)[i];
  case TD_INVALID:
  case TD_STRING:
  case TD_RESOURCE:
  case TD_VARIANT:
    return 0;
  default:
    return clamp_i64(td_tensor_get_f(t, i));
  }
}

/* ---- writing ------------------------------------------------------------- */

/* To a float that still tells which way a narrower type must round: what is
 * cut off leaves the last bit set. */
static float round_to_odd(double v) {
  union {
    float f;
    uint32_t u;
  } r = {.f = (float)v};
  if (isnan(v) || (double)r.f == v) return r.f;
  if (fabs((double)r.f) > fabs(v)) r.u--;
  r.u |= 1;
  return r.f;
}

static bool is_unsigned(td_dtype t) {
  return t == TD_UINT8 || t == TD_UINT16 || t == TD_UINT32 || t == TD_QUINT8 ||
         t == TD_QUINT16;
}

/* To what an integer dtype of at most 32 bits holds. */
static double clamp_narrow(td_dtype dtype, double v) {
  bool from_zero = is_unsigned(dtype);
  double end = ldexp(1, (int)(8 * td_dtype_size(dtype)) - !from_zero);
  double lo = from_zero ? 0 : -end;
  return v < lo ? lo : v > end - 1 ? end - 1 : v;
}

void td_tensor_set_f(td_tensor *t, int64_t i, double v) {
  switch (t->dtype) {
  case TD_FLOAT32:
    ((float *)t->data)[i] = (float)v;
    return;
  case TD_FLOAT64:
    ((double *)t->data)[i] = v;
    return;
  case TD_FLOAT16:
    ((uint16_t *)t->data)[i] = td_float_to_half(round_to_odd(v));
    return;
  case TD_BFLOAT16:
    ((uint16_t *)t->data)[i] = td_float_to_bfloat16(round_to_odd(v));
    return;
  case TD_COMPLEX64:
    ((float *)t->data)[2 * i] = (float)v;
    ((float *)t->data)[2 * i + 1] = 0;
    return;
  case TD_COMPLEX128:
    ((double *)t->data)[2 * i] = v;
    ((double *)t->data)[2 * i + 1] = 0;
    return;
  case TD_BOOL:
    ((uint8_t *)t->data)[i] = v != 0;
    return;
  case TD_UINT64:
    ((uint64_t *)t->data)[i] = v >= 0x1p64 ? UINT64_MAX
                               : v > 0     ? (uint64_t)v
                                           : 0;
    return;
  case TD_INT64:
    ((int64_t *)t->data)[i] = clamp_i64(v);
    return;
  default:
    td_tensor_set_i(t, i, clamp_i64(clamp_narrow(t->dtype, v)));
  }
}

void td_tensor_set_i(td_tensor *t, int64_t i, int64_t v) {
  switch (t->dtype) {
  case TD_BOOL:
    ((uint8_t *)t->data)[i] = v != 0;
    return;
  case TD_INT8:
  case TD_UINT8:
  case TD_QINT8:
  case TD_QUINT8:
    ((uint8_t *)t->data)[i] = (uint8_t)v;
    return;
  case TD_INT16:
  case TD_UINT16:
  case TD_QINT16:
  case TD_QUINT16:
    ((uint16_t *)t->data)[i] = (uint16_t)v;
    return;
  case TD_INT32:
  case TD_UINT32:
  case TD_QINT32:
    ((uint32_t *)t->data)[i] = (uint32_t)v;
    return;
  case TD_INT64:
  case TD_UINT64:
    ((int64_t *)t->data)[i] = v;
    return;
  case TD_FLOAT32:
    ((float *)t->data)[i] = (float)v;
    return;
  case TD_INVALID:
  case TD_STRING:
  case TD_RESOURCE:
  case TD_VARIANT:
    return;
  default:
    td_tensor_set_f(t, i, (double)v);
  }
}

td_status *td_tensor_scalar_f(td_dtype dtype, double v, td_tensor *out) {
  td_shape scalar = td_shape_scalar();
  TD_TRY(td_tensor_new(NULL, dtype, &scalar, out));
  td_tensor_set_f(out, 0, v);
  return NULL;
}

td_status *td_tensor_scalar_i(td_dtype dtype, int64_t v, td_tensor *out) {
  td_shape scalar = td_shape_scalar();
  TD_TRY(td_tensor_new(NULL, dtype, &scalar, out));
  td_tensor_set_i(out, 0, v);
  return NULL;
}

/* ---- printing ------------------------------------------------------------ */

/* Does `text` read back as `v` in this dtype? */
static bool reads_back(td_dtype dtype, const char *text, double v) {
  switch (dtype) {
  case TD_FLOAT16:
    return td_float_to_half(strtof(text, NULL)) == td_float_to_half((float)v);
  case TD_BFLOAT16:
    return td_float_to_bfloat16(strtof(text, NULL)) ==
           td_float_to_bfloat16((float)v);
  case TD_FLOAT64:
  case TD_COMPLEX128:
    return strtod(text, NULL) == v;
  default:
    return (double)strtof(text, NULL) == v;
  }
}

/* With as few digits as tell the value from its neighbours. */
static void print_real(td_dtype dtype, double v, td_str *out) {
  bool wide = dtype == TD_FLOAT64 || dtype == TD_COMPLEX128;
  bool half = dtype == TD_FLOAT16 || dtype == TD_BFLOAT16;
  int least = wide ? 15 : half && v != trunc(v) ? 3 : 6;
  int most = wide ? 17 : half ? 6 : 9;
  char text[40] = "nan"; /* whose sign tells nothing */
  for (int digits = least; !isnan(v) && digits <= most; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v);
    if (reads_back(dtype, text, v)) break;
  }
  td_str_add(out, text);
}

static void print_complex(const td_tensor *t, int64_t i, td_str *out) {
  bool wide = t->dtype == TD_COMPLEX128;
  double re = td_tensor_get_f(t, i);
  double im = wide ? ((const double *)t->data)[2 * i + 1]
                   : ((const float *)t->data)[2 * i + 1];
  print_real(t->dtype, re, out);
  if (!signbit(im) || isnan(im)) td_str_addc(out, '+');
  print_real(t->dtype, im, out);
  td_str_addc(out, 'i');
}

enum { TEXT_SHOWN = 64 }; /* bytes of a string that are printed */

static void print_string(const td_tensor *t, int64_t i, td_str *out) {
  size_t len;
  const char *text = td_tensor_str(t, i, &len);
  td_str_json(out, text, len < TEXT_SHOWN ? len : TEXT_SHOWN);
  if (len > TEXT_SHOWN) td_str_add(out, "...");
}

static void print_element(const td_tensor *t, int64_t i, td_str *out) {
  if (t->dtype == TD_STRING)
    print_string(t, i, out);
  else if (!td_dtype_is_plain(t->dtype))
    td_str_addf(out, "<%s>", ((td_object *const *)t->data)[i]->type);
  else if (td_dtype_is_complex(t->dtype))
    print_complex(t, i, out);
  else if (td_dtype_is_float(t->dtype))
    print_real(t->dtype, td_tensor_get_f(t, i), out);
  else if (t->dtype == TD_BOOL)
    td_str_add(out, td_tensor_get_i(t, i) ? "true" : "false");
  else if (t->dtype == TD_UINT64)
    td_str_addf(out, "%" PRIu64, ((const uint64_t *)t->data)[i]);
  else
    td_str_addf(out, "%" PRId64, td_tensor_get_i(t, i));
}

void td_tensor_print(const td_tensor *t, int64_t limit, td_str *out) {
  int64_t count = td_tensor_count(t);
  if (!td_tensor_valid(t)) {
    td_str_add(out, "no tensor");
    return;
  }
  td_str_addf(out, "%s ", td_dtype_name(t->dtype));
  td_shape_print(&t->shape, out);
  if (!td_tensor_touchable(t)) {
    td_str_addf(out, " in the memory of %s", t->buffer->allocator->name);
    return;
  }
  for (int64_t i = 0; i < count && i < limit; i++) {
    td_str_addc(out, ' ');
    print_element(t, i, out);
  }
  if (count > limit) td_str_add(out, " ...");
}
