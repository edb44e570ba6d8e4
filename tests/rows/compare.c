/* compare.c - is a tensor TensorFlow's, within the row's tolerance?
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/rows/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One unit in the last place of 1, and the smallest normal number. */
typedef struct precision {
  double unit, least;
} precision;

static precision precision_of(td_dtype t) {
  switch (t) {
  case TD_FLOAT16:
    return (precision){0x1p-10, 0x1p-14};
  case TD_BFLOAT16:
    return (precision){0x1p-7, 0x1p-126};
  case TD_FLOAT64:
  case TD_COMPLEX128:
    return (precision){0x1p-52, 0x1p-1022};
  default:
    return (precision){0x1p-23, 0x1p-126};
  }
}

/* What a row allows a processor's functions; a card's are a little coarser. */
static double units_said(const row *r, td_dtype t) {
  if (t == TD_FLOAT16) return r->say->half;
  if (t == TD_BFLOAT16) return r->say->bfloat16;
  if (td_dtype_is_complex(t)) return r->say->complexes;
  if (t == TD_FLOAT64) return r->say->float64;
  return r->say->float32;
}

static double units_of(const row *r, td_dtype t) {
  const char *device = device_wanted();
  double said = units_said(r, t);
  bool card = device && strcmp(device, "CUDA") == 0;
  return card && said > 0 ? said + 4 : said;
}

/* Element i as real and imaginary part. */
static void parts(const td_tensor *t, int64_t i, double z[2]) {
  z[1] = 0;
  if (t->dtype == TD_COMPLEX64) {
    z[0] = ((const float *)t->data)[2 * i];
    z[1] = ((const float *)t->data)[2 * i + 1];
  } else if (t->dtype == TD_COMPLEX128) {
    z[0] = ((const double *)t->data)[2 * i];
    z[1] = ((const double *)t->data)[2 * i + 1];
  } else {
    z[0] = td_tensor_get_f(t, i);
  }
}

static double size_of(const double z[2]) {
  double s = hypot(z[0], z[1]);
  return isfinite(s) ? s : 0;
}

static double largest(const td_tensor *t) {
  double most = 0, z[2];
  for (int64_t i = 0; i < td_tensor_count(t); i++) {
    parts(t, i, z);
    most = fmax(most, size_of(z));
  }
  return most;
}

/* A unit in the last place of `size`. */
static double unit_at(precision p, double size) {
  int e;
  if (size < p.least) size = p.least;
  frexp(size, &e);
  return ldexp(p.unit, e - 1);
}

static bool near(const row *r, double got, double want, double allowed) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (isinf(want) || isinf(got)) return got == want;
  if (allowed == 0 && !r->say->zeros && !signbit(got) != !signbit(want))
    return false;
  return fabs(got - want) <= allowed;
}

static void say_difference(const row *r, const char *what, const td_tensor *got,
                           const td_tensor *want, int64_t i, double units) {
  double g[2], w[2];
  parts(got, i, g);
  parts(want, i, w);
  fail_msg("%s: %s: element %lld of %s is %.17g %+.17gi, TensorFlow's %.17g "
           "%+.17gi: %.3g units apart",
           r->op, what, (long long)i, td_dtype_name(got->dtype), g[0], g[1],
           w[0], w[1], units);
}

static void compare_floats(const row *r, const char *what, const td_tensor *got,
                           const td_tensor *want) {
  precision p = precision_of(want->dtype);
  double units = units_of(r, want->dtype), scale = 0;
  if (r->say->scaled) scale = largest(want);
  for (int64_t i = 0; i < td_tensor_count(want); i++) {
    double g[2], w[2];
    parts(got, i, g);
    parts(want, i, w);
    double unit =
        unit_at(p, fmax(r->say->least, r->say->scaled ? scale : size_of(w)));
    if (near(r, g[0], w[0], units * unit) && near(r, g[1], w[1], units * unit))
      continue;
    double off[2] = {g[0] - w[0], g[1] - w[1]};
    say_difference(r, what, got, want, i, size_of(off) / unit);
  }
}

static void say_contents(const row *r, const char *what, const td_tensor *got,
                         const td_tensor *want) {
  td_str a, b;
  td_str_init(&a);
  td_str_init(&b);
  td_tensor_print(got, 20, &a);
  td_tensor_print(want, 20, &b);
  fail_msg("%s: %s is %s, TensorFlow's %s", r->op, what, td_str_c(&a),
           td_str_c(&b));
}

void compare_tensors(const row *r, const char *what, const td_tensor *got,
                     const td_tensor *want) {
  if (!td_tensor_valid(got) || !td_tensor_valid(want)) {
    if (td_tensor_valid(got) != td_tensor_valid(want))
      fail_msg("%s: %s is%s there, TensorFlow's is%s", r->op, what,
               td_tensor_valid(got) ? "" : " not",
               td_tensor_valid(want) ? "" : " not");
    return;
  }
  bool floats =
      td_dtype_is_float(want->dtype) || td_dtype_is_complex(want->dtype);
  if (got->dtype != want->dtype || !td_shape_equal(&got->shape, &want->shape) ||
      (!floats && !td_tensor_same(got, want)))
    say_contents(r, what, got, want);
  if (floats) compare_floats(r, what, got, want);
}
