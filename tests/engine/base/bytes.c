/* bytes.c - numbers written and read again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "engine/base/bytes.h"

static void test_there_and_back(void **state) {
  static const uint64_t numbers[] = {0,         1, 255, 256, 0x0123456789abcdef,
                                     UINT64_MAX};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(numbers); i++)
    for (int n = 1; n <= 8; n++) {
      td_str s;
      uint64_t v, low = n < 8 ? ((uint64_t)1 << 8 * n) - 1 : UINT64_MAX;
      td_str_init(&s);
      td_bytes_put(&s, numbers[i], n);
      td_bytes from = {td_str_c(&s), s.len};
      assert_true(td_bytes_get(&from, n, &v));
      assert_true(v == (numbers[i] & low));
      assert_int_equal(from.len, 0);
      from = (td_bytes){td_str_c(&s), s.len - 1};
      assert_false(td_bytes_get(&from, n, &v));
      td_str_deinit(&s);
    }
}

static void test_takes_what_is_there(void **state) {
  td_bytes from = {"\x02\x01rest", 6}, out;
  uint64_t v;
  (void)state;
  assert_true(td_bytes_get(&from, 2, &v));
  assert_int_equal(v, 0x102);
  assert_false(td_bytes_take(&from, 5, &out));
  assert_false(td_bytes_take(&from, SIZE_MAX, &out));
  assert_true(td_bytes_take(&from, 4, &out));
  assert_memory_equal(out.at, "rest", 4);
  assert_true(td_bytes_take(&from, 0, &out));
  assert_int_equal(from.len, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_there_and_back),
      cmocka_unit_test(test_takes_what_is_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
