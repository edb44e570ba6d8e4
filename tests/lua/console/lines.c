/* lines.c - lines of evaluation: turns, interrupts, many at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tests/check.h"

#include "engine/base/thread.h"
#include "lua/console/host.h"

/* ---- a host whose lines answer one question ---- */

typedef struct caller {
  td_line *line;
  const char *code;
  int times;
  int errors, interrupted; /* outcomes */
  int done;                /* atomic */
} caller;

static td_host_outcome evaluate(td_line *l, const char *code, td_str *reply) {
  td_str request;
  td_str_init(&request);
  td_str_add(&request, "{\"store_history\": false, \"silent\": true, "
                       "\"code\": ");
  td_str_json(&request, code, strlen(code));
  td_str_addc(&request, '}');
  td_host_outcome o =
      td_host_call(l, "execute", td_str_c(&request), request.len, reply);
  td_str_deinit(&request);
  return o;
}

static void *call_many(void *arg) {
  caller *c = arg;
  td_str reply;
  td_str_init(&reply);
  for (int i = 0; i < c->times; i++) {
    td_host_outcome o = evaluate(c->line, c->code, &reply);
    bool cut = strstr(td_str_c(&reply), "KeyboardInterrupt") != NULL;
    c->interrupted += cut || o == TD_HOST_INTERRUPTED;
    c->errors += !cut && o != TD_HOST_INTERRUPTED &&
                 (o != TD_HOST_OK || strstr(td_str_c(&reply), "\"error\""));
  }
  td_str_deinit(&reply);
  __atomic_store_n(&c->done, 1, __ATOMIC_RELEASE);
  return NULL;
}

static td_host *host(void) {
  static const td_frontend frontend = {.kind = "notebook"};
  char *why;
  td_host *h = td_host_new(&frontend, &why);
  if (!h) fail_msg("%s", why);
  return h;
}

static void start(pthread_t *t, caller *c) {
  assert_true(td_thread_start(t, "caller", -1, call_many, c));
}

static bool holds(td_host *h, const char *what) {
  char code[200];
  td_str reply;
  td_str_init(&reply);
  snprintf(code, sizeof code, "assert(%s)", what);
  td_host_outcome o = evaluate(td_host_line(h), code, &reply);
  bool ok = o == TD_HOST_OK && strstr(td_str_c(&reply), "\"ok\"");
  if (!ok) print_message("%s\n", td_str_c(&reply));
  td_str_deinit(&reply);
  return ok;
}

static void pause_us(long us) {
  struct timespec t = {.tv_nsec = us * 1000};
  nanosleep(&t, NULL);
}

/* ---- turns ---- */

/* A busy loop that only another line can end. (It takes memory because the
 * thread sanitizer hands signals on in such calls.) */
static void test_turn(void **state) {
  (void)state;
  td_host *h = host();
  caller busy = {.line = td_host_line(h),
                 .times = 1,
                 .code = "while not finished do local t = {} end"};
  caller other = {
      .line = td_line_new(h, "other"), .times = 1, .code = "finished = true"};
  pthread_t a, b;
  start(&a, &busy);
  pause_us(20000);
  start(&b, &other);
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  assert_int_equal(busy.errors + other.errors, 0);
  td_line_free(other.line);
  td_host_free(h);
}

/* Values and a count of each line's own: nobody has another's scope or stack.
 */
static void test_many(void **state) {
  enum { LINES = 4, TIMES = 300 };
  (void)state;
  td_host *h = host();
  caller c[LINES];
  char code[LINES][120], check[120];
  pthread_t t[LINES];
  assert_true(holds(h, "rawset(_G, 'td', require 'tide') == _G"));
  for (int i = 0; i < LINES; i++) {
    snprintf(code[i], sizeof code[i],
             "n%d = (n%d or 0) + td.value.ones{3}:sum():item() // 3", i, i);
    c[i] = (caller){
        .line = td_line_new(h, "many"), .times = TIMES, .code = code[i]};
    start(&t[i], &c[i]);
  }
  for (int i = 0; i < LINES; i++) {
    pthread_join(t[i], NULL);
    assert_int_equal(c[i].errors, 0);
    td_line_free(c[i].line);
    snprintf(check, sizeof check, "n%d == %d", i, TIMES);
    assert_true(holds(h, check));
  }
  td_host_free(h);
}

/* ---- interrupts ---- */

/* At random moments, into calls that are short, long and nested: each call
 * ends, and one that nobody interrupts is whole. */
static void interrupt_often(const char *code, int times) {
  td_host *h = host();
  caller c = {.line = td_line_new(h, "cut"), .times = times, .code = code};
  pthread_t t;
  int sent = 0;
  srand(7);
  start(&t, &c);
  while (!__atomic_load_n(&c.done, __ATOMIC_ACQUIRE)) {
    pause_us(rand() % 500);
    td_line_interrupt(c.line);
    sent++;
  }
  pthread_join(t, NULL);
  print_message("%d interrupts, %d of %d calls cut: %s\n", sent, c.interrupted,
                times, code);
  assert_int_equal(c.errors, 0);
  assert_true(c.interrupted > 0);
  c.times = 50;
  c.interrupted = 0;
  call_many(&c); /* on this thread now: no interrupt is left over */
  assert_int_equal(c.interrupted, 0);
  assert_int_equal(c.errors, 0);
  td_line_free(c.line);
  td_host_free(h);
}

static void test_interrupts(void **state) {
  int times = getenv("TIDE_SOAK") ? 10000 : 500;
  (void)state;
  interrupt_often("for i = 1, 20000 do local x = {i} end", times);
  interrupt_often("for i = 1, 200 do pcall(function() for j = 1, 100 do end "
                  "end) end",
                  times);
  interrupt_often("local c = coroutine.wrap(function() for i = 1, 5000 do "
                  "coroutine.yield(i) end end) for i = 1, 5000 do c() end",
                  times);
}

/* An idle line has nothing to interrupt. */
static void test_idle(void **state) {
  (void)state;
  td_host *h = host();
  td_line_interrupt(td_host_line(h));
  assert_false(td_line_busy(td_host_line(h)));
  assert_false(td_line_interrupted(td_host_line(h)));
  assert_true(holds(h, "1 + 1 == 2"));
  td_host_free(h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_turn), cmocka_unit_test(test_many),
      cmocka_unit_test(test_interrupts), cmocka_unit_test(test_idle)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
