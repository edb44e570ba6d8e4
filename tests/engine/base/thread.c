/* thread.c - tests of engine/base/thread.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"

typedef struct seen {
  char name[16];
  sigset_t blocked;
  cpu_set_t cpus;
  int done; /* atomic */
} seen;

static void *look(void *arg) {
  seen *s = arg;
  pthread_getname_np(pthread_self(), s->name, sizeof s->name);
  pthread_sigmask(SIG_SETMASK, NULL, &s->blocked);
  sched_getaffinity(0, sizeof s->cpus, &s->cpus);
  __atomic_store_n(&s->done, 1, __ATOMIC_RELEASE);
  return arg;
}

static void starts_named_and_masked(void **state) {
  (void)state;
  static const struct {
    const char *name, *seen;
    int cpu;
  } rows[] = {
      {"short", "short", -1},
      {"a name of more than fifteen", "a name of more ", 0},
      {"", "", 1},
      {"far", "far", 12345},
  };
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    pthread_t thread;
    seen s = {.done = 0};
    void *result;
    assert_true(td_thread_start(&thread, rows[i].name, rows[i].cpu, look, &s));
    pthread_join(thread, &result);
    assert_ptr_equal(result, &s);
    assert_string_equal(s.name, rows[i].seen);
    assert_true(sigismember(&s.blocked, SIGINT));
    assert_true(sigismember(&s.blocked, SIGTERM));
    assert_false(sigismember(&s.blocked, SIGSEGV));
    assert_true(CPU_EQUAL(&s.cpus, &all)); /* free to move */
  }
  sigset_t mine;
  pthread_sigmask(SIG_SETMASK, NULL, &mine);
  assert_false(sigismember(&mine, SIGINT));
}

static void detached(void **state) {
  (void)state;
  static seen s;
  assert_true(td_thread_start(NULL, "alone", -1, look, &s));
  for (int i = 0; !__atomic_load_n(&s.done, __ATOMIC_ACQUIRE); i++) {
    assert_true(i < 20000);
    usleep(1000);
  }
  assert_string_equal(s.name, "alone");
}

static void without_memory(void **state) {
  (void)state;
  pthread_t thread;
  seen s;
  td_mem_fail(1, false);
  assert_false(td_thread_start(&thread, "none", -1, look, &s));
  td_mem_fail(0, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(starts_named_and_masked),
      cmocka_unit_test(detached),
      cmocka_unit_test(without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
