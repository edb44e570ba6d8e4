/* partition.c - tests of engine/plan/partition.c and control_loops.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

static const td_graph *part(const td_plan *p, const char *type, int index) {
  for (int i = 0; i < p->n_parts; i++)
    if (strcmp(p->parts[i].device->type, type) == 0 &&
        p->parts[i].device->index == index)
      return p->parts[i].graph;
  fail_msg("no part for %s:%d", type, index);
  return NULL;
}

static const td_node *node(const td_graph *g, const char *name) {
  const td_node *n = td_graph_find(g, name);
  if (!n) fail_msg("no node %s", name);
  return n;
}

static int count(const td_graph *g, const char *op) {
  int n = 0;
  for (int32_t id = 0; id < td_graph_size(g); id++)
    n += strcmp(td_graph_node(g, id)->op->type, op) == 0;
  return n;
}

/* Every edge is sent once and received once, or ends at the client. */
static void check_links(const td_plan *p) {
  int *sends = td_alloc_zero((size_t)p->n_edges + 1, sizeof *sends);
  int *recvs = td_alloc_zero((size_t)p->n_edges + 1, sizeof *recvs);
  for (int i = 0; i < p->n_parts; i++)
    for (int32_t id = 0; id < td_graph_size(p->parts[i].graph); id++) {
      const td_node *n = td_graph_node(p->parts[i].graph, id);
      int64_t e = td_node_int(n, "_edge");
      if (n->op->kind == TD_KIND_SEND) sends[e]++;
      if (n->op->kind == TD_KIND_RECV) recvs[e]++;
    }
  for (int32_t e = 0; e < p->n_edges; e++) {
    assert_int_equal(sends[e], 1);
    assert_int_equal(recvs[e], 1);
  }
  td_free(sends);
  td_free(recvs);
}

/* Each part is in order and in itself whole: whoever compiles it needs no
 * more. */
static void check_parts(const td_plan *p) {
  for (int i = 0; i < p->n_parts; i++) {
    td_frames frames;
    td_graph *g = p->parts[i].graph;
    OK(td_graph_verify(g));
    OK(td_frames_check(g, &frames));
    for (int32_t id = 0; id < td_graph_size(g); id++) {
      const td_node *n = td_graph_node(g, id);
      for (int k = 0; k < n->n_in; k++)
        if (n->in[k].node->op->kind != TD_KIND_NEXT)
          assert_true(n->in[k].node->id < id);
      for (int k = 0; k < n->n_control; k++)
        assert_true(n->control[k]->id < id);
      if (n->op->kind == TD_KIND_RECV && n->frame)
        assert_int_equal(n->n_control, 1);
    }
    td_frames_free(&frames);
  }
}

/* ---- data ---------------------------------------------------------------- */

static void test_one_device(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  add(&w, "a", "PlanSource", "");
  OK(plan(&w, "", "a", &p));
  assert_int_equal(p->n_parts, 1);
  assert_int_equal(p->n_edges, 0);
  assert_ptr_equal(p->parts[0].device, w.devices[0]);
  td_plan_free(p);
  free_world(&w);
}

static void test_cut(void **state) {
  (void)state;
  world w = new_world("CC");
  add(&w, "a", "PlanSource", "");
  add(&w, "b", "PlanNeg", "a @c1");
  add(&w, "c", "PlanAdd", "a b @c1");
  add(&w, "d", "PlanNeg", "c");
  assert_plan(&w, "", "d",
              "CPU:0\n"
              "a=PlanSource()\n"
              "_send_0=_Send(a:0)\n"
              "_recv_1=_Recv()\n"
              "d=PlanNeg(_recv_1:0)\n"
              "_retval_d_0_0=_Retval(d:0)\n"
              "CPU:1\n"
              "_recv_0=_Recv()\n"
              "b=PlanNeg(_recv_0:0)\n"
              "c=PlanAdd(_recv_0:0,b:0)\n"
              "_send_1=_Send(c:0)\n");
  free_world(&w);
}

static void test_attributes(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  add(&w, "a", "PlanSource", "");
  add(&w, "b", "PlanNeg", "a @c1");
  OK(plan(&w, "", "b", &p));
  assert_string_equal(p->edge_names[0], "edge_0_a");
  for (int i = 0; i < 2; i++) {
    const td_node *n = i ? node(part(p, "CPU", 1), "_recv_0")
                         : node(part(p, "CPU", 0), "_send_0");
    assert_string_equal(td_node_string(n, "tensor_name"), "edge_0_a");
    assert_string_equal(td_node_string(n, "send_device"), w.devices[0]->name);
    assert_string_equal(td_node_string(n, "recv_device"), w.devices[1]->name);
    assert_int_equal(td_node_int(n, "send_device_incarnation"),
                     (int64_t)w.devices[0]->incarnation);
    assert_false(td_node_bool(n, "client_terminated"));
    assert_int_equal(td_node_int(n, "_edge"), 0);
  }
  assert_int_equal(node(part(p, "CPU", 1), "_recv_0")->out[0].shape.rank, 0);
  td_plan_free(p);
  free_world(&w);
}

static void test_control_edge(void **state) {
  (void)state;
  world w = new_world("CC");
  add(&w, "a", "PlanSource", "");
  add(&w, "b", "PlanSource", "^a @c1");
  add(&w, "c", "PlanSource", "^a ^b @c1");
  assert_plan(&w, "", "^c",
              "CPU:0\n"
              "a=PlanSource()\n"
              "_signal_0=Const()^a\n"
              "_send_0=_Send(_signal_0:0)\n"
              "CPU:1\n"
              "_recv_0=_Recv()\n"
              "_after_0=Identity(_recv_0:0)\n"
              "b=PlanSource()^_after_0\n"
              "c=PlanSource()^_after_0^b\n");
  free_world(&w);
}

static void test_feed_for_two(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  add_placeholder(&w, "x", td_shape_scalar());
  add(&w, "a", "PlanNeg", "x @c1");
  OK(plan(&w, "x", "a", &p)); /* goes straight to its only device */
  assert_int_equal(p->n_parts, 1);
  td_plan_free(p);
  add(&w, "b", "PlanNeg", "x");
  OK(plan(&w, "x", "a b", &p));
  assert_int_equal(p->n_parts, 2);
  assert_int_equal(p->n_edges, 1);
  check_links(p);
  td_plan_free(p);
  free_world(&w);
}

static void test_memory(void **state) {
  (void)state;
  world w = new_world("CT");
  add_placeholder(&w, "x", td_shape_scalar());
  add(&w, "a", "PlanNeg", "x @t");
  add(&w, "b", "PlanHost", "a @t");
  add(&w, "c", "PlanHost", "a @t");
  /* _Arg and _Retval, and what PlanHost takes, are in host memory. */
  assert_plan(&w, "x", "c b",
              "_arg_x_0=_Arg()\n"
              "_send_0=_HostSend(_arg_x_0:0)\n"
              "_recv_0=_Recv()^_send_0\n"
              "a=PlanNeg(_recv_0:0)\n"
              "_send_1=_Send(a:0)\n"
              "_recv_1=_HostRecv()^_send_1\n"
              "b=PlanHost(_recv_1:0)\n"
              "c=PlanHost(_recv_1:0)\n"
              "_send_2=_Send(c:0)\n"
              "_recv_2=_HostRecv()^_send_2\n"
              "_retval_c_0_0=_Retval(_recv_2:0)\n"
              "_send_3=_Send(b:0)\n"
              "_recv_3=_HostRecv()^_send_3\n"
              "_retval_b_0_1=_Retval(_recv_3:0)\n");
  free_world(&w);
}

/* ---- control flow -------------------------------------------------------- */

static void test_branches(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  add_placeholder(&w, "x", td_shape_scalar());
  add(&w, "pred", "PlanLess", "x x");
  add(&w, "switch", "Switch", "x pred");
  add(&w, "no", "PlanNeg", "switch:0 @c1");
  add(&w, "yes", "PlanNeg", "switch:1");
  attr(&w, "N", td_attr_int(2));
  add(&w, "merge", "Merge", "no yes @c0");
  add(&w, "after", "PlanNeg", "merge @c1");
  OK(plan(&w, "x", "after", &p));
  check_links(p);
  check_parts(p);
  const td_graph *g = part(p, "CPU", 1);
  const td_node *dead = node(g, "no")->in[0].node;
  const td_node *live = node(g, "after")->in[0].node;
  assert_true(td_node_bool(dead, "_may_die"));
  assert_true(node(g, "no")->may_die);
  assert_false(td_node_bool(live, "_may_die"));
  assert_false(node(g, "after")->may_die);
  td_plan_free(p);
  free_world(&w);
}

/* The dead source of a control edge makes what waits for it dead. */
static void test_dead_control(void **state) {
  (void)state;
  world w = new_world("CC");
  td_plan *p;
  add_placeholder(&w, "x", td_shape_scalar());
  add(&w, "pred", "PlanLess", "x x");
  add(&w, "switch", "Switch", "x pred");
  add(&w, "pivot", "Identity", "switch:1");
  add(&w, "far", "PlanSource", "^pivot @c1");
  OK(plan(&w, "x", "^far", &p));
  check_links(p);
  check_parts(p);
  assert_true(node(part(p, "CPU", 1), "far")->may_die);
  td_plan_free(p);
  free_world(&w);
}

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
  OK(td_graph_back_edge(edge(w, name).node, 1, (td_edge){n, 0}));
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
        have += n->op->kind == TD_KIND_ENTER && n->name[0] == '_';
        if (n->op->kind == TD_KIND_ENTER)
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
  assert_int_equal(enter->in[0].node->op->kind, TD_KIND_MERGE);
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
  OK(td_graph_back_edge(a, 1, (td_edge){next, 0}));
  OK(td_graph_back_edge(b, 1, (td_edge){next, 0}));
  add(&w, "xa", "Exit", "sa @c0");
  add(&w, "xb", "Exit", "sb @c0");
  OK(plan(&w, "x", "xa xb", &p));
  check_links(p);
  check_parts(p);
  for (int i = 0; i < 2; i++) {
    const td_node *m = node(part(p, "CPU", i), i ? "b" : "a");
    assert_int_equal(m->in[0].node->op->kind, TD_KIND_ENTER);
    assert_int_equal(m->in[1].node->op->kind, TD_KIND_NEXT);
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
    assert_null(strstr(p->edge_names[e], "constant"));
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
  OK(td_graph_back_edge(m, 1, (td_edge){next, 0}));
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
      cmocka_unit_test(test_one_device),
      cmocka_unit_test(test_cut),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_control_edge),
      cmocka_unit_test(test_feed_for_two),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_branches),
      cmocka_unit_test(test_dead_control),
      cmocka_unit_test(test_loops),
      cmocka_unit_test(test_nested),
      cmocka_unit_test(test_shared_enter),
      cmocka_unit_test(test_constant_enter),
      cmocka_unit_test(test_condition_of_constants),
      cmocka_unit_test(test_mortal_variable),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
