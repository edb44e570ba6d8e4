/* faults.c - no memory at the n-th allocation of a prompt line.
 *
 * Lines that build, differentiate, plan and run are typed again and again with
 * the n-th allocation (Lua's included) failing once and for ever: each answers
 * or says that there is no memory, and the next one works. TIDE_SOAK tries
 * every n, else every 7th.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "tests/check.h"

#include "tests/lua/console/eval.h"

static const char *const lines[] = {
    "td.tensor{1, 2} + 3",
    "g = td.graph(); g:as_default(function() local x = td.constant{1.0, 2.0}; "
    "y = td.tanh(x * 2.0):sum(); dx = td.gradients(y, {x})[1] end)",
    "g = td.graph(); r = g:as_default(function() local W = td.variable({1.0}, "
    "'W'); local l = (W * W):sum(); local t = td.train.sgd(0.1):minimize(l); "
    "local s <close> = td.session{graph = g}; s:init(); return s:run({l, "
    "t})[1] "
    "end)",
};

static td_host *fresh(void) {
  char *why;
  td_str text;
  td_host *h = td_host_new(&eval_frontend, &why);
  if (!h) fail_msg("%s", why);
  td_str_init(&text);
  assert_int_equal(eval_cell(h, "td = require 'tide'", &text), TD_HOST_OK);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (eval_cell(h, lines[i], &text) != TD_HOST_OK)
      fail_msg("%s", td_str_c(&text));
  td_str_deinit(&text);
  return h;
}

static bool out_of_memory(const td_str *text) {
  return strstr(td_str_c(text), "memory") != NULL;
}

static void each_allocation(const char *line, bool for_ever) {
  int every = getenv("TIDE_SOAK") ? 1 : 7, n = 1, refused = 0;
  td_host *h = fresh();
  for (;; n += every) {
    td_str text;
    td_str_init(&text);
    int64_t before = td_mem_calls();
    td_mem_fail(n, for_ever);
    td_host_outcome o = eval_cell(h, line, &text);
    td_mem_fail(0, false);
    bool reached = td_mem_calls() - before >= n;
    if (o == TD_HOST_ERROR && text.len && !out_of_memory(&text))
      fail_msg("n = %d: %s", n, td_str_c(&text));
    refused += o == TD_HOST_ERROR;
    td_str_clear(&text);
    if (eval_cell(h, "1 + 1", &text) != TD_HOST_OK)
      fail_msg("n = %d: the next line fails: %s", n, td_str_c(&text));
    td_str_deinit(&text);
    if (!reached) break;
  }
  print_message("N = %d allocations, in steps of %d failed %s: %d refusals\n",
                n, every, for_ever ? "and all after it" : "once", refused);
  td_host_free(h);
}

static void test_lines(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    each_allocation(lines[i], false);
    each_allocation(lines[i], true);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
