/* refused.c - Lua gets no memory at the n-th time, whatever a console does.
 *
 * Cells, displays, completion, inspection, history and the rest are asked again
 * and again with the n-th allocation failing, once or for ever, n taken evenly
 * from all there are: each is answered, or the answer is that there is no
 * memory, and the next cell works. TIDE_SOAK tries every n.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "tests/check.h"

#include "tests/lua/console/eval.h"

enum { TRIES = 9 }; /* of each, once and for ever; all in the soak */

/* A service and its request. */
static const struct {
  const char *service, *request;
} asked[] = {
    {"execute", "{\"code\": \"t = {} for i = 1, 300 do t[i] = {i .. ''} end "
                "return t\"}"},
    {"execute", "{\"code\": \"error {code = 'x' .. #In}\"}"},
    {"execute",
     "{\"code\": \"local function f(n) return n == 0 and error 'deep' "
     "or f(n - 1) + 1 end f(50)\"}"},
    {"execute",
     "{\"code\": \"print(('%5d'):rep(99):format(table.unpack(t9)))\"}"},
    {"execute", "{\"code\": \"x = \"}"},
    {"execute", "{\"code\": \"return coroutine.wrap(function() for i = 1, 9 do "
                "coroutine.yield(i .. 'y') end end)()\"}"},
    {"execute", "{\"code\": \"return pcall(string.rep, 'x', 1e6)\"}"},
    {"execute", "{\"code\": \"local x <close> = setmetatable({}, {__close = "
                "function() return 'c' .. #In end}) return x\"}"},
    {"execute",
     "{\"code\": \"setmetatable({}, {__gc = function() return 'g' .. "
     "#In end}) collectgarbage()\"}"},
    {"execute", "{\"code\": \"td.tensor{{1, 2}, {3, 4}} * 2\", "
                "\"user_expressions\": {\"a\": \"1 + 1\", \"b\": \"x.y\"}}"},
    {"execute", "{\"code\": \"%who\"}"},
    {"execute", "{\"code\": \"%time td.matmul({{1.0}}, {{2.0}})\"}"},
    {"execute", "{\"code\": \"?td.matmul\"}"},
    {"execute", "{\"code\": \"td.matmul({{1.0}}, {{2.0}, {3.0}})\"}"},
    {"execute", "{\"code\": \"td.display(td.tensor{1, 2, 3})\"}"},
    {"complete", "{\"code\": \"td.nn.re\", \"cursor_pos\": 8}"},
    {"complete",
     "{\"code\": \"local t = {abc = 1}\\nt.a\", \"cursor_pos\": 23}"},
    {"inspect", "{\"code\": \"td.matmul\", \"cursor_pos\": 5, "
                "\"detail_level\": 1}"},
    {"is_complete", "{\"code\": \"for i = 1, 2 do\"}"},
    {"history", "{\"hist_access_type\": \"tail\", \"n\": 5, \"output\": true}"},
    {"history", "{\"hist_access_type\": \"search\", \"pattern\": \"*t*\"}"},
    {"comm_info", "{}"},
    {"debug",
     "{\"type\": \"request\", \"seq\": 1, \"command\": \"debugInfo\"}"},
};

static td_host *fresh(void) {
  char *why;
  td_str text;
  td_host *h = td_host_new(&eval_frontend, &why);
  if (!h) fail_msg("%s", why);
  td_str_init(&text);
  assert_int_equal(
      eval_cell(h, "td = require 'tide' t9 = {} for i = 1, 99 do t9[i] = i end",
                &text),
      TD_HOST_OK);
  td_str_deinit(&text);
  return h;
}

static td_host_outcome ask(td_host *h, size_t i, td_str *reply) {
  return td_host_call(td_host_line(h), asked[i].service, asked[i].request,
                      strlen(asked[i].request), reply);
}

/* Of two runs, the second: the first one loads what is needed. */
static int64_t allocations(td_host *h, size_t i) {
  td_str reply;
  int64_t before = 0;
  td_str_init(&reply);
  for (int k = 0; k < 2; k++) {
    before = td_mem_calls();
    ask(h, i, &reply);
  }
  td_str_deinit(&reply);
  return td_mem_calls() - before;
}

static void works(td_host *h, const char *what, int64_t n) {
  td_str text;
  td_str_init(&text);
  if (eval_cell(h, "1 + 1", &text) != TD_HOST_OK || strcmp(eval_result, "2"))
    fail_msg("%s, n = %d: the next cell fails: %s", what, (int)n,
             td_str_c(&text));
  td_str_deinit(&text);
}

/* What is answered is JSON, what is not says why. */
static void refuse(td_host *h, size_t i, int64_t n, bool for_ever) {
  td_str reply;
  td_str_init(&reply);
  td_mem_fail(n, for_ever);
  td_host_outcome o = ask(h, i, &reply);
  td_mem_fail(0, false);
  if (o == TD_HOST_OK ? reply.len < 2 || reply.at[0] != '{'
                      : !reply.failed && !strstr(td_str_c(&reply), "memory"))
    fail_msg("%s, n = %d: %d: %s", asked[i].request, (int)n, o,
             td_str_c(&reply));
  td_str_deinit(&reply);
  works(h, asked[i].request, n);
}

/* What cells print goes nowhere. */
static int silence(void) {
  int was = dup(1), nothing = open("/dev/null", O_WRONLY);
  fflush(stdout);
  dup2(nothing, 1);
  close(nothing);
  return was;
}

static void speak(int was) {
  fflush(stdout);
  dup2(was, 1);
  close(was);
}

static void test_each(void **state) {
  (void)state;
  td_host *h = fresh();
  int refusals = 0, was = silence();
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
    int64_t all = allocations(h, i) + 1;
    int64_t step = getenv("TIDE_SOAK") ? 1 : 1 + all / TRIES;
    for (int64_t n = 1; n <= all; n += step, refusals += 2) {
      refuse(h, i, n, false);
      refuse(h, i, n, true);
    }
  }
  speak(was);
  print_message("%d refusals\n", refusals);
  assert_true(refusals > 300);
  td_host_free(h);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_each)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
