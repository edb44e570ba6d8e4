/* abi.c - which struct of a library is of another size.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "engine/device/abi.h"

static void test_each_struct_is_looked_at(void **state) {
  uint32_t sizes[TD_ABI_COUNT] = TD_ABI_SIZES, there, here;
  static const char *const names[] = {
#define NAME(type) #type,
      TD_ABI_STRUCTS(NAME)
#undef NAME
  };
  (void)state;
  assert_null(td_abi_differs(sizes, &there, &here));
  for (int i = 0; i < TD_ABI_COUNT; i++) {
    sizes[i] += 8;
    assert_string_equal(td_abi_differs(sizes, &there, &here), names[i]);
    assert_int_equal(there, here + 8);
    sizes[i] -= 8;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_struct_is_looked_at),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
