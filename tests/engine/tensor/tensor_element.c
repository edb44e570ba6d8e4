/* tensor_element.c - elements read, written and printed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/tensor/tensor.h"

static double through(td_dtype dtype, double v) {
  td_tensor x;
  assert_null(td_tensor_scalar_f(dtype, v, &x));
  double got = td_tensor_get_f(&x, 0);
  td_tensor_release(&x);
  return got;
}

static void test_floats_in(void **state) {
  static const struct {
    td_dtype dtype;
    double v, want;
  } rows[] = {
      {TD_FLOAT32, 0.1, 0.1f},
      {TD_FLOAT64, 0.1, 0.1},
      {TD_FLOAT16, 65504, 65504},
      {TD_FLOAT16, 1e300, INFINITY},
      {TD_FLOAT16, -1e-300, 0},
      /* half of an ulp and a little: rounding twice would go down */
      {TD_FLOAT16, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-10},
      {TD_FLOAT16, 1 + 0x1p-11, 1},
      {TD_FLOAT16, -1 - 0x1p-11 - 0x1p-40, -1 - 0x1p-10},
      {TD_FLOAT16, 1 + 3 * 0x1p-11 - 0x1p-40, 1 + 0x1p-10},
      {TD_BFLOAT16, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-7},
      {TD_BFLOAT16, 1 + 0x1p-8, 1},
      {TD_BFLOAT16, 1e300, INFINITY},
      {TD_COMPLEX64, 0.1, 0.1f},
      {TD_COMPLEX128, 0.1, 0.1},
      {TD_BOOL, 0.5, 1},
      {TD_BOOL, 0, 0},
      {TD_INT8, 1000, 127},
      {TD_INT8, -1000, -128},
      {TD_INT8, -3.9, -3},
      {TD_UINT8, -3, 0},
      {TD_UINT8, 300, 255},
      {TD_QINT8, 300, 127},
      {TD_QUINT8, -1, 0},
      {TD_INT16, 1e9, 32767},
      {TD_UINT16, 1e9, 65535},
      {TD_QINT16, -1e9, -32768},
      {TD_QUINT16, 1e9, 65535},
      {TD_INT32, INFINITY, INT32_MAX},
      {TD_INT32, -INFINITY, INT32_MIN},
      {TD_INT32, NAN, 0},
      {TD_QINT32, 1e18, INT32_MAX},
      {TD_UINT32, 4294967295.0, 4294967295.0},
      {TD_UINT32, 1e18, 4294967295.0},
      {TD_INT64, 1e300, 0x1p63},
      {TD_INT64, -1e300, -0x1p63},
      {TD_INT64, NAN, 0},
      {TD_UINT64, 1e300, 0x1p64},
      {TD_UINT64, -1, 0},
      {TD_UINT64, NAN, 0},
      {TD_UINT64, 0x1p63, 0x1p63},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    assert_true(through(rows[i].dtype, rows[i].v) == rows[i].want);
  assert_true(isnan(through(TD_FLOAT16, NAN)));
  assert_true(isnan(through(TD_BFLOAT16, NAN)));
}

static void test_integers_in(void **state) {
  static const struct {
    td_dtype dtype;
    int64_t v, want;
  } rows[] = {
      {TD_BOOL, -7, 1},
      {TD_INT8, 200, -56},
      {TD_UINT8, 300, 44},
      {TD_INT16, 40000, -25536},
      {TD_UINT16, -1, 65535},
      {TD_INT32, 1LL << 40, 0},
      {TD_UINT32, -1, UINT32_MAX},
      {TD_INT64, INT64_MIN, INT64_MIN},
      {TD_UINT64, -1, -1},
      {TD_QINT8, -5, -5},
      {TD_QUINT16, 65535, 65535},
      {TD_QINT32, -9, -9},
      {TD_FLOAT16, 2049, 2048},
      {TD_BFLOAT16, 257, 256},
      {TD_FLOAT32, 16777217, 16777216},
      {TD_FLOAT64, -3, -3},
      {TD_COMPLEX64, 12, 12},
      {TD_COMPLEX128, -12, -12},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_tensor x;
    assert_null(td_tensor_scalar_i(rows[i].dtype, rows[i].v, &x));
    assert_true(td_tensor_get_i(&x, 0) == rows[i].want);
    td_tensor_release(&x);
  }
}

/* The i-th element and no other. */
static void test_index(void **state) {
  td_shape shape = td_shape_vector(5);
  (void)state;
  for (int t = 1; t < TD_DTYPES; t++) {
    td_tensor x;
    if (!td_dtype_is_plain((td_dtype)t)) continue;
    assert_null(td_tensor_new(NULL, (td_dtype)t, &shape, &x));
    memset(x.data, 0, td_tensor_bytes(&x));
    td_tensor_set_f(&x, 3, 1);
    td_tensor_set_i(&x, 1, 1);
    for (int64_t i = 0; i < 5; i++) {
      assert_int_equal(td_tensor_get_i(&x, i), i & 1);
      assert_true(td_tensor_get_f(&x, i) == (double)(i & 1));
    }
    td_tensor_release(&x);
  }
}

static void printed(const td_tensor *x, int64_t limit, const char *want) {
  td_str out;
  td_str_init(&out);
  td_tensor_print(x, limit, &out);
  assert_string_equal(td_str_c(&out), want);
  td_str_deinit(&out);
}

static void test_print_numbers(void **state) {
  static const struct {
    td_dtype dtype;
    double v[3];
    const char *want;
  } rows[] = {
      {TD_FLOAT32, {0.1, -1, 1e20}, "float32 {3} 0.1 -1 1e+20"},
      {TD_FLOAT32, {NAN, INFINITY, -INFINITY}, "float32 {3} nan inf -inf"},
      {TD_FLOAT32, {1.0 / 3, 16777216, 0}, "float32 {3} 0.33333334 16777216 0"},
      {TD_FLOAT64, {0.1, 1.0 / 3, 2}, "float64 {3} 0.1 0.3333333333333333 2"},
      {TD_FLOAT16, {0.1, 65504, 1}, "float16 {3} 0.1 65504 1"},
      {TD_BFLOAT16, {0.1, 3, 256}, "bfloat16 {3} 0.1 3 256"},
      {TD_INT8, {-1, 2, 3}, "int8 {3} -1 2 3"},
      {TD_UINT64, {1, 0x1p63, 3}, "uint64 {3} 1 9223372036854775808 3"},
      {TD_BOOL, {1, 0, 1}, "bool {3} true false true"},
      {TD_COMPLEX64, {1.5, 0, -2}, "complex64 {3} 1.5+0i 0+0i -2+0i"},
  };
  td_shape shape = td_shape_vector(3);
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_tensor x;
    assert_null(td_tensor_new(NULL, rows[i].dtype, &shape, &x));
    for (int k = 0; k < 3; k++) td_tensor_set_f(&x, k, rows[i].v[k]);
    printed(&x, 10, rows[i].want);
    td_tensor_release(&x);
  }
}

static void object_free(td_object *o) {
  (void)o;
}

static void test_print_others(void **state) {
  static td_object object = {
      .refs = 1, .type = "variable", .free = object_free};
  char text[70];
  memset(text, 'a', sizeof text);
  const char *at[] = {"a\"b", text};
  td_shape pair = td_shape_vector(2), scalar = td_shape_scalar();
  double parts[] = {1, -2.5};
  td_tensor x, none = {0};
  (void)state;
  assert_null(td_tensor_strings(&pair, at, (size_t[]){3, 70}, &x));
  printed(&x, 2,
          "string {2} \"a\\\"b\" \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
          "aaaaaaaaaaaaaaaaaaaaaaaaaaa\"...");
  printed(&x, 1, "string {2} \"a\\\"b\" ...");
  printed(&x, 0, "string {2} ...");
  td_tensor_release(&x);
  assert_null(td_tensor_from(TD_COMPLEX128, &scalar, parts, &x));
  printed(&x, 1, "complex128 {} 1-2.5i");
  td_tensor_release(&x);
  assert_null(td_tensor_object(TD_RESOURCE, td_object_retain(&object), &x));
  printed(&x, 1, "resource {} <variable>");
  td_tensor_release(&x);
  printed(&none, 1, "no tensor");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_floats_in),    cmocka_unit_test(test_integers_in),
      cmocka_unit_test(test_index),        cmocka_unit_test(test_print_numbers),
      cmocka_unit_test(test_print_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
