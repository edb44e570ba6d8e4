/* vec.c - tests of engine/base/vec.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "engine/base/mem.h"
#include "engine/base/vec.h"

static void pushes(void **state) {
  (void)state;
  TD_VEC(int) v = {0};
  for (int i = 0; i < 1000; i++) assert_true(td_vec_push(&v, i * i));
  assert_int_equal(v.len, 1000);
  for (int i = 0; i < 1000; i++) assert_int_equal(v.at[i], i * i);
  td_vec_free(&v);
  assert_null(v.at);
  assert_int_equal(v.cap, 0);
}

static void reserves(void **state) {
  (void)state;
  TD_VEC(double) v = {0};
  size_t none = 0;
  assert_true(td_vec_reserve(&v, none));
  assert_true(td_vec_reserve(&v, 100));
  assert_true(v.cap >= 100);
  int64_t before = td_mem_calls();
  for (int i = 0; i < 100; i++) assert_true(td_vec_push(&v, i));
  assert_int_equal(td_mem_calls(), before);
  td_vec_free(&v);
}

static void growth_is_geometric(void **state) {
  (void)state;
  TD_VEC(char) v = {0};
  int64_t before = td_mem_calls();
  for (int i = 0; i < 100000; i++) assert_true(td_vec_push(&v, 'x'));
  assert_true(td_mem_calls() - before < 20);
  td_vec_free(&v);
}

static void refuses_overflow(void **state) {
  (void)state;
  TD_VEC(uint64_t) v = {0};
  assert_true(td_vec_push(&v, 1));
  assert_false(td_vec_reserve(&v, SIZE_MAX));
  assert_false(td_vec_reserve(&v, SIZE_MAX / 8));
  assert_false(td_vec_reserve(&v, SIZE_MAX / 8 + 1));
  assert_int_equal(v.len, 1);
  assert_int_equal(v.at[0], 1);
  td_vec_free(&v);
}

static void without_memory(void **state) {
  (void)state;
  TD_VEC(int) v = {0};
  td_mem_fail(2, true);
  int pushed = 0;
  while (td_vec_push(&v, pushed)) pushed++;
  td_mem_fail(0, false);
  assert_true(pushed > 0);
  assert_int_equal(v.len, pushed);
  for (int i = 0; i < pushed; i++) assert_int_equal(v.at[i], i);
  td_vec_free(&v);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pushes),
      cmocka_unit_test(reserves),
      cmocka_unit_test(growth_is_geometric),
      cmocka_unit_test(refuses_overflow),
      cmocka_unit_test(without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
