/* cumsum.c - running sums and products: any axis, directions, dtypes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "tests/kernels/call.h"

static uint64_t seed = 1;
static uint64_t draw(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed >> 33;
}

static td_status *scan(const char *op, const td_tensor *x, int32_t axis,
                       bool exclusive, bool reverse, td_tensor *y) {
  td_note notes[] = {{"exclusive", td_attr_bool(exclusive)},
                     {"reverse", td_attr_bool(reverse)}};
  td_shape scalar = td_shape_scalar();
  td_tensor in[2] = {*x};
  TD_TRY(td_tensor_from(TD_INT32, &scalar, &axis, &in[1]));
  td_status *s = call(op, 2, in, 2, notes, 2, y);
  td_tensor_release(&in[1]);
  return s;
}

/* Over the middle axis of {outer, n, inner}; numbers stay small and whole. */
static void check(td_dtype t, bool product, int64_t outer, int64_t n,
                  int64_t inner) {
  bool exclusive = draw() % 2, reverse = draw() % 2;
  td_shape s = td_shape_of(3, (int64_t[]){outer, n, inner});
  td_tensor x, y;
  assert_null(td_tensor_new(NULL, t, &s, &x));
  for (int64_t i = 0; i < td_tensor_count(&x); i++)
    td_tensor_set_i(&x, i, product ? draw() % 9 ? 1 : -1 : (int)(draw() % 3));
  assert_null(scan(product ? "Cumprod" : "Cumsum", &x, draw() % 2 ? 1 : -2,
                   exclusive, reverse, &y));
  for (int64_t i = 0; i < outer * inner; i++) {
    int64_t at = i / inner * n * inner + i % inner, running = product;
    for (int64_t k = 0; k < n; k++) {
      int64_t here = at + (reverse ? n - 1 - k : k) * inner, was = running;
      int64_t v = td_tensor_get_i(&x, here);
      running = product ? running * v : running + v;
      assert_int_equal(td_tensor_get_i(&y, here), exclusive ? was : running);
    }
  }
  td_tensor_release(&y);
  td_tensor_release(&x);
}

static void test_naive(void **state) {
  static const td_dtype types[] = {TD_FLOAT32,  TD_FLOAT64,   TD_FLOAT16,
                                   TD_BFLOAT16, TD_COMPLEX64, TD_INT64,
                                   TD_INT32,    TD_INT16};
  (void)state;
  for (int i = 0; i < 400; i++) {
    int64_t inner = draw() % 3 ? 1 + (int64_t)(draw() % 600) : 1;
    check(types[i % (int)TD_COUNT(types)], draw() % 2, (int64_t)(draw() % 6),
          (int64_t)(draw() % 50), inner);
  }
}

/* 4096 halves of 0.25: added in float, each result rounded on its own. */
static void test_halves(void **state) {
  td_shape s = td_shape_vector(8192);
  td_tensor x, y;
  (void)state;
  assert_null(td_tensor_new(NULL, TD_FLOAT16, &s, &x));
  for (int i = 0; i < 8192; i++) td_tensor_set_f(&x, i, 0.25);
  assert_null(scan("Cumsum", &x, 0, false, false, &y));
  assert_true(td_tensor_get_f(&y, 8191) == 2048);
  td_tensor_release(&y);
  td_tensor_release(&x);
}

static void test_refused(void **state) {
  static const struct {
    int rank;
    int32_t axis;
  } rows[] = {{0, 0}, {1, 1}, {1, -2}, {2, 2}};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_shape s = td_shape_of(rows[i].rank, (int64_t[]){3, 3});
    td_tensor x, y;
    assert_null(td_tensor_new(NULL, TD_INT8, &s, &x));
    memset(x.data, 0, td_tensor_bytes(&x));
    td_status *e = scan("Cumsum", &x, rows[i].axis, false, false, &y);
    assert_int_equal(td_status_code(e), TD_INVALID_ARGUMENT);
    assert_non_null(strstr(td_status_message(e), "axis"));
    td_status_release(e);
    td_tensor_release(&x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_naive),
      cmocka_unit_test(test_halves),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
