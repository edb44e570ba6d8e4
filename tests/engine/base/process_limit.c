/* process_limit.c - tests of engine/base/process_limit.c: each in a process of
 * its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/process_limit.h"

enum { MOST = 256 << 20, PIECE = 1 << 20 };

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* How a process ends in which f is called. */
static int status_of(void (*f)(void)) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (!td_process_limit_set(MOST)) _exit(77);
    f();
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void take_all(void) {
  int n = 0;
  for (char *p; (p = malloc(PIECE)); n++) memset(p, 1, PIECE);
  if (n < 100 || n > MOST / PIECE) _exit(1);
}

static void take_all_and_abort(void) {
  take_all();
  (void)!freopen("/dev/null", "w", stderr);
  abort();
}

static void test_malloc_says_no(void **state) {
  (void)state;
  int status = status_of(take_all);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_an_abort_for_memory(void **state) {
  (void)state;
  int status = status_of(take_all_and_abort);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), TD_EXIT_MEMORY);
}

static void test_another_abort(void **state) {
  (void)state;
  int status = status_of(abort);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGABRT);
}

#endif

/* A sanitizer takes terabytes: there is no limit, and that is told. */
static void test_more_is_taken(void **state) {
  (void)state;
  assert_false(td_process_limit_set(4096));
}

int main(void) {
  const struct CMUnitTest tests[] = {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    cmocka_unit_test(test_malloc_says_no),
    cmocka_unit_test(test_an_abort_for_memory),
    cmocka_unit_test(test_another_abort),
#endif
    cmocka_unit_test(test_more_is_taken)
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
