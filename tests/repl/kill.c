/* kill.c - tests of repl/kill.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "repl/kill.h"

static void goes_around(void **state) {
  (void)state;
  td_edit_kill k;
  td_edit_kill_init(&k);
  assert_null(td_edit_kill_yank(&k).at);
  assert_null(td_edit_kill_pop(&k).at);
  td_edit_kill_add(&k, "one", 3, TD_EDIT_KILL_APPEND);
  td_edit_kill_add(&k, "", 0, TD_EDIT_KILL_NEW);
  td_edit_kill_add(&k, "two", 3, TD_EDIT_KILL_NEW);
  td_edit_kill_add(&k, "<", 1, TD_EDIT_KILL_PREPEND);
  td_edit_kill_add(&k, ">", 1, TD_EDIT_KILL_APPEND);
  assert_string_equal(td_edit_kill_yank(&k).at, "<two>");
  assert_string_equal(td_edit_kill_pop(&k).at, "one");
  assert_string_equal(td_edit_kill_pop(&k).at, "<two>");
  assert_string_equal(td_edit_kill_yank(&k).at, "<two>");
  td_edit_kill_deinit(&k);
}

static void forgets_the_oldest(void **state) {
  (void)state;
  td_edit_kill k;
  char text[16];
  td_edit_kill_init(&k);
  for (int i = 0; i < TD_EDIT_KILL_MOST + 5; i++) {
    snprintf(text, sizeof text, "%d", i);
    td_edit_kill_add(&k, text, strlen(text), TD_EDIT_KILL_NEW);
  }
  for (int i = 1; i < TD_EDIT_KILL_MOST - 1; i++) td_edit_kill_pop(&k);
  assert_string_equal(td_edit_kill_pop(&k).at, "5"); /* the oldest there is */
  assert_string_equal(td_edit_kill_pop(&k).at, "64");
  td_edit_kill_deinit(&k);
}

static void survives_no_memory(void **state) {
  (void)state;
  td_edit_kill k;
  td_edit_kill_init(&k);
  td_edit_kill_add(&k, "one", 3, TD_EDIT_KILL_NEW);
  td_mem_fail(1, true);
  td_edit_kill_add(&k, "two", 3, TD_EDIT_KILL_NEW);
  td_edit_kill_add(&k, "two", 3, TD_EDIT_KILL_APPEND);
  td_mem_fail(0, false);
  assert_string_equal(td_edit_kill_yank(&k).at, "one");
  td_edit_kill_deinit(&k);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(goes_around),
                                     cmocka_unit_test(forgets_the_oldest),
                                     cmocka_unit_test(survives_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
