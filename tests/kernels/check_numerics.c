/* check_numerics.c - NaNs and infinities found in every dtype.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/eval.h"
#include "tests/engine/device/run_node.h"

#include <math.h>

static td_status *eval(const char *op, const td_tensor *in,
                       const td_note *attrs, int n_attrs, td_tensor *out) {
  static const int one[] = {1};
  int n_out;
  return td_eval(td_op_find(op), cpu, 2, in, one, attrs, n_attrs, out, 1,
                 &n_out, NULL);
}

static void test_check_numerics(void **state) {
  enum { MANY = 200000 }; /* several pieces */
  static const td_dtype types[] = {TD_FLOAT16, TD_BFLOAT16, TD_FLOAT32,
                                   TD_FLOAT64};
  static const struct {
    double first, last;
    const char *part; /* NULL: good */
  } rows[] = {
      {1, 2, NULL},
      {-1, 0, NULL},
      {NAN, 1, "msg : Tensor had NaN values"},
      {1, -NAN, "msg : Tensor had NaN values"},
      {INFINITY, 1, "msg : Tensor had Inf values"},
      {1, -INFINITY, "msg : Tensor had Inf values"},
      {NAN, INFINITY, "msg : Tensor had Inf and NaN values"},
  };
  td_note attrs[] = {{"message", td_attr_string("msg")}};
  td_shape shape = td_shape_vector(MANY);
  (void)state;
  for (size_t k = 0; k < TD_COUNT(types); k++) {
    for (size_t i = 0; i < TD_COUNT(rows); i++) {
      td_tensor x, y;
      OK(td_tensor_new(NULL, types[k], &shape, &x));
      memset(x.data, 0, td_tensor_bytes(&x));
      td_tensor_set_f(&x, 0, rows[i].first);
      td_tensor_set_f(&x, MANY - 1, rows[i].last);
      td_status *s = eval("CheckNumerics", &x, attrs, 1, &y);
      if (rows[i].part) {
        FAILS(s, TD_INVALID_ARGUMENT, rows[i].part);
      } else {
        OK(s);
        assert_true(td_tensor_same(&x, &y));
        td_tensor_release(&y);
      }
      td_tensor_release(&x);
    }
  }
}

static void test_nothing_to_check(void **state) {
  td_note attrs[] = {{"message", td_attr_string("msg")}};
  td_tensor x = floats(0, NULL), y;
  (void)state;
  OK(eval("CheckNumerics", &x, attrs, 1, &y));
  assert_int_equal(td_tensor_count(&y), 0);
  td_tensor_release(&x);
  td_tensor_release(&y);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_check_numerics),
      cmocka_unit_test(test_nothing_to_check),
  };
  return cmocka_run_group_tests(tests, begin_cpu, end_cpu);
}
