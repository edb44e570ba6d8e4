/* children.c - commands of the shell under a console: interrupts end them,
 * others run beside them, captured output finds its way back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include "tests/check.h"

#include "engine/base/thread.h"
#include "tests/lua/console/eval.h"

typedef struct caller {
  td_host *host;
  const char *code;
  td_str text; /* the reply */
  int done;    /* atomic */
} caller;

static void *call(void *arg) {
  caller *c = arg;
  td_str_init(&c->text);
  eval_cell(c->host, c->code, &c->text);
  __atomic_store_n(&c->done, 1, __ATOMIC_RELEASE);
  return NULL;
}

static void pause_ms(long ms) {
  struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

static td_host *fresh(void) {
  char *why;
  td_host *h = td_host_new(&eval_frontend, &why);
  if (!h) fail_msg("%s", why);
  return h;
}

static void gives(td_host *h, const char *code, const char *result) {
  td_str text;
  td_str_init(&text);
  if (eval_cell(h, code, &text) != TD_HOST_OK) fail_msg("%s", td_str_c(&text));
  assert_string_equal(eval_result, result);
  td_str_deinit(&text);
}

/* Runs `code` and interrupts it after `ms`, again and again until it listens:
 * the first may come before it has begun. True when it was cut short. */
static bool interrupted(td_host *h, const char *code, long ms) {
  caller c = {.host = h, .code = code};
  pthread_t t;
  assert_true(td_thread_start(&t, "caller", -1, call, &c));
  pause_ms(ms);
  for (int i = 0; i < 300 && !__atomic_load_n(&c.done, __ATOMIC_ACQUIRE); i++) {
    if (i % 100 == 0) td_line_interrupt(td_host_line(h));
    pause_ms(100);
  }
  pthread_join(t, NULL);
  bool cut = strstr(td_str_c(&c.text), "KeyboardInterrupt") != NULL;
  td_str_deinit(&c.text);
  return cut;
}

/* Those that nobody waits for go at the end of a cell, once they have ended. */
static void no_child_is_left(td_host *h) {
  siginfo_t info;
  gives(h, "collectgarbage() collectgarbage()", "0");
  for (int i = 0; i < 500; i++) {
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT)) break;
    pause_ms(10);
    gives(h, "1", "1");
  }
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  assert_int_equal(errno, ECHILD);
}

/* What would run for a minute. */
static const char *const endless[] = {
    "os.execute 'sleep 60'",
    "os.execute 'sleep 60; true'",
    "os.execute 'exec >/dev/null 2>&1; sleep 60 & sleep 60 & wait'",
    "os.execute 'trap \"\" INT TERM; sleep 60; sleep 60'",
    "io.popen('sleep 60; true'):read 'a'",
    "for l in io.popen('sleep 60; true'):lines() do end",
    "local p = io.popen('sleep 60', 'w') p:close()",
    "while true do pcall(os.execute, 'sleep 60') end",
    "coroutine.wrap(function() os.execute 'sleep 60' end)()",
    "%time os.execute 'sleep 60'",
    "%%capture c\nos.execute 'sleep 60'",
    "!sleep 60",
};

static void test_interrupts(void **state) {
  (void)state;
  td_host *h = fresh();
  for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) {
    if (!interrupted(h, endless[i], 100)) fail_msg("%s", endless[i]);
    gives(h, "6 * 7", "42");
  }
  no_child_is_left(h);
  td_host_free(h);
}

static const char *const brief[] = {
    "for i = 1, 20 do os.execute 'true' end",
    "for i = 1, 20 do assert(io.popen('echo x')):read 'a' end",
    "for i = 1, 20 do local p <close> = assert(io.popen('cat', 'w')) end",
    "for i = 1, 5 do cells = 1 end\n%ls / >/dev/null",
    "%%capture c\nfor i = 1, 100 do print(i) end\nos.execute 'echo child'",
};

/* At random moments: whatever was cut, the next cell works, and output goes
 * where it went. */
static void test_random_moments(void **state) {
  (void)state;
  int n = getenv("TIDE_SOAK") ? 1000 : 60, cut = 0;
  td_host *h = fresh();
  srand(3);
  for (int i = 0; i < n; i++) {
    const char *code = brief[i % (int)(sizeof brief / sizeof *brief)];
    cut += interrupted(h, code, rand() % 30);
    gives(h, "6 * 7", "42");
  }
  gives(h, "%%capture c\nprint 'seen'", "");
  gives(h, "c.stdout == 'seen\\n'", "true");
  no_child_is_left(h);
  print_message("%d of %d cells were cut short\n", cut, n);
  td_host_free(h);
}

/* Another line has its turn while a child runs. */
static void test_beside(void **state) {
  (void)state;
  td_host *h = fresh();
  td_line *other = td_line_new(h, "other");
  const char *request = "{\"code\": \"beside = 1\"}";
  caller c = {.host = h, .code = "os.execute 'sleep 60'"};
  pthread_t t;
  td_str reply;
  assert_non_null(other);
  td_str_init(&reply);
  assert_true(td_thread_start(&t, "caller", -1, call, &c));
  pause_ms(200);
  assert_int_equal(
      td_host_call(other, "execute", request, strlen(request), &reply),
      TD_HOST_OK);
  assert_int_equal(__atomic_load_n(&c.done, __ATOMIC_ACQUIRE), 0);
  td_line_interrupt(td_host_line(h));
  pthread_join(t, NULL);
  gives(h, "beside", "1");
  td_line_free(other);
  td_str_deinit(&reply);
  td_str_deinit(&c.text);
  td_host_free(h);
}

/* A host may go while a pipe is open. */
static void test_the_end(void **state) {
  (void)state;
  td_host *h = fresh();
  signal(SIGHUP, SIG_DFL); /* under nohup a child would not hear it */
  gives(h, "p = io.popen 'sleep 60' 1", "1");
  td_host_free(h);
  time_t start = time(NULL);
  while (waitpid(-1, NULL, 0) > 0) { /* it was told to hang up */
  }
  assert_in_range(time(NULL) - start, 0, 30);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_interrupts),
      cmocka_unit_test(test_random_moments),
      cmocka_unit_test(test_beside),
      cmocka_unit_test(test_the_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
