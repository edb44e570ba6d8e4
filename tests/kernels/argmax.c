/* argmax.c - indices of extremes: ties, NaN, any axis, dtypes, threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>
#include <string.h>

#include "tests/kernels/call.h"

static uint64_t seed = 1;
static uint64_t draw(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed >> 33;
}

static td_status *arg(const char *op, const td_tensor *x, int32_t axis,
                      td_dtype type, td_tensor *y) {
  td_note note = {"output_type", td_attr_type(type)};
  td_shape scalar = td_shape_scalar();
  td_tensor in[2] = {*x};
  TD_TRY(td_tensor_from(TD_INT32, &scalar, &axis, &in[1]));
  td_status *s = call(op, 2, in, 2, &note, 1, y);
  td_tensor_release(&in[1]);
  return s;
}

/* The first of the best along the middle axis of {outer, n, inner}. */
static int64_t naive(const td_tensor *x, bool least, int64_t n, int64_t inner,
                     int64_t i) {
  int64_t at = i / inner * n * inner + i % inner, best = 0;
  for (int64_t k = 1; k < n; k++) {
    double a = td_tensor_get_f(x, at + k * inner);
    double b = td_tensor_get_f(x, at + best * inner);
    if (least ? a < b : a > b) best = k;
  }
  return best;
}

static void check(td_dtype t, bool least, int64_t outer, int64_t n,
                  int64_t inner) {
  td_shape s = td_shape_of(3, (int64_t[]){outer, n, inner});
  td_tensor x, y;
  assert_null(td_tensor_new(NULL, t, &s, &x));
  for (int64_t i = 0; i < td_tensor_count(&x); i++)
    td_tensor_set_i(&x, i, (int64_t)(draw() % (t == TD_BOOL ? 2 : 50)));
  td_dtype to = draw() % 2 ? TD_INT32 : TD_INT64;
  assert_null(
      arg(least ? "ArgMin" : "ArgMax", &x, draw() % 2 ? 1 : -2, to, &y));
  assert_int_equal(y.dtype, to);
  assert_int_equal(td_tensor_count(&y), outer * inner);
  for (int64_t i = 0; i < outer * inner; i++)
    assert_int_equal(td_tensor_get_i(&y, i), naive(&x, least, n, inner, i));
  td_tensor_release(&y);
  td_tensor_release(&x);
}

static void test_naive(void **state) {
  static const td_dtype types[] = {TD_FLOAT32,  TD_FLOAT64, TD_FLOAT16,
                                   TD_BFLOAT16, TD_INT8,    TD_UINT64,
                                   TD_INT32,    TD_BOOL};
  (void)state;
  for (int i = 0; i < 400; i++) {
    int64_t inner = draw() % 3 ? 1 + (int64_t)(draw() % 300) : 1;
    int64_t n = 1 + (int64_t)(draw() % (inner == 1 ? 3000 : 40));
    check(types[i % (int)TD_COUNT(types)], i & 16, (int64_t)(draw() % 6), n,
          inner);
  }
}

static void test_nan(void **state) {
  static const struct {
    float x[4];
    int64_t most, least;
  } rows[] = {
      {{NAN, 1, 2, 0}, 2, 3},
      {{1, NAN, 2, NAN}, 2, 0},
      {{NAN, NAN, NAN, NAN}, 0, 0},
      {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}, 0, 0},
      {{3, 3, 1, 1}, 0, 2},
      {{-0.0f, 0.0f, -0.0f, 0.0f}, 0, 0},
      {{NAN, INFINITY, -INFINITY, 0}, 1, 2},
  };
  td_shape v = td_shape_vector(4), m = td_shape_matrix(4, 1);
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    for (int k = 0; k < 4; k++) { /* run and strip, largest and least */
      td_tensor x, y;
      assert_null(td_tensor_from(TD_FLOAT32, k & 1 ? &m : &v, rows[i].x, &x));
      assert_null(arg(k & 2 ? "ArgMin" : "ArgMax", &x, 0, TD_INT64, &y));
      assert_int_equal(td_tensor_get_i(&y, 0),
                       k & 2 ? rows[i].least : rows[i].most);
      td_tensor_release(&y);
      td_tensor_release(&x);
    }
  }
}

static void check_refused(const td_shape *s, int32_t axis, td_dtype to,
                          const char *message) {
  td_tensor x, y;
  assert_null(td_tensor_new(NULL, TD_INT8, s, &x));
  memset(x.data, 0, td_tensor_bytes(&x));
  td_status *e = arg("ArgMax", &x, axis, to, &y);
  assert_int_equal(td_status_code(e), TD_INVALID_ARGUMENT);
  if (!strstr(td_status_message(e), message))
    fail_msg("\"%s\"", td_status_message(e));
  td_status_release(e);
  td_tensor_release(&x);
}

static void test_refused(void **state) {
  td_shape scalar = td_shape_scalar(), empty = td_shape_matrix(0, 3);
  td_shape v = td_shape_vector(3), big = td_shape_vector(40000);
  td_tensor x, y;
  (void)state;
  check_refused(&scalar, 0, TD_INT64, "dimension");
  check_refused(&v, 1, TD_INT64, "dimension");
  check_refused(&v, -2, TD_INT64, "dimension");
  check_refused(&empty, 0, TD_INT64, "is empty");
  check_refused(&big, 0, TD_INT16, "does not fit int16");
  assert_null(td_tensor_new(NULL, TD_INT8, &empty, &x));
  assert_null(arg("ArgMax", &x, 1, TD_INT64, &y)); /* no rows, no problem */
  assert_int_equal(td_tensor_count(&y), 0);
  td_tensor_release(&y);
  td_tensor_release(&x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_naive),
      cmocka_unit_test(test_nan),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
