/* numerics.c - what is found in the outputs of a node, and what is said.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/run/numerics.h"

static td_tensor tensor(td_dtype t, const double *v, int n) {
  td_shape shape = td_shape_vector(n);
  td_tensor out;
  assert_null(td_tensor_new(NULL, t, &shape, &out));
  for (int i = 0; i < n; i++) td_tensor_set_f(&out, i, v[i]);
  return out;
}

static const struct {
  td_dtype dtype;
  double v[3];
  const char *part; /* NULL: nothing is wrong */
} rows[] = {
    {TD_FLOAT32, {1, 2, 3}, NULL},
    {TD_FLOAT32, {1, NAN, 3}, "output 0 holds 1 NaN of 3 numbers"},
    {TD_FLOAT64, {NAN, -INFINITY, 3}, "holds 1 NaN and 1 infinite of 3"},
    {TD_FLOAT16, {INFINITY, INFINITY, 0}, "holds 2 infinite of 3 numbers"},
    {TD_BFLOAT16, {1, 2, NAN}, "holds 1 NaN of 3 numbers"},
    {TD_COMPLEX64, {1, NAN, 2}, "holds 1 NaN of 6 numbers"},
    {TD_COMPLEX128, {1, 0, 2}, NULL},
    {TD_INT32, {1, 2, 3}, NULL},
};

static void test_rows(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_tensor out = tensor(rows[i].dtype, rows[i].v, 3);
    td_numerics c = {.out = &out, .n_out = 1, .iteration = -1};
    td_status *s = td_numerics_check(&c);
    assert_int_equal(s != NULL, rows[i].part != NULL);
    if (s && !strstr(td_status_message(s), rows[i].part))
      fail_msg("%zu: %s", i, td_status_message(s));
    td_status_release(s);
    td_tensor_release(&out);
  }
}

/* The second output is at fault; the first input is not there. */
static void test_words(void **state) {
  (void)state;
  static const double good[] = {1, 2, 6}, bad[] = {0, NAN, INFINITY};
  td_tensor in[3];
  memset(in, 0, sizeof in);
  td_tensor out[] = {tensor(TD_FLOAT32, good, 3), tensor(TD_FLOAT32, bad, 3)};
  in[1] = tensor(TD_FLOAT32, good, 3);
  in[2] = tensor(TD_INT32, good, 1);
  td_numerics c = {.in = in, .out = out, .n_in = 3, .n_out = 2, .iteration = 7};
  td_status *s = td_numerics_check(&c);
  assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
  assert_string_equal(
      td_status_message(s),
      "output 1 holds 1 NaN and 1 infinite of 3 numbers, in iteration 7 of its "
      "loop; input 1 is float32 {3}, 1 to 6, mean 3; input 2 is int32 {1}, 1");
  td_status_release(s);
  td_mem_fail(1, true);
  s = td_numerics_check(&c);
  td_mem_fail(0, false);
  assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
  td_status_release(s);
  for (int i = 1; i < 3; i++) td_tensor_release(&in[i]);
  for (int i = 0; i < 2; i++) td_tensor_release(&out[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
