/* cse.c - tests of engine/plan/cse.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "world.h"
#include "engine/graph/node_edit.h"

static world new_cse(const char *devices) {
  world w = new_world(devices);
  w.request.passes_off = ~td_plan_pass_bit("cse");
  add(&w, "s", "PlanSource", "");
  add(&w, "t", "PlanSource", "");
  return w;
}

static void test_merges(void **state) {
  (void)state;
  world w = new_cse("C");
  td_plan *p;
  add_const(&w, "k", TD_FLOAT32, 1, "");
  add_const(&w, "l", TD_FLOAT32, 1, "");
  add_const(&w, "m", TD_FLOAT32, 2, "");
  add(&w, "a", "PlanAdd", "s k");
  add(&w, "b", "PlanAdd", "s l"); /* equal once k and l are one */
  add(&w, "c", "PlanAdd", "s m");
  add(&w, "d", "PlanAdd", "a b");
  add(&w, "e", "PlanSource", "^b ^a");
  assert_plan(&w, "", "c d ^e",
              "s=PlanSource()\n"
              "k=Const()\n"
              "m=Const()\n"
              "a=PlanAdd(s:0,k:0)\n"
              "c=PlanAdd(s:0,m:0)\n"
              "d=PlanAdd(a:0,a:0)\n"
              "e=PlanSource()^a\n"
              "_retval_c_0_0=_Retval(c:0)\n"
              "_retval_d_0_1=_Retval(d:0)\n");
  OK(plan(&w, "", "c d ^e", &p));
  assert_int_equal(p->merged, 2);
  td_plan_free(p);
  free_world(&w);
}

/* Pairs that look alike; are they one? */
static const struct {
  const char *op, *a, *b;
  int merged;
} pairs[] = {
    {"PlanNeg", "s", "s", 1},
    {"PlanNeg", "s", "t", 0},
    {"PlanNeg", "s @c1", "s @c0", 0},
    {"PlanNeg", "s ^t", "s", 0},
    {"PlanNeg", "s ^t", "s ^t", 1},
    {"PlanAdd", "s t", "t s", 0}, /* of floats: NaN can tell */
    {"PlanAdd", "i j", "j i", 1},
    {"PlanMatMul", "i j", "j i", 0},
    {"PlanSource", "", "", 0},
    {"PlanRead", "v", "v", 0},
    {"Identity", "s", "s", 1},
    {"NoOp", "", "", 0},
};

static void test_pairs(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(pairs); i++) {
    world w = new_cse("CC");
    td_plan *p;
    add_const(&w, "i", TD_INT32, 1, "^s");
    add_const(&w, "j", TD_INT32, 2, "^s");
    add(&w, "v", "PlanVar", "");
    add(&w, "a", pairs[i].op, pairs[i].a);
    add(&w, "b", pairs[i].op, pairs[i].b);
    add(&w, "end", "NoOp", "^a ^b");
    OK(plan(&w, "", "^end", &p));
    if (p->merged != pairs[i].merged)
      fail_msg("%s %s | %s: merged %d", pairs[i].op, pairs[i].a, pairs[i].b,
               (int)p->merged);
    td_plan_free(p);
    free_world(&w);
  }
}

/* What is to be run is run under its own name. */
static void test_targets(void **state) {
  (void)state;
  world w = new_cse("C");
  td_plan *p;
  add(&w, "a", "PlanNeg", "s");
  add(&w, "b", "PlanNeg", "s");
  OK(plan(&w, "", "^a ^b", &p));
  assert_int_equal(p->merged, 0);
  td_plan_free(p);
  free_world(&w);
}

/* In a loop and through its back edge. */
static void test_loop(void **state) {
  (void)state;
  world w = new_cse("C");
  td_plan *p;
  add_enter(&w, "enter", "loop", false, "s");
  attr(&w, "N", td_attr_int(2));
  td_node *m = add(&w, "merge", "Merge", "enter ?");
  add(&w, "less", "PlanLess", "merge merge");
  add(&w, "cond", "LoopCond", "less");
  add(&w, "switch", "Switch", "merge cond");
  add(&w, "a", "PlanNeg", "switch:1");
  add(&w, "b", "PlanNeg", "switch:1");
  add(&w, "sum", "PlanAdd", "a b");
  td_node *n = add(&w, "next", "NextIteration", "sum");
  OK(td_node_set_back_edge(m, 1, (td_edge){n, 0}));
  add(&w, "exit", "Exit", "switch");
  add(&w, "outside", "PlanNeg", "exit");
  OK(plan(&w, "", "outside", &p));
  assert_int_equal(p->merged, 1);
  const td_graph *g = p->parts[0].graph;
  const td_node *sum = td_graph_find(g, "sum");
  assert_ptr_equal(sum->in[0].node, sum->in[1].node);
  assert_string_equal(td_graph_find(g, "merge")->in[1].node->name, "next");
  td_plan_free(p);
  free_world(&w);
}

static void test_no_memory(void **state) {
  (void)state;
  world w = new_cse("C");
  add(&w, "a", "PlanNeg", "s");
  add(&w, "b", "PlanNeg", "s");
  add(&w, "c", "PlanAdd", "a b");
  starve(&w, "", "c");
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_merges),    cmocka_unit_test(test_pairs),
      cmocka_unit_test(test_targets),   cmocka_unit_test(test_loop),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
