/* select.c - choosing elements: broadcasting, row by row, text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "tests/kernels/call.h"

/* Elements first, first + 1, ... modulo 100. */
static void numbers(td_dtype t, int rank, const int64_t *dim, int64_t first,
                    td_tensor *out) {
  td_shape s = td_shape_of(rank, dim);
  assert_null(td_tensor_new(NULL, t, &s, out));
  for (int64_t i = 0; i < td_tensor_count(out); i++)
    td_tensor_set_i(out, i, (first + i) % 100);
}

static void bools(int rank, const int64_t *dim, td_tensor *out) {
  numbers(TD_BOOL, rank, dim, 0, out);
  for (int64_t i = 0; i < td_tensor_count(out); i++)
    td_tensor_set_i(out, i, i * 7 % 3 == 1);
}

static void release(td_tensor *in) {
  for (int i = 0; i < 3; i++) td_tensor_release(&in[i]);
}

static const td_dtype types[] = {TD_INT8, TD_FLOAT16, TD_FLOAT32, TD_FLOAT64,
                                 TD_COMPLEX128};

static void test_select_v2(void **state) {
  td_tensor in[3], y;
  (void)state;
  for (size_t t = 0; t < TD_COUNT(types); t++) {
    bools(2, (int64_t[]){90, 1}, &in[0]);
    numbers(types[t], 1, (int64_t[]){70}, 3, &in[1]);
    numbers(types[t], 0, NULL, 99, &in[2]);
    assert_null(call("SelectV2", 2, in, 3, NULL, 0, &y));
    assert_int_equal(td_tensor_count(&y), 90 * 70);
    for (int i = 0; i < 90 * 70; i++) {
      bool c = td_tensor_get_i(&in[0], i / 70);
      assert_int_equal(td_tensor_get_i(&y, i), c ? (3 + i % 70) % 100 : 99);
    }
    td_tensor_release(&y);
    release(in);
  }
}

static void check_select(td_dtype t, int c_rank, int rank) {
  const int64_t dim[] = {5, 4, 3};
  td_tensor in[3], y;
  bools(c_rank, dim, &in[0]);
  numbers(t, rank, dim, 0, &in[1]);
  numbers(t, rank, dim, 50, &in[2]);
  assert_null(call("Select", 2, in, 3, NULL, 0, &y));
  assert_true(td_shape_equal(&y.shape, &in[1].shape));
  int64_t n = td_tensor_count(&y), each = n / td_tensor_count(&in[0]);
  for (int64_t i = 0; i < n; i++) {
    bool c = td_tensor_get_i(&in[0], i / each);
    assert_int_equal(td_tensor_get_i(&y, i),
                     td_tensor_get_i(&in[c ? 1 : 2], i));
  }
  td_tensor_release(&y);
  release(in);
}

static void test_select(void **state) {
  (void)state;
  for (size_t t = 0; t < TD_COUNT(types); t++) {
    check_select(types[t], 0, 0);
    check_select(types[t], 0, 3);
    check_select(types[t], 1, 1);
    check_select(types[t], 1, 2);
    check_select(types[t], 1, 3);
    check_select(types[t], 3, 3);
  }
}

static void test_strings(void **state) {
  static const char *const a[] = {"one", "two", "three"}, *const b[] = {""};
  static const char *const want[] = {"", "two", ""};
  static const size_t a_len[] = {3, 3, 5}, b_len[] = {0};
  const int64_t dim[] = {3};
  td_shape s = td_shape_vector(3), one = td_shape_scalar();
  td_tensor in[3], y;
  (void)state;
  bools(1, dim, &in[0]);
  assert_null(td_tensor_strings(&s, a, a_len, &in[1]));
  assert_null(td_tensor_strings(&one, b, b_len, &in[2]));
  assert_null(call("SelectV2", 1, in, 3, NULL, 0, &y));
  for (int i = 0; i < 3; i++) {
    size_t len;
    const char *text = td_tensor_str(&y, i, &len);
    assert_int_equal(len, strlen(want[i]));
    assert_memory_equal(text, want[i], len);
  }
  td_tensor_release(&y);
  release(in);
}

static void check_refused(const char *op, int c_rank, int t_rank, int e_rank,
                          const char *message) {
  const int64_t c_dim[] = {2, 1}, t_dim[] = {2, 3}, e_dim[] = {2, 3};
  td_tensor in[3], y;
  bools(c_rank, c_dim, &in[0]);
  numbers(TD_INT32, t_rank, t_dim, 0, &in[1]);
  numbers(TD_INT32, e_rank, e_dim, 0, &in[2]);
  td_status *e = call(op, 1, in, 3, NULL, 0, &y);
  assert_int_equal(td_status_code(e), TD_INVALID_ARGUMENT);
  if (!strstr(td_status_message(e), message))
    fail_msg("\"%s\"", td_status_message(e));
  td_status_release(e);
  release(in);
}

static void test_refused(void **state) {
  (void)state;
  check_refused("Select", 1, 0, 0, "condition must be");
  check_refused("Select", 2, 2, 2, "condition must be");
  check_refused("Select", 0, 2, 1, "one shape");
  check_refused("SelectV2", 1, 2, 2, "do not broadcast");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_select_v2),
      cmocka_unit_test(test_select),
      cmocka_unit_test(test_strings),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
