/* keys_owner.c - tests of engine/remote/keys_owner.c: is who left a key there?
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/remote/keys_impl.h"

static void test_this_process(void **state) {
  td_str text = {0};
  (void)state;
  td_keys_owner_text(&text);
  assert_false(td_keys_owner_gone(td_str_c(&text)));
  td_str_deinit(&text);
}

/* The text of a child, which has ended by then. */
static void test_one_that_ended(void **state) {
  int pipes[2];
  char text[256] = "";
  (void)state;
  assert_int_equal(pipe(pipes), 0);
  pid_t child = fork();
  if (child == 0) {
    td_str own = {0};
    td_keys_owner_text(&own);
    ssize_t n = write(pipes[1], own.at, own.len);
    _exit(n > 0 ? 0 : 1);
  }
  assert_int_equal(waitpid(child, NULL, 0), child);
  assert_true(read(pipes[0], text, sizeof text - 1) > 0);
  close(pipes[0]);
  close(pipes[1]);
  assert_true(td_keys_owner_gone(text));
}

/* A number that another process has by now; a table that is not ours. */
static void test_others(void **state) {
  td_str own = {0};
  char table[64], text[128];
  unsigned long long since;
  long pid;
  (void)state;
  td_keys_owner_text(&own);
  assert_int_equal(
      sscanf(own.at, "process %ld %llu %63s", &pid, &since, table), 3);
  snprintf(text, sizeof text, "process %ld %llu %s", pid, since - 1, table);
  assert_true(td_keys_owner_gone(text));
  snprintf(text, sizeof text, "process %ld %llu pid:[1]", pid, since - 1);
  assert_false(td_keys_owner_gone(text));
  static const char *const nothing[] = {
      "", "anna@lab", "process", "process 0 0 x", "process -1 7 pid:[1]",
      "process 99999999999999999999 1 1"};
  for (size_t i = 0; i < TD_COUNT(nothing); i++)
    assert_false(td_keys_owner_gone(nothing[i]));
  td_str_deinit(&own);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_this_process),
                                     cmocka_unit_test(test_one_that_ended),
                                     cmocka_unit_test(test_others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
