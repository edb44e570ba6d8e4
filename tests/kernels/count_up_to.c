/* count_up_to.c - a variable that counts to its limit; and what time it is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/net.h"

static td_edge counting(net *w, td_edge v, td_dtype t, int64_t limit) {
  td_note attrs[] = {{"limit", td_attr_int(limit)}, {"T", td_attr_type(t)}};
  return net_node(w, "ResourceCountUpTo", &v, 1, attrs, 2);
}

static void assign(net *w, td_edge v, td_tensor t) {
  td_edge in[] = {v, net_feed(w, t)};
  OK(net_do(w, net_node(w, "AssignVariableOp", in, 2, NULL, 0)));
}

static void test_counts(void **state) {
  (void)state;
  net w;
  td_tensor t;
  net_init(&w, 1);
  td_edge v = net_variable(&w, "v", TD_INT64, td_shape_scalar());
  td_edge count = counting(&w, v, TD_INT64, 3);
  FAILS(net_do(&w, count), TD_NOT_FOUND, "v");
  OK(td_tensor_scalar_i(TD_INT64, 1, &t));
  assign(&w, v, t);
  net_expect(&w, count, 1, (double[]){1}, 0);
  net_expect(&w, count, 1, (double[]){2}, 0);
  FAILS(net_do(&w, count), TD_OUT_OF_RANGE, "has reached the limit of 3");
  FAILS(net_do(&w, count), TD_OUT_OF_RANGE, "has reached the limit of 3");
  net_deinit(&w);
}

static void test_bad(void **state) {
  (void)state;
  net w;
  td_edge e;
  net_init(&w, 1);
  td_edge v = net_variable(&w, "v", TD_INT32, td_shape_vector(2));
  td_edge n = net_variable(&w, "n", TD_INT32, td_shape_unknown());
  td_note attrs[] = {{"limit", td_attr_int(INT64_C(1) << 31)},
                     {"T", td_attr_type(TD_INT32)}};
  FAILS(net_try(&w, "ResourceCountUpTo", &n, 1, attrs, 2, &e),
        TD_INVALID_ARGUMENT, "to which an int32 does not count");
  attrs[0].value = td_attr_int(5);
  FAILS(net_try(&w, "ResourceCountUpTo", &v, 1, attrs, 2, &e),
        TD_INVALID_ARGUMENT, "must be a scalar, not of shape {2}");
  attrs[1].value = td_attr_type(TD_INT64);
  FAILS(net_try(&w, "ResourceCountUpTo", &n, 1, attrs, 2, &e),
        TD_INVALID_ARGUMENT, "holds int32 and cannot count in int64");
  assign(&w, n, ints(2, (int32_t[]){1, 2}));
  FAILS(net_do(&w, counting(&w, n, TD_INT32, 5)), TD_INVALID_ARGUMENT,
        "must be a scalar, not of shape {2}");
  net_deinit(&w);
}

static void test_timestamp(void **state) {
  (void)state;
  net w;
  td_tensor a, b;
  net_init(&w, 1);
  td_edge now = net_node(&w, "Timestamp", NULL, 0, NULL, 0);
  OK(net_run(&w, now, &a));
  OK(net_run(&w, now, &b));
  assert_true(td_tensor_get_f(&a, 0) > 1.7e9);
  assert_true(td_tensor_get_f(&b, 0) >= td_tensor_get_f(&a, 0) - 1);
  td_tensor_release(&a);
  td_tensor_release(&b);
  net_deinit(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counts),
      cmocka_unit_test(test_bad),
      cmocka_unit_test(test_timestamp),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
