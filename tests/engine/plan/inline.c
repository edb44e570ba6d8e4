/* inline.c - tests of engine/plan/inline.c.
 *
 * Functions are made of a graph of their own: f(x) = Neg(x) + 1 is
 * there in every test.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/node_edit.h"
#include "engine/graphdef/function.h"
#include "world.h"

/* Makes `name` of nodes added to `body`; "" for none. */
static void define(world *w, world *body, const char *name, const char *arg,
                   const char *result, const char *control) {
  td_edge in = {0}, out = {0};
  td_node *end = *control ? edge(body, control).node : NULL;
  if (*arg) in = edge(body, arg);
  if (*result) out = edge(body, result);
  td_function_spec f = {.name = name,
                        .args = &in,
                        .arg_names = &arg,
                        .n_args = *arg != 0,
                        .results = &out,
                        .n_results = *result != 0,
                        .controls = &end,
                        .n_controls = end != NULL};
  OK(td_function_make(body->g, &f, w->g));
}

/* add_call(w, "y", "f", 1, "x ^z @c1") */
static td_node *add_call(world *w, const char *name, const char *f, int n_in,
                         td_dtype in, int n_out, const char *inputs) {
  td_func_attr func = {.name = f};
  td_attr a = {.kind = TD_ATTR_FUNC, .func = &func};
  td_dtype out = TD_FLOAT32;
  attr(w, "f", a);
  attr(w, "Tin", td_attr_types(&in, n_in));
  attr(w, "Tout", td_attr_types(&out, n_out));
  return add(w, name, "PartitionedCall", inputs);
}

static world new_inline(const char *devices) {
  world w = new_world(devices), body = new_world("");
  w.request.passes_off = ~0U;
  add_placeholder(&body, "x", td_shape_unknown());
  add_const(&body, "one", TD_FLOAT32, 1, "");
  add(&body, "neg", "PlanNeg", "x");
  add(&body, "sum", "PlanAdd", "neg one");
  define(&w, &body, "f", "x", "sum", "");
  free_world(&body);
  add(&w, "s", "PlanSource", "");
  return w;
}

/* Outside of control flow the body stands for the call, nothing else. */
static void test_plain(void **state) {
  (void)state;
  world w = new_inline("C");
  add_call(&w, "c", "f", 1, TD_FLOAT32, 1, "s");
  add(&w, "y", "PlanNeg", "c");
  assert_plan(&w, "", "y c",
              "s=PlanSource()\n"
              "c/neg=PlanNeg(s:0)\n"
              "c/one=Const()\n"
              "c/sum=PlanAdd(c/neg:0,c/one:0)\n"
              "y=PlanNeg(c/sum:0)\n"
              "_retval_y_0_0=_Retval(y:0)\n"
              "_retval_c_0_1=_Retval(c/sum:0)\n");
  free_world(&w);
}

/* A call of a call, and one whose result is its argument. */
static void test_chain(void **state) {
  (void)state;
  world w = new_inline("C"), body = new_world("");
  add_placeholder(&body, "x", td_shape_unknown());
  define(&w, &body, "same", "x", "x", "");
  free_world(&body);
  add_call(&w, "c", "same", 1, TD_FLOAT32, 1, "s");
  add_call(&w, "d", "same", 1, TD_FLOAT32, 1, "c");
  add(&w, "y", "PlanNeg", "d");
  assert_plan(&w, "", "y",
              "s=PlanSource()\n"
              "y=PlanNeg(s:0)\n"
              "_retval_y_0_0=_Retval(y:0)\n");
  free_world(&w);
}

/* Who waits for a call waits for its body; what the call waits for is awaited
 * by what has no inputs there. */
static void test_controls(void **state) {
  (void)state;
  world w = new_inline("C"), body = new_world("");
  add(&body, "inner", "PlanSource", "");
  define(&w, &body, "draw", "", "", "inner");
  free_world(&body);
  add(&w, "t", "PlanSource", "");
  add_call(&w, "c", "draw", 0, TD_FLOAT32, 0, "^t");
  add(&w, "after", "PlanNeg", "s ^c");
  assert_plan(&w, "", "after ^c",
              "s=PlanSource()\n"
              "t=PlanSource()\n"
              "c/begin=NoOp()^t\n"
              "c/inner=PlanSource()^c/begin\n"
              "c/end=NoOp()^c/begin^c/inner\n"
              "after=PlanNeg(s:0)^c/end\n"
              "_retval_after_0_0=_Retval(after:0)\n");
  free_world(&w);
}

/* A loop of the body waits where it begins: nothing inside can. */
static void test_loop(void **state) {
  (void)state;
  world w = new_inline("C"), body = new_world("");
  add_placeholder(&body, "x", td_shape_scalar());
  add_enter(&body, "enter", "loop", false, "x");
  attr(&body, "T", td_attr_type(TD_FLOAT32));
  attr(&body, "N", td_attr_int(2));
  td_node *m = add(&body, "merge", "Merge", "enter ?");
  add(&body, "less", "PlanLess", "merge merge");
  add(&body, "cond", "LoopCond", "less");
  add(&body, "switch", "Switch", "merge cond");
  add(&body, "draw", "PlanSource", "^merge");
  add(&body, "sum", "PlanAdd", "switch:1 draw");
  td_node *next = add(&body, "next", "NextIteration", "sum");
  OK(td_node_set_back_edge(m, 1, (td_edge){next, 0}));
  add(&body, "exit", "Exit", "switch");
  add(&body, "end", "PlanSource", "^exit");
  add(&body, "out", "PlanAdd", "exit end");
  define(&w, &body, "sums", "x", "out", "");
  free_world(&body);
  add(&w, "t", "PlanSource", "");
  add_call(&w, "c", "sums", 1, TD_FLOAT32, 1, "s ^t");
  assert_plan(&w, "", "c",
              "s=PlanSource()\n"
              "t=PlanSource()\n"
              "c/arg=Identity(s:0)\n"
              "c/begin=NoOp()^t^c/arg\n"
              "c/enter=Enter(c/arg:0)^c/begin\n"
              "c/merge=Merge(c/enter:0,c/next:0)\n"
              "c/less=PlanLess(c/merge:0,c/merge:0)\n"
              "c/cond=LoopCond(c/less:0)\n"
              "c/switch=Switch(c/merge:0,c/cond:0)\n"
              "c/exit=Exit(c/switch:0)\n"
              "c/end=PlanSource()^c/exit^c/begin\n"
              "c/out=PlanAdd(c/exit:0,c/end:0)\n"
              "_retval_c_0_0=_Retval(c/out:0)\n"
              "c/draw=PlanSource()^c/merge\n"
              "c/sum=PlanAdd(c/switch:1,c/draw:0)\n"
              "c/next=NextIteration(c/sum:0)\n");
  free_world(&w);
}

/* Readers go to their variables, the rest where the call is. */
static void test_places(void **state) {
  (void)state;
  world w = new_inline("CC"), body = new_world("");
  td_plan *p;
  attr(&body, "dtype", td_attr_type(TD_RESOURCE));
  add(&body, "h", "Placeholder", "");
  add(&body, "read", "PlanRead", "h");
  add(&body, "neg", "PlanNeg", "read");
  define(&w, &body, "r", "h", "neg", "");
  free_world(&body);
  add(&w, "v", "PlanVar", "@c1");
  add_call(&w, "c", "r", 1, TD_RESOURCE, 1, "v @c0");
  OK(plan(&w, "", "c", &p));
  assert_int_equal(p->n_parts, 2);
  for (int i = 0; i < 2; i++) {
    bool second = p->parts[i].device == w.devices[1];
    assert_true(!td_graph_find(p->parts[i].graph, "c/read") == !second);
    assert_true(!td_graph_find(p->parts[i].graph, "c/neg") == second);
  }
  td_plan_free(p);
  free_world(&w);
}

static void test_missing(void **state) {
  (void)state;
  world w = new_inline("C");
  td_plan *p;
  add_call(&w, "c", "g", 1, TD_FLOAT32, 1, "s");
  FAILS(plan(&w, "", "c", &p), TD_NOT_FOUND, "has no function \"g\"");
  OK(plan(&w, "", "s", &p)); /* who does not need it does not mind */
  td_plan_free(p);
  free_world(&w);
}

static void test_no_memory(void **state) {
  (void)state;
  world w = new_inline("C");
  add_call(&w, "c", "f", 1, TD_FLOAT32, 1, "s");
  add(&w, "y", "PlanNeg", "c ^c");
  starve(&w, "", "y");
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain),     cmocka_unit_test(test_chain),
      cmocka_unit_test(test_controls),  cmocka_unit_test(test_loop),
      cmocka_unit_test(test_places),    cmocka_unit_test(test_missing),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
