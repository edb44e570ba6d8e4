/* entropy.c - tests of engine/base/entropy.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "engine/base/entropy.h"

static void entropy_differs(void **state) {
  (void)state;
  uint64_t a = td_entropy(), b = td_entropy();
  assert_true(a != b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(entropy_differs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
