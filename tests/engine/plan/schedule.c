/* schedule.c - tests of engine/plan/schedule.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "world.h"
#include "engine/graph/node_edit.h"

static td_plan *new_plan(world *w, const char *feeds, const char *fetches) {
  td_plan *p;
  w->request.passes_off = ~td_plan_pass_bit("schedule");
  OK(plan(w, feeds, fetches, &p));
  return p;
}

static int32_t order(const td_plan *p, const char *name) {
  for (int i = 0; i < p->n_parts; i++) {
    const td_node *n = td_graph_find(p->parts[i].graph, name);
    if (n) return n->order;
  }
  fail_msg("no node %s", name);
  return 0;
}

/* Each rank once, inputs before those who take them. */
static void check_order(const td_plan *p) {
  for (int i = 0; i < p->n_parts; i++) {
    const td_graph *g = p->parts[i].graph;
    int32_t n = td_graph_size(g);
    bool *seen = td_calloc((size_t)n, sizeof *seen);
    for (int32_t id = 0; id < n; id++) {
      const td_node *node = td_graph_node(g, id);
      assert_in_range(node->order, 0, n - 1);
      assert_false(seen[node->order]);
      seen[node->order] = true;
      for (int k = 0; k < node->n_in; k++)
        if (node->in[k].node->op->kind != TD_OP_NEXT)
          assert_true(node->in[k].node->order < node->order);
      for (int k = 0; k < node->n_control; k++)
        assert_true(node->control[k]->order < node->order);
    }
    td_free(seen);
  }
}

static void test_long_way_first(void **state) {
  (void)state;
  world w = new_world("C");
  add_placeholder(&w, "x", td_shape_scalar());
  add(&w, "short", "PlanNeg", "x");
  add(&w, "a", "PlanNeg", "x");
  add(&w, "b", "PlanNeg", "a");
  add(&w, "c", "PlanNeg", "b");
  td_plan *p = new_plan(&w, "x", "short c");
  check_order(p);
  assert_true(order(p, "b") < order(p, "short"));
  td_plan_free(p);
  free_world(&w);
}

static void test_large_first(void **state) {
  (void)state;
  world w = new_world("C");
  add_placeholder(&w, "x", td_shape_scalar());
  add_placeholder(&w, "y", td_shape_matrix(1000, 1000));
  add(&w, "small", "PlanNeg", "x");
  add(&w, "large", "PlanNeg", "y");
  td_plan *p = new_plan(&w, "x y", "small large");
  check_order(p);
  assert_true(order(p, "large") < order(p, "small"));
  td_plan_free(p);
  free_world(&w);
}

/* Another device waits for it. */
static void test_sends_first(void **state) {
  (void)state;
  world w = new_world("CC");
  add_placeholder(&w, "x", td_shape_scalar());
  add(&w, "here", "PlanNeg", "x");
  add(&w, "more", "PlanNeg", "here");
  add(&w, "there", "PlanNeg", "x");
  add(&w, "far", "PlanNeg", "there @c1");
  td_plan *p = new_plan(&w, "x", "more far");
  check_order(p);
  assert_true(order(p, "there") < order(p, "here"));
  td_plan_free(p);
  free_world(&w);
}

static void test_loop(void **state) {
  (void)state;
  world w = new_world("C");
  add_placeholder(&w, "x", td_shape_scalar());
  add_enter(&w, "enter", "loop", false, "x");
  attr(&w, "N", td_attr_int(2));
  td_node *m = add(&w, "merge", "Merge", "enter ?");
  add(&w, "less", "PlanLess", "merge merge");
  add(&w, "cond", "LoopCond", "less");
  add(&w, "switch", "Switch", "merge cond");
  td_node *n = add(&w, "next", "NextIteration", "switch:1");
  OK(td_node_set_back_edge(m, 1, (td_edge){n, 0}));
  add(&w, "exit", "Exit", "switch");
  td_plan *p = new_plan(&w, "x", "exit");
  check_order(p);
  td_plan_free(p);
  free_world(&w);
}

/* Without the pass the order is that of the nodes. */
static void test_off(void **state) {
  (void)state;
  world w = new_world("C");
  td_plan *p;
  add_placeholder(&w, "x", td_shape_scalar());
  add(&w, "y", "PlanNeg", "x");
  OK(plan(&w, "x", "y", &p));
  for (int32_t id = 0; id < td_graph_size(p->parts[0].graph); id++)
    assert_int_equal(td_graph_node(p->parts[0].graph, id)->order, id);
  td_plan_free(p);
  free_world(&w);
}

/* Sizes no memory could hold are no overflow. */
static void test_huge(void **state) {
  (void)state;
  world w = new_world("C");
  int64_t dims[8] = {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX,
                     INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX};
  add_placeholder(&w, "x", td_shape_of(8, dims));
  add(&w, "y", "PlanNeg", "x");
  add(&w, "z", "PlanNeg", "y");
  td_plan *p = new_plan(&w, "x", "z");
  check_order(p);
  td_plan_free(p);
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_long_way_first),
      cmocka_unit_test(test_large_first),
      cmocka_unit_test(test_sends_first),
      cmocka_unit_test(test_loop),
      cmocka_unit_test(test_off),
      cmocka_unit_test(test_huge),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
