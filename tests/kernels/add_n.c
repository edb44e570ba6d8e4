/* add_n.c - many operands, halves rounded once, threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "tests/kernels/call.h"

static void check(td_dtype t, int n, int64_t size) {
  td_shape s = td_shape_vector(size);
  td_note count = {"N", td_attr_int(n)};
  td_tensor in[16], one, two;
  for (int k = 0; k < n; k++) {
    assert_null(td_tensor_new(NULL, t, &s, &in[k]));
    for (int64_t i = 0; i < size; i++) td_tensor_set_i(&in[k], i, (i + k) % 8);
  }
  assert_null(call("AddN", 1, in, n, &count, 1, &one));
  assert_null(call("AddN", 2, in, n, &count, 1, &two));
  assert_true(td_tensor_same(&one, &two));
  for (int64_t i = 0; i < size; i++) {
    int64_t want = 0;
    for (int k = 0; k < n; k++) want += (i + k) % 8;
    assert_int_equal(td_tensor_get_i(&one, i), want);
  }
  td_tensor_release(&one);
  td_tensor_release(&two);
  for (int k = 0; k < n; k++) td_tensor_release(&in[k]);
}

static void test_sums(void **state) {
  static const td_dtype types[] = {TD_FLOAT32, TD_BFLOAT16, TD_INT8,
                                   TD_COMPLEX64, TD_UINT64};
  static const int counts[] = {1, 2, 3, 16};
  (void)state;
  for (size_t t = 0; t < TD_COUNT(types); t++)
    for (size_t k = 0; k < TD_COUNT(counts); k++) {
      check(types[t], counts[k], 0);
      check(types[t], counts[k], 1025);
      check(types[t], counts[k], 70000);
    }
}

/* 2048 + 1 + 1 is 2050: adding the ones one by one in half loses both. */
static void test_rounded_once(void **state) {
  td_shape s = td_shape_scalar();
  td_note count = {"N", td_attr_int(3)};
  td_tensor in[3], y;
  (void)state;
  for (int k = 0; k < 3; k++)
    assert_null(td_tensor_scalar_f(TD_FLOAT16, k ? 1 : 2048, &in[k]));
  assert_null(call("AddN", 1, in, 3, &count, 1, &y));
  assert_true(td_shape_equal(&y.shape, &s));
  assert_true(td_tensor_get_f(&y, 0) == 2050);
  td_tensor_release(&y);
  for (int k = 0; k < 3; k++) td_tensor_release(&in[k]);
}

static void test_refused(void **state) {
  td_note count = {"N", td_attr_int(2)};
  td_shape s = td_shape_vector(2);
  const float two[] = {1, 2};
  td_tensor in[2], y;
  (void)state;
  assert_null(td_tensor_from(TD_FLOAT32, &s, two, &in[0]));
  assert_null(td_tensor_scalar_f(TD_FLOAT32, 1, &in[1]));
  td_status *e = call("AddN", 1, in, 2, &count, 1, &y);
  assert_int_equal(td_status_code(e), TD_INVALID_ARGUMENT);
  assert_non_null(strstr(td_status_message(e), "input 1 of {}"));
  td_status_release(e);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sums),
      cmocka_unit_test(test_rounded_once),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
