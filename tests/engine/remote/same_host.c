/* same_host.c - tests of engine/remote/same_host.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/remote/same_host.h"

static void same(void) {}
static void closed(void) {
  prctl(PR_SET_DUMPABLE, 0);
}

/* What a child says after `change`; "" when it could not make it. */
static void text_of_child(void (*change)(void), char text[256]) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    td_str s = {0};
    change();
    td_same_host_text(&s);
    ssize_t n = write(ends[1], td_str_c(&s), s.len);
    _exit(n < 0);
  }
  close(ends[1]);
  ssize_t n = read(ends[0], text, 255);
  text[n > 0 ? n : 0] = '\0';
  close(ends[0]);
  waitpid(child, NULL, 0);
}

static void processes_of_one_host(void **state) {
  (void)state;
  td_str here = {0};
  char text[256];
  td_same_host_text(&here);
  assert_non_null(strstr(td_str_c(&here), "boot "));
  assert_true(here.len < 256);
  text_of_child(same, text);
  assert_string_equal(td_str_c(&here), text);
  td_str_deinit(&here);
}

/* Nobody may look into it: it is alone, each time anew. */
static void a_closed_process(void **state) {
  (void)state;
  char a[256], b[256];
  text_of_child(closed, a);
  text_of_child(closed, b);
  assert_non_null(strstr(a, "alone "));
  assert_non_null(strstr(b, "alone "));
  assert_string_not_equal(a, b);
}

/* In a namespace of its own a process has number 1, which /proc does not show.
 */
static void text_in_namespace(char text[256]) {
  int ends[2], status = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWPID)) _exit(1);
    pid_t inner = fork();
    td_str s = {0};
    if (inner == 0) td_same_host_text(&s);
    if (inner == 0) _exit(write(ends[1], td_str_c(&s), s.len) < 0);
    waitpid(inner, &status, 0);
    _exit(0);
  }
  close(ends[1]);
  ssize_t n = read(ends[0], text, 255);
  text[n > 0 ? n : 0] = '\0';
  close(ends[0]);
  waitpid(child, &status, 0);
}

static void another_namespace(void **state) {
  (void)state;
  char text[256];
  text_in_namespace(text);
  if (!*text) skip(); /* not for every user */
  assert_non_null(strstr(text, "alone "));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes_of_one_host),
      cmocka_unit_test(a_closed_process),
      cmocka_unit_test(another_namespace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
