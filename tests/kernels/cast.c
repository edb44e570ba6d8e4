/* cast.c - every pair of dtypes against a plain conversion, ends of ranges,
 * halves, bit casts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>
#include <string.h>

#include "kernels/simd/half.h"
#include "tests/kernels/call.h"

static td_status *cast(const td_tensor *x, td_dtype to, bool truncate,
                       td_tensor *y) {
  td_note attrs[] = {{"DstT", td_attr_type(to)},
                     {"Truncate", td_attr_bool(truncate)}};
  return call("Cast", 2, x, 1, attrs, 2, y);
}

static const td_dtype types[] = {
    TD_FLOAT32, TD_FLOAT64, TD_FLOAT16, TD_BFLOAT16,  TD_INT8,
    TD_INT16,   TD_INT32,   TD_INT64,   TD_UINT8,     TD_UINT16,
    TD_UINT32,  TD_UINT64,  TD_BOOL,    TD_QINT8,     TD_QUINT8,
    TD_QINT16,  TD_QUINT16, TD_QINT32,  TD_COMPLEX64, TD_COMPLEX128,
};

/* Numbers that every dtype but bool holds. */
static void test_pairs(void **state) {
  td_shape s = td_shape_vector(1500);
  (void)state;
  for (size_t f = 0; f < TD_COUNT(types); f++) {
    td_tensor x, y;
    assert_null(td_tensor_new(NULL, types[f], &s, &x));
    bool bools = types[f] == TD_BOOL;
    for (int i = 0; i < 1500; i++)
      td_tensor_set_i(&x, i, i % (bools ? 2 : 100));
    for (size_t t = 0; t < TD_COUNT(types); t++) {
      assert_null(cast(&x, types[t], false, &y));
      assert_int_equal(y.dtype, types[t]);
      for (int i = 0; i < 1500; i++) {
        int want = i % (bools ? 2 : 100);
        if (types[t] == TD_BOOL) want = want != 0;
        if (td_tensor_get_f(&y, i) != want)
          fail_msg("%s to %s: %d becomes %g", td_dtype_name(types[f]),
                   td_dtype_name(types[t]), want, td_tensor_get_f(&y, i));
      }
      td_tensor_release(&y);
    }
    td_tensor_release(&x);
  }
}

/* Floats that do not fit stop at the end of the range; NaN is 0. */
static void test_saturation(void **state) {
  static const struct {
    td_dtype to;
    double least, most;
  } rows[] = {
      {TD_INT8, INT8_MIN, INT8_MAX},     {TD_UINT8, 0, UINT8_MAX},
      {TD_INT16, INT16_MIN, INT16_MAX},  {TD_UINT16, 0, UINT16_MAX},
      {TD_INT32, INT32_MIN, INT32_MAX},  {TD_UINT32, 0, UINT32_MAX},
      {TD_INT64, -0x1p63, 0x1p63},       {TD_UINT64, 0, 0x1p64},
      {TD_QINT32, INT32_MIN, INT32_MAX},
  };
  static const double values[] = {
      NAN,          INFINITY, -INFINITY, 1e300,   -1e300,       -0.9,
      0.9,          -1.0,     127.9,     128,     -128.9,       -129,
      255.9,        256,      32767.9,   65535.9, 2147483647.5, -2147483648.5,
      4294967295.5, 0x1p63,   -0x1p63,   0x1p64};
  td_shape s = td_shape_vector(TD_COUNT(values));
  (void)state;
  for (int wide = 0; wide < 2; wide++) {
    td_tensor x, y;
    assert_null(td_tensor_new(NULL, wide ? TD_FLOAT64 : TD_FLOAT32, &s, &x));
    for (size_t i = 0; i < TD_COUNT(values); i++)
      td_tensor_set_f(&x, (int64_t)i, values[i]);
    for (size_t r = 0; r < TD_COUNT(rows); r++) {
      assert_null(cast(&x, rows[r].to, false, &y));
      for (size_t i = 0; i < TD_COUNT(values); i++) {
        double want = trunc(td_tensor_get_f(&x, (int64_t)i));
        want = isnan(want) ? 0 : fmin(fmax(want, rows[r].least), rows[r].most);
        double got = td_tensor_get_f(&y, (int64_t)i);
        if (got != want && !(fabs(want) >= 0x1p63 && got >= want * 0.9999))
          fail_msg("%g to %s is %g", values[i], td_dtype_name(rows[r].to), got);
      }
      td_tensor_release(&y);
    }
    td_tensor_release(&x);
  }
}

static void test_integers_wrap(void **state) {
  static const struct {
    td_dtype from, to;
    int64_t x, want;
  } rows[] = {
      {TD_INT32, TD_INT8, 300, 44},
      {TD_INT32, TD_UINT8, -1, 255},
      {TD_INT64, TD_INT32, 5000000000, 705032704},
      {TD_INT8, TD_UINT64, -1, -1},
      {TD_UINT8, TD_INT8, 200, -56},
      {TD_INT8, TD_QUINT8, -1, 255},
      {TD_UINT64, TD_UINT32, -1, UINT32_MAX},
      {TD_INT8, TD_BOOL, -3, 1},
      {TD_INT64, TD_BOOL, 1ll << 40, 1},
  };
  td_shape s = td_shape_scalar();
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_tensor x, y;
    assert_null(td_tensor_new(NULL, rows[i].from, &s, &x));
    td_tensor_set_i(&x, 0, rows[i].x);
    assert_null(cast(&x, rows[i].to, false, &y));
    assert_int_equal(td_tensor_get_i(&y, 0), rows[i].want);
    td_tensor_release(&y);
    td_tensor_release(&x);
  }
}

/* Every half to float and back, in one go. */
static void test_halves(void **state) {
  td_shape s = td_shape_vector(65536);
  (void)state;
  for (int brain = 0; brain < 2; brain++) {
    td_dtype t = brain ? TD_BFLOAT16 : TD_FLOAT16;
    td_tensor x, f, y, d;
    assert_null(td_tensor_new(NULL, t, &s, &x));
    for (int i = 0; i < 65536; i++) ((uint16_t *)x.data)[i] = (uint16_t)i;
    assert_null(cast(&x, TD_FLOAT32, false, &f));
    assert_null(cast(&f, t, false, &y));
    assert_null(cast(&x, TD_FLOAT64, false, &d));
    for (int i = 0; i < 65536; i++) {
      float v = ((float *)f.data)[i];
      if (isnan(v)) {
        assert_true(isnan(((double *)d.data)[i]));
        continue;
      }
      assert_int_equal(((uint16_t *)y.data)[i], i);
      if (fabsf(v) < 0x1p-126f) v = 0; /* denormals are off in kernels */
      assert_true(((double *)d.data)[i] == (double)v);
    }
    td_tensor_release(&x);
    td_tensor_release(&f);
    td_tensor_release(&y);
    td_tensor_release(&d);
  }
}

static void test_truncate(void **state) {
  static const struct {
    td_dtype from, to;
    double x, want;
  } rows[] = {
      {TD_FLOAT32, TD_FLOAT16, 1.0009765, 1.0},
      {TD_FLOAT32, TD_FLOAT16, -2049.9, -2048},
      {TD_FLOAT32, TD_FLOAT16, 65519, 65504},
      {TD_FLOAT32, TD_FLOAT16, 1e6, INFINITY},
      {TD_FLOAT32, TD_BFLOAT16, 1.0078, 1.0},
      {TD_FLOAT64, TD_FLOAT32, 1.00000011, 1.0},
      {TD_FLOAT64, TD_FLOAT16, 1.0009, 1.0},
      {TD_FLOAT64, TD_BFLOAT16, 1.99999, 1.9921875},
      {TD_FLOAT32, TD_INT32, 1.9, 1},
      {TD_FLOAT16, TD_FLOAT32, 1.5, 1.5},
  };
  td_shape s = td_shape_vector(3);
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_tensor x, y;
    assert_null(td_tensor_new(NULL, rows[i].from, &s, &x));
    for (int k = 0; k < 3; k++) td_tensor_set_f(&x, k, rows[i].x);
    assert_null(cast(&x, rows[i].to, true, &y));
    for (int k = 0; k < 3; k++)
      assert_true(td_tensor_get_f(&y, k) == rows[i].want);
    td_tensor_release(&y);
    td_tensor_release(&x);
  }
}

static void test_complex(void **state) {
  td_shape s = td_shape_vector(2);
  const double numbers[] = {1.5, 2.5, 0, 3};
  td_tensor x, y;
  (void)state;
  assert_null(td_tensor_from(TD_COMPLEX128, &s, numbers, &x));
  assert_null(cast(&x, TD_COMPLEX64, false, &y));
  for (int i = 0; i < 4; i++)
    assert_true(((float *)y.data)[i] == (float)numbers[i]);
  td_tensor_release(&y);
  assert_null(cast(&x, TD_INT32, false, &y));
  assert_int_equal(td_tensor_get_i(&y, 0), 1);
  td_tensor_release(&y);
  assert_null(cast(&x, TD_BOOL, false, &y)); /* the real part decides */
  assert_int_equal(td_tensor_get_i(&y, 1), 0);
  td_tensor_release(&y);
  td_tensor_release(&x);
  const uint8_t bools[] = {1, 0};
  assert_null(td_tensor_from(TD_BOOL, &s, bools, &x));
  assert_null(cast(&x, TD_COMPLEX64, false, &y));
  assert_true(((float *)y.data)[0] == 1 && ((float *)y.data)[1] == 0);
  td_tensor_release(&y);
  td_tensor_release(&x);
}

static void test_strings(void **state) {
  static const char *const text[] = {"1"};
  static const size_t len[] = {1};
  td_shape s = td_shape_vector(1);
  td_tensor x, y;
  (void)state;
  assert_null(td_tensor_strings(&s, text, len, &x));
  assert_null(cast(&x, TD_STRING, false, &y));
  assert_true(td_tensor_same(&x, &y));
  td_tensor_release(&y);
  td_status *e = cast(&x, TD_INT32, false, &y);
  assert_int_equal(td_status_code(e), TD_UNIMPLEMENTED);
  assert_string_equal(td_status_message(e), "string cannot be cast to int32");
  td_status_release(e);
  td_tensor_release(&x);
}

static void test_bitcast(void **state) {
  static const struct {
    td_dtype from, to;
    int rank;
    int64_t dim[2];
    int want_rank; /* -1: refused */
    int64_t want[2];
  } rows[] = {
      {TD_FLOAT32, TD_INT32, 1, {3}, 1, {3}},
      {TD_FLOAT32, TD_UINT8, 1, {3}, 2, {3, 4}},
      {TD_UINT8, TD_INT32, 2, {3, 4}, 1, {3}},
      {TD_UINT8, TD_INT32, 2, {0, 4}, 1, {0}},
      {TD_INT16, TD_COMPLEX128, 1, {8}, 0, {0}},
      {TD_UINT8, TD_INT32, 2, {4, 3}, -1, {0}},
      {TD_UINT8, TD_INT32, 0, {0}, -1, {0}},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_shape s = td_shape_of(rows[i].rank, rows[i].dim);
    td_note type = {"type", td_attr_type(rows[i].to)};
    td_tensor x, y;
    assert_null(td_tensor_new(NULL, rows[i].from, &s, &x));
    memset(x.data, 7, td_tensor_bytes(&x));
    td_status *e = call("Bitcast", 1, &x, 1, &type, 1, &y);
    if (rows[i].want_rank < 0) {
      assert_int_equal(td_status_code(e), TD_INVALID_ARGUMENT);
      td_status_release(e);
    } else {
      td_shape want = td_shape_of(rows[i].want_rank, rows[i].want);
      assert_null(e);
      assert_true(td_shape_equal(&y.shape, &want));
      assert_int_equal(td_tensor_bytes(&y), td_tensor_bytes(&x));
      assert_memory_equal(y.data, x.data, td_tensor_bytes(&x));
      td_tensor_release(&y);
    }
    td_tensor_release(&x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pairs),    cmocka_unit_test(test_saturation),
      cmocka_unit_test(test_halves),   cmocka_unit_test(test_integers_wrap),
      cmocka_unit_test(test_truncate), cmocka_unit_test(test_complex),
      cmocka_unit_test(test_strings),  cmocka_unit_test(test_bitcast),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
