/* control_loops.c - tests of engine/plan/control_loops.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"
#include "engine/graph/node_edit.h"

/* A loop's name, what it begins with, and the devices of its pieces. */
typedef struct loop {
  const char *name, *from, *merge, *body, *cond, *exit;
} loop;

/* `format` with the loop's name for each "$". */
static const char *named(char *buf, size_t size, const loop *l,
                         const char *format, const char *device) {
  td_str text = {0};
  for (; *format; format++) {
    if (*format == '$')
      td_str_add(&text, l->name);
    else
      td_str_addc(&text, *format);
  }
  snprintf(buf, size, "%s %s", td_str_c(&text), device);
  td_str_deinit(&text);
  return buf;
}

static td_node *add_in(world *w, const loop *l, const char *name,
                       const char *op, const char *inputs, const char *device) {
  char a[128], b[128];
  named(a, sizeof a, l, name, "");
  a[strlen(a) - 1] = '\0';
  return add(w, a, op, named(b, sizeof b, l, inputs, device));
}

/* $/enter, $/merge, $/less, $/cond, $/switch */
static void begin_loop(world *w, const loop *l) {
  attr(w, "frame_name", td_attr_string(l->name));
  add_in(w, l, "$/enter", "Enter", l->from, "");
  attr(w, "N", td_attr_int(2));
  add_in(w, l, "$/merge", "Merge", "$/enter ?", l->merge);
  add_in(w, l, "$/less", "PlanLess", "$/merge $/merge", l->cond);
  add_in(w, l, "$/cond", "LoopCond", "$/less", l->cond);
  add_in(w, l, "$/switch", "Switch", "$/merge $/cond", l->merge);
}

/* $/next, with what the body gave, and $/exit */
static void end_loop(world *w, const loop *l, const char *result) {
  char name[128];
  td_node *n = add_in(w, l, "$/next", "NextIteration", result, l->merge);
  snprintf(name, sizeof name, "%s/merge", l->name);
  OK(td_node_set_back_edge(edge(w, name).node, 1, (td_edge){n, 0}));
  add_in(w, l, "$/exit", "Exit", "$/switch:0", l->exit);
}

/* Devices of a loop's pieces, and how many control loops each part gets. */
static const struct {
  const char *merge, *body, *cond, *exit;
  int loops[2];
} loops[] = {
    {"@c0", "@c0", "@c0", "@c0", {0, 0}},
    /* The body elsewhere: both sides receive. */
    {"@c0", "@c1", "@c0", "@c0", {1, 1}},
    {"@c0", "@c0", "@c1", "@c0", {1, 1}},
    {"@c1", "@c0", "@c0", "@c1", {1, 1}},
    {"@c1", "@c1", "@c1", "@c0", {0, 0}}, /* the Exit comes along */
};

static void test_loops(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(loops); i++) {
    world w = new_world("CC");
    td_plan *p;
    loop l = {"loop",        "x",           loops[i].merge,
              loops[i].body, loops[i].cond, loops[i].exit};
    add_placeholder(&w, "x", td_shape_scalar());
    begin_loop(&w, &l);
    add_in(&w, &l, "body", "PlanNeg", "$/switch:1", l.body);
    end_loop(&w, &l, "body");
    add(&w, "after", "PlanNeg", "loop/exit @c0");
    OK(plan(&w, "x", "after", &p));
    check_links(p);
    check_parts(p);
    for (int k = 0; k < p->n_parts; k++) {
      int want = loops[i].loops[p->parts[k].device->index], have = 0;
      const td_graph *g = p->parts[k].graph;
      for (int32_t id = 0; id < td_graph_size(g); id++) {
        const td_node *n = td_graph_node(g, id);
        have += n->op->kind == TD_OP_ENTER && n->name[0] == '_';
        if (n->op->kind == TD_OP_ENTER)
          assert_string_equal(td_node_string(n, "frame_name"), "loop");
      }
      assert_int_equal(have, want);
      if (want) assert_int_equal(count(g, "LoopCond"), 1);
    }
    td_plan_free(p);
    free_world(&w);
  }
}

/* A loop in a loop, the inner body alone on the other device: that has the
 * control loops of both. */
static void test_nested(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  loop outer = {"outer", "x", "@c0", "@c0", "@c0", "@c0"};
  loop inner = {"inner", "outer/switch:1", "@c0", "@c1", "@c0", "@c0"};
  add_placeholder(&w, "x", td_shape_scalar());
  begin_loop(&w, &outer);
  begin_loop(&w, &inner);
  add(&w, "body", "PlanNeg", "inner/switch:1 @c1");
  end_loop(&w, &inner, "body");
  end_loop(&w, &outer, "inner/exit");
  OK(plan(&w, "x", "outer/exit", &p));
  check_links(p);
  check_parts(p);
  const td_graph *g = part(p, "CPU", 1);
  assert_int_equal(count(g, "Enter"), 2);
  assert_int_equal(count(g, "Merge"), 2);
  assert_int_equal(count(g, "LoopCond"), 2);
  assert_int_equal(count(g, "NextIteration"), 2);
  const td_node *recv = node(g, "body")->in[0].node;
  const td_node *enter = recv->control[0]->in[0].node;
  assert_string_equal(td_node_string(enter, "frame_name"), "inner");
  assert_int_equal(enter->in[0].node->op->kind, TD_OP_MERGE);
  td_plan_free(p);
  free_world(&w);
}

/* One Enter for Merges on two devices: each gets its own. */
static void test_shared_enter(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  add_placeholder(&w, "x", td_shape_scalar());
  add_enter(&w, "enter", "loop", false, "x");
  attr(&w, "N", td_attr_int(2));
  td_node *a = add(&w, "a", "Merge", "enter ? @c0");
  attr(&w, "N", td_attr_int(2));
  td_node *b = add(&w, "b", "Merge", "enter ? @c1");
  add(&w, "less", "PlanLess", "a a @c0");
  add(&w, "cond", "LoopCond", "less @c0");
  add(&w, "sa", "Switch", "a cond @c0");
  add(&w, "sb", "Switch", "b cond @c1");
  td_node *next = add(&w, "next", "NextIteration", "sa:1 @c0");
  OK(td_node_set_back_edge(a, 1, (td_edge){next, 0}));
  OK(td_node_set_back_edge(b, 1, (td_edge){next, 0}));
  add(&w, "xa", "Exit", "sa @c0");
  add(&w, "xb", "Exit", "sb @c0");
  OK(plan(&w, "x", "xa xb", &p));
  check_links(p);
  check_parts(p);
  for (int i = 0; i < 2; i++) {
    const td_node *m = node(part(p, "CPU", i), i ? "b" : "a");
    assert_int_equal(m->in[0].node->op->kind, TD_OP_ENTER);
    assert_int_equal(m->in[1].node->op->kind, TD_OP_NEXT);
  }
  assert_non_null(td_graph_find(part(p, "CPU", 1), "xb"));
  td_plan_free(p);
  free_world(&w);
}

/* A constant goes over once, not in each iteration. */
static void test_constant_enter(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  loop l = {"loop", "x", "@c1", "@c1", "@c1", "@c1"};
  add_placeholder(&w, "x", td_shape_scalar());
  add(&w, "k", "PlanSource", "");
  add_enter(&w, "constant", "loop", true, "k @c0");
  begin_loop(&w, &l);
  add(&w, "body", "PlanAdd", "loop/switch:1 constant @c1");
  end_loop(&w, &l, "body");
  OK(plan(&w, "x", "loop/exit", &p));
  check_links(p);
  check_parts(p);
  assert_int_equal(p->n_edges, 2); /* k and x */
  assert_int_equal(count(part(p, "CPU", 0), "Enter"), 0);
  td_plan_free(p);
  /* Used on both devices: k crosses as before, and the new value. */
  add(&w, "here", "PlanNeg", "constant @c0");
  add(&w, "there", "PlanNeg", "here ^loop/switch @c1");
  OK(plan(&w, "x", "loop/exit ^there", &p));
  check_links(p);
  check_parts(p);
  for (int32_t e = 0; e < p->n_edges; e++)
    assert_null(strstr(p->edges[e].name, "constant"));
  td_plan_free(p);
  free_world(&w);
}

/* The condition asks constants, on a device that nothing else lets turn. */
static void test_condition_of_constants(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  loop l = {"loop", "x", "@c0", "@c0", "@c1", "@c0"};
  add_placeholder(&w, "x", td_shape_scalar());
  add_enter(&w, "constant", "loop", true, "x");
  attr(&w, "frame_name", td_attr_string("loop"));
  add(&w, "loop/enter", "Enter", "x");
  attr(&w, "N", td_attr_int(2));
  add(&w, "loop/merge", "Merge", "loop/enter ? @c0");
  add(&w, "less", "PlanLess", "constant constant @c1");
  add(&w, "cond", "LoopCond", "less @c1");
  add(&w, "loop/switch", "Switch", "loop/merge cond @c0");
  add(&w, "body", "PlanNeg", "loop/switch:1 @c0");
  end_loop(&w, &l, "body");
  OK(plan(&w, "x", "loop/exit", &p));
  check_links(p);
  check_parts(p);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(count(part(p, "CPU", i), "LoopCond"), 1);
    assert_int_equal(count(part(p, "CPU", i), "NextIteration"), 2 - i);
  }
  td_plan_free(p);
  free_world(&w);
}

/* Its only variable may be lost in a branch: the control loops hear of it. */
static void begin_mortal(world *w, const char *there) {
  char inputs[64];
  add_placeholder(w, "x", td_shape_scalar());
  add_enter(w, "constant", "loop", true, "x");
  attr(w, "frame_name", td_attr_string("loop"));
  add(w, "enter", "Enter", "x");
  attr(w, "N", td_attr_int(2));
  td_node *m = add(w, "merge", "Merge", "enter ? @c0");
  snprintf(inputs, sizeof inputs, "constant constant %s", there);
  add(w, "less", "PlanLess", inputs);
  snprintf(inputs, sizeof inputs, "less %s", there);
  add(w, "cond", "LoopCond", inputs);
  add(w, "switch", "Switch", "merge cond @c0");
  add(w, "pred", "PlanLess", "merge constant @c0");
  add(w, "side", "Switch", "switch:1 pred @c0");
  td_node *next = add(w, "next", "NextIteration", "side:1 @c0");
  OK(td_node_set_back_edge(m, 1, (td_edge){next, 0}));
  add(w, "exit", "Exit", "switch:0");
}

static void test_mortal_variable(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  begin_mortal(&w, "@c1");
  OK(plan(&w, "x", "exit", &p));
  check_links(p);
  check_parts(p);
  for (int i = 0; i < 2; i++) {
    const td_graph *g = part(p, "CPU", i);
    const td_node *next = node(g, i ? "_control_loop_1_1/NextIteration"
                                    : "_control_loop_1_0/NextIteration");
    assert_int_equal(next->n_control, 1);
  }
  assert_int_equal(node(part(p, "CPU", 1), "_alive_1")->n_in, 1);
  td_plan_free(p);
  free_world(&w);
  w = new_world("CT");
  begin_mortal(&w, "@t");
  starve(&w, "x", "exit");
  free_world(&w);
}

/* A device that only takes reports each iteration to the LoopCond's, which has
 * a control loop to receive it; one that gives something need not. */
static void test_reports(void **state) {
  (void)state;
  for (int gives = 0; gives < 2; gives++) {
    world w = new_world("CCC");
    td_plan *p;
    loop l = {"loop", "x", "@c0", "@c0", "@c0", "@c0"};
    add_placeholder(&w, "x", td_shape_scalar());
    begin_loop(&w, &l);
    add(&w, "there", "PlanNeg", "loop/switch:1 @c1");
    add_in(&w, &l, "body", "PlanNeg",
           gives ? "$/switch:1 ^there" : "$/switch:1", "@c0");
    end_loop(&w, &l, "body");
    add(&w, "sum", "PlanNeg", "there @c1");
    OK(plan(&w, "x", gives ? "loop/exit" : "loop/exit ^sum", &p));
    check_links(p);
    check_parts(p);
    const td_graph *g = part(p, "CPU", 0);
    assert_int_equal(td_graph_find(g, "_report_1_1") != NULL, !gives);
    assert_int_equal(count(g, "_Recv"), 1);
    assert_int_equal(count(g, "Enter"), 2);
    td_plan_free(p);
    free_world(&w);
  }
}

static void test_no_memory(void **state) {
  (void)state;
  world w = new_world("CT");
  loop l = {"loop", "x", "@c0", "@t", "@t", "@c0"};
  add_placeholder(&w, "x", td_shape_scalar());
  begin_loop(&w, &l);
  add(&w, "body", "PlanNeg", "loop/switch:1 @t");
  end_loop(&w, &l, "body");
  add(&w, "after", "PlanSource", "^loop/exit @t");
  w.request.passes_off = 0;
  starve(&w, "x", "loop/exit ^after");
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_loops),
      cmocka_unit_test(test_nested),
      cmocka_unit_test(test_shared_enter),
      cmocka_unit_test(test_constant_enter),
      cmocka_unit_test(test_condition_of_constants),
      cmocka_unit_test(test_mortal_variable),
      cmocka_unit_test(test_reports),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
