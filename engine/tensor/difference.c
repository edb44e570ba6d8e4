/* difference.c - in how many elements two tensors differ, and by how much.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/tensor/difference.h"

#include <math.h>
#include <string.h>

static double apart(double x, double y) {
  if (x == y || (isnan(x) && isnan(y))) return 0;
  double d = fabs(x - y);
  return isnan(d) ? (double)INFINITY : d;
}

/* Of two complex numbers, whose parts are floats of half the size. */
static double complex_apart(const td_tensor *a, const td_tensor *b, int64_t i) {
  double x[2], y[2];
  for (int part = 0; part < 2; part++) {
    int64_t at = 2 * i + part;
    bool wide = a->dtype == TD_COMPLEX128;
    x[part] = wide ? ((double *)a->data)[at] : ((float *)a->data)[at];
    y[part] = wide ? ((double *)b->data)[at] : ((float *)b->data)[at];
  }
  return hypot(apart(x[0], y[0]), apart(x[1], y[1]));
}

/* Exact where the two are too large for a double. */
static double integer_apart(const td_tensor *a, const td_tensor *b, int64_t i) {
  uint64_t x = (uint64_t)td_tensor_get_i(a, i);
  uint64_t y = (uint64_t)td_tensor_get_i(b, i);
  bool less = a->dtype == TD_UINT64 ? x < y : (int64_t)x < (int64_t)y;
  return (double)(less ? y - x : x - y);
}

static double element_apart(const td_tensor *a, const td_tensor *b, int64_t i) {
  if (td_dtype_is_complex(a->dtype)) return complex_apart(a, b, i);
  if (td_dtype_is_float(a->dtype))
    return apart(td_tensor_get_f(a, i), td_tensor_get_f(b, i));
  return integer_apart(a, b, i);
}

static bool same_text(const td_tensor *a, const td_tensor *b, int64_t i) {
  size_t x_len, y_len;
  const char *x = td_tensor_str(a, i, &x_len), *y = td_tensor_str(b, i, &y_len);
  return x_len == y_len && !memcmp(x, y, x_len);
}

td_difference td_difference_of(const td_tensor *a, const td_tensor *b) {
  td_difference d = {0, 0};
  size_t size = td_dtype_size(a->dtype);
  int64_t n = td_tensor_count(a);
  if (td_tensor_same(a, b)) return d;
  for (int64_t i = 0; i < n; i++) {
    if (a->dtype == TD_STRING) {
      d.count += !same_text(a, b, i);
      continue;
    }
    size_t at = (size_t)i * size;
    if (!memcmp((char *)a->data + at, (char *)b->data + at, size)) continue;
    double by = element_apart(a, b, i);
    if (by > d.largest) d.largest = by;
    d.count++;
  }
  return d;
}
