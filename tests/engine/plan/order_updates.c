/* order_updates.c - tests of engine/plan/order_updates.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "world.h"
#include "engine/graph/graph_check.h"

static world new_ordering(void) {
  world w = new_world("CC");
  w.request.passes_off = ~td_plan_pass_bit("order_updates");
  add(&w, "s", "PlanSource", "");
  add(&w, "v", "PlanVar", "");
  add(&w, "id", "Identity", "v");
  return w;
}

/* The control inputs of a node, in order. */
static void assert_waits(world *w, const char *fetches, const char *name,
                         const char *want) {
  td_plan *p;
  td_str text = {0};
  OK(plan(w, "", fetches, &p));
  const td_node *n = NULL;
  for (int i = 0; i < p->n_parts && !n; i++)
    n = td_graph_find(p->parts[i].graph, name);
  assert_non_null(n);
  for (int i = 0; i < n->n_control; i++)
    td_str_addf(&text, "%s%s", i ? " " : "", n->control[i]->name);
  assert_string_equal(td_str_c(&text), want);
  td_str_deinit(&text);
  td_plan_free(p);
}

/* Nodes beside s, v and id, and what the update then waits for. */
static const struct {
  const char *nodes[6][3];
  const char *fetches, *want;
} cases[] = {
    /* Nobody holds what was read: the read itself. */
    {{{"r", "PlanRead", "v"}, {"u", "PlanUpdate", "v s"}}, "^r ^u", "r"},
    {{{"r", "PlanRead", "id"}, {"u", "PlanUpdate", "v s"}}, "^r ^u", "r"},
    /* Who uses what was read, through what only passes it on. */
    {{{"r", "PlanRead", "v"},
      {"i", "Identity", "r"},
      {"a", "PlanNeg", "i"},
      {"b", "PlanNeg", "r"},
      {"u", "PlanUpdate", "id s"}},
     "^a ^b ^u",
     "b a"},
    /* Who precedes the update anyhow needs no edge. */
    {{{"r", "PlanRead", "v"},
      {"a", "PlanNeg", "r"},
      {"b", "PlanNeg", "r"},
      {"u", "PlanUpdate", "v a"}},
     "^b ^u",
     "b"},
    /* A read after the update stays after it. */
    {{{"u", "PlanUpdate", "v s"}, {"r", "PlanRead", "v ^u"}}, "^u r", ""},
    {{{"u", "PlanUpdate", "v s"},
      {"d", "PlanSource", "^u"},
      {"r", "PlanRead", "v"},
      {"a", "PlanAdd", "r d"}},
     "^u a",
     ""},
    /* Rows are not kept: the read is over when it is over. */
    {{{"r", "PlanGather", "v"},
      {"a", "PlanNeg", "r"},
      {"u", "PlanUpdate", "v s"}},
     "^a ^u",
     "r"},
    /* On another device only the read is waited for. */
    {{{"r", "PlanRead", "v"},
      {"a", "PlanNeg", "r @c1"},
      {"u", "PlanUpdate", "v s"}},
     "^a ^u",
     "r"},
    /* Another variable. */
    {{{"w", "PlanVar", ""}, {"r", "PlanRead", "w"}, {"u", "PlanUpdate", "v s"}},
     "^r ^u",
     ""},
};

static void test_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(cases); i++) {
    world w = new_ordering();
    for (int k = 0; k < 6 && cases[i].nodes[k][0]; k++)
      add(&w, cases[i].nodes[k][0], cases[i].nodes[k][1], cases[i].nodes[k][2]);
    assert_waits(&w, cases[i].fetches, "u", cases[i].want);
    free_world(&w);
  }
}

/* A reader in a branch would make the update dead. */
static void test_branch(void **state) {
  (void)state;
  world w = new_ordering();
  add(&w, "less", "PlanLess", "s s");
  add(&w, "switch", "Switch", "s less");
  add(&w, "pivot", "Identity", "switch:1");
  add(&w, "r", "PlanRead", "v ^pivot");
  add(&w, "q", "PlanRead", "v");
  add(&w, "a", "PlanAdd", "q pivot"); /* may be dead, q may not */
  add(&w, "u", "PlanUpdate", "v s");
  assert_waits(&w, "^r ^a ^u", "u", "q");
  free_world(&w);
}

/* What follows an Enter is in the loop, where no update in the root can be. */
static void test_enter(void **state) {
  (void)state;
  world w = new_ordering();
  td_plan *p;
  add(&w, "r", "PlanRead", "v");
  add_enter(&w, "enter", "loop", true, "r");
  add(&w, "inside", "PlanNeg", "enter");
  add(&w, "u", "PlanUpdate", "v s");
  OK(plan(&w, "", "^inside ^u", &p));
  assert_waits(&w, "^inside ^u", "u", "r");
  td_plan_free(p);
  free_world(&w);
}

/* Two variables whose updates each want to be last: one gives way, nothing
 * hangs. */
static void test_no_cycle(void **state) {
  (void)state;
  world w = new_ordering();
  td_plan *p;
  int32_t *order;
  add(&w, "w", "PlanVar", "");
  add(&w, "u", "PlanUpdate", "v s");
  add(&w, "uw", "PlanUpdate", "w s");
  add(&w, "r", "PlanRead", "v ^uw");
  add(&w, "rw", "PlanRead", "w ^u");
  OK(plan(&w, "", "^r ^rw", &p));
  OK(td_graph_order(p->parts[0].graph, &order));
  td_free(order);
  td_plan_free(p);
  free_world(&w);
}

/* Many readers wait at one node. */
static void test_many(void **state) {
  (void)state;
  world w = new_ordering();
  td_plan *p;
  char all[512] = "^u";
  add(&w, "u", "PlanUpdate", "v s");
  for (int i = 0; i < 12; i++) {
    char name[8], use[16];
    snprintf(name, sizeof name, "r%d", i);
    add(&w, name, "PlanRead", "v");
    snprintf(use, sizeof use, " ^r%d", i);
    strcat(all, use);
  }
  OK(plan(&w, "", all, &p));
  const td_node *u = td_graph_find(p->parts[0].graph, "u");
  assert_int_equal(u->n_control, 1);
  assert_int_equal(u->control[0]->op->kind, TD_OP_NOOP);
  assert_int_equal(u->control[0]->n_control, 12);
  td_plan_free(p);
  free_world(&w);
}

static void test_no_memory(void **state) {
  (void)state;
  world w = new_ordering();
  add(&w, "r", "PlanRead", "v");
  add(&w, "a", "PlanNeg", "r");
  add(&w, "u", "PlanUpdate", "v s");
  starve(&w, "", "a ^u");
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),    cmocka_unit_test(test_branch),
      cmocka_unit_test(test_no_cycle), cmocka_unit_test(test_many),
      cmocka_unit_test(test_enter),    cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
