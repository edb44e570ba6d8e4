/* function_passes.c - which arguments a function hands on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "functions.h"

static void check(const char *text, int n, const char *want) {
  td_graph *g = new_graph();
  bool same[8];
  OK(add_function(g, "f", text));
  OK(td_function_passes(g, "f", n, same));
  for (int i = 0; i < n; i++) assert_int_equal(same[i], want[i] == '1');
  td_graph_release(g);
}

static void test_passed(void **state) {
  (void)state;
  check("f(a b) r=a s=b", 2, "11");
  check("f(a b) r=b s=a", 2, "00");
  check("f(a b) r=n:output:0 s=b:0 | n Identity a", 2, "11");
  check("f(a) r=n:output:0 | n Identity m:output:0; m Identity a", 1, "1");
  check("f(a b) r=n:output:0 s=b | n Identity b", 2, "01");
  check("f(a) r=n:output:0 | n Identity a ^m; m NoOp", 1, "0");
  check("f(a) r=n:y:0 | n Relu a", 1, "0");
  check("f(a b) r=a", 2, "00"); /* no body of a loop */
  check("f(ab a) r=ab s=a", 2, "11");
  check("f(ab a) r=a s=ab", 2, "00");
}

static void test_none(void **state) {
  (void)state;
  td_graph *g = new_graph();
  bool same[1];
  FAILS(td_function_passes(g, "f", 1, same), TD_NOT_FOUND,
        "the graph has no function \"f\"");
  td_graph_release(g);
}

/* Thousands of results at the end of a chain of thousands. */
static void test_long_chain(void **state) {
  (void)state;
  enum { MANY = 3000 };
  td_graph *g = new_graph();
  td_str text = {0};
  bool *same = td_calloc(MANY, sizeof *same);
  td_str_add(&text, "f(");
  for (int i = 0; i < MANY; i++) td_str_addf(&text, "a%d ", i);
  td_str_add(&text, ")");
  for (int i = 0; i < MANY; i++)
    td_str_addf(&text, " r%d=n%d:output:0", i, MANY - 1);
  td_str_add(&text, " | n0 Identity a0");
  for (int i = 1; i < MANY; i++)
    td_str_addf(&text, "; n%d Identity n%d:output:0", i, i - 1);
  OK(add_function(g, "f", td_str_c(&text)));
  OK(td_function_passes(g, "f", MANY, same));
  assert_true(same[0]);
  for (int i = 1; i < MANY; i++) assert_false(same[i]);
  td_free(same);
  td_str_deinit(&text);
  td_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_passed),
      cmocka_unit_test(test_none),
      cmocka_unit_test(test_long_chain),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
