/* fold.c - tests of engine/plan/fold.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

static world new_fold(void) {
  world w = new_world("C");
  w.request.passes_off = ~td_plan_pass_bit("fold");
  add_const(&w, "two", TD_FLOAT32, 2, "");
  add_const(&w, "three", TD_FLOAT32, 3, "");
  return w;
}

/* A vector of floats that has no value before the step. */
static void add_fed(world *w, const char *name, int64_t n) {
  add_placeholder(w, name, td_shape_vector(n));
}

static const td_tensor *value_of(const td_plan *p, const char *name) {
  const td_node *n = td_graph_find(p->parts[0].graph, name);
  if (!n) fail_msg("no node %s", name);
  return td_node_attr(n, "value")->tensor;
}

static void test_chain(void **state) {
  (void)state;
  world w = new_fold();
  td_plan *p;
  add(&w, "sum", "PlanAdd", "two three");
  add(&w, "neg", "PlanNeg", "sum");
  add(&w, "same", "Identity", "neg");
  add_fed(&w, "x", 4);
  add(&w, "y", "PlanAdd", "x same");
  assert_plan(&w, "x", "y same",
              "_arg_x_0=_Arg()\n"
              "_const_same_0=Const()\n"
              "y=PlanAdd(_arg_x_0:0,_const_same_0:0)\n"
              "_retval_y_0_0=_Retval(y:0)\n"
              "_retval_same_0_1=_Retval(_const_same_0:0)\n");
  OK(plan(&w, "x", "y same", &p));
  assert_int_equal(p->folded, 3);
  assert_float_equal(td_tensor_get_f(value_of(p, "_const_same_0"), 0), -5, 0);
  td_plan_free(p);
  w.request.passes_off = ~0U;
  OK(plan(&w, "x", "y same", &p));
  assert_int_equal(p->folded, 0);
  assert_non_null(td_graph_find(p->parts[0].graph, "sum"));
  td_plan_free(p);
  free_world(&w);
}

/* Nodes made by `make` that stay as they are. */
static const struct {
  const char *op, *inputs;
} kept[] = {
    {"PlanBad", "two"},        /* fails: the step will say so */
    {"PlanGrow", "two"},       /* 16 MB from 4 bytes */
    {"PlanLess", "two three"}, /* says that it must not be */
    {"PlanSource", ""},        /* a state */
    {"PlanNeg", "two ^state"}, /* after something with a state */
    {"PlanNeg", "state"},      {"PlanNeg", "switch"}, /* in a branch */
};

static void test_kept(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(kept); i++) {
    world w = new_fold();
    td_plan *p;
    add(&w, "state", "PlanSource", "");
    add_const(&w, "yes", TD_BOOL, 1, "");
    add(&w, "switch", "Switch", "two yes");
    add(&w, "y", kept[i].op, kept[i].inputs);
    OK(plan(&w, "", "y", &p));
    assert_int_equal(p->folded, 0);
    assert_non_null(td_graph_find(p->parts[0].graph, "y"));
    td_plan_free(p);
    free_world(&w);
  }
}

static void test_constant_controls(void **state) {
  (void)state;
  world w = new_fold();
  add(&w, "neg", "PlanNeg", "two ^three");
  add(&w, "state", "PlanSource", "^neg ^two");
  assert_plan(&w, "", "neg state",
              "state=PlanSource()\n"
              "_const_neg_0=Const()\n"
              "_retval_neg_0_0=_Retval(_const_neg_0:0)\n"
              "_retval_state_0_1=_Retval(state:0)\n");
  free_world(&w);
}

/* Whoever asks for a node to be run gets it. */
static void test_targets(void **state) {
  (void)state;
  world w = new_fold();
  add(&w, "neg", "PlanNeg", "two");
  add(&w, "pos", "PlanNeg", "neg");
  assert_plan(&w, "", "pos ^neg",
              "two=Const()\n"
              "neg=PlanNeg(two:0)\n"
              "_const_pos_0=Const()\n"
              "_retval_pos_0_0=_Retval(_const_pos_0:0)\n");
  free_world(&w);
}

/* Sizes known from shapes alone; what has a state stays nevertheless. */
static void test_sizes(void **state) {
  (void)state;
  world w = new_fold();
  td_plan *p;
  int64_t dims[] = {-1, 4};
  add_fed(&w, "x", 7);
  add(&w, "neg", "PlanNeg", "x");
  add(&w, "shape", "Shape", "neg");
  add(&w, "size", "Size", "neg");
  add(&w, "rank", "Rank", "neg");
  OK(plan(&w, "x", "shape size rank", &p));
  assert_int_equal(p->folded, 3);
  assert_null(td_graph_find(p->parts[0].graph, "neg"));
  assert_int_equal(td_tensor_get_i(value_of(p, "_const_shape_0"), 0), 7);
  assert_int_equal(td_tensor_get_i(value_of(p, "_const_size_0"), 0), 7);
  assert_int_equal(td_tensor_get_i(value_of(p, "_const_rank_0"), 0), 1);
  td_plan_free(p);
  add_placeholder(&w, "part", td_shape_of(2, dims));
  add(&w, "unknown", "Shape", "part");
  add(&w, "two_of_them", "Rank", "part");
  OK(plan(&w, "part", "unknown two_of_them", &p));
  assert_int_equal(p->folded, 1);
  assert_non_null(td_graph_find(p->parts[0].graph, "unknown"));
  td_plan_free(p);
  add(&w, "state", "PlanSource", "");
  add(&w, "of_state", "Rank", "state");
  assert_plan(&w, "", "of_state",
              "state=PlanSource()\n"
              "_const_of_state_0=Const()\n"
              "_retval_of_state_0_0=_Retval(_const_of_state_0:0)\n");
  free_world(&w);
}

/* A fed constant is not one. */
static void test_fed(void **state) {
  (void)state;
  world w = new_fold();
  td_plan *p;
  add(&w, "sum", "PlanAdd", "two three");
  OK(plan(&w, "two", "sum", &p));
  assert_int_equal(p->folded, 0);
  td_plan_free(p);
  free_world(&w);
}

/* Folded on the host, wanted on another device. */
static void test_other_device(void **state) {
  (void)state;
  world w = new_world("CT");
  td_plan *p;
  w.request.passes_off = ~td_plan_pass_bit("fold");
  add_const(&w, "two", TD_FLOAT32, 2, "");
  add(&w, "neg", "PlanNeg", "two @t");
  add(&w, "state", "PlanSource", "@t");
  add(&w, "y", "PlanAdd", "neg state @t");
  OK(plan(&w, "", "y", &p));
  assert_int_equal(p->n_parts, 1);
  assert_int_equal(p->folded, 1);
  assert_float_equal(td_tensor_get_f(value_of(p, "_const_neg_0"), 0), -2, 0);
  td_plan_free(p);
  free_world(&w);
}

static void test_no_memory(void **state) {
  (void)state;
  world w = new_fold();
  add(&w, "sum", "PlanAdd", "two three");
  add(&w, "neg", "PlanNeg", "sum");
  add(&w, "rank", "Rank", "neg");
  starve(&w, "", "neg rank");
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chain),
      cmocka_unit_test(test_kept),
      cmocka_unit_test(test_constant_controls),
      cmocka_unit_test(test_targets),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_fed),
      cmocka_unit_test(test_other_device),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
