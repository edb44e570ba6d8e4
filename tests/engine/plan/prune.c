/* prune.c - tests of engine/plan/prune.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "world.h"
#include "engine/graph/node_edit.h"

/* x -> sub -> loss, beside something nobody asks for. */
static world chain(void) {
  world w = new_world("C");
  w.origin = "train.lua:1";
  add_placeholder(&w, "x", td_shape_matrix(-1, 784));
  w.origin = "train.lua:2";
  add(&w, "sub", "PlanNeg", "x");
  add(&w, "loss", "PlanNeg", "sub");
  add(&w, "other", "PlanNeg", "x");
  return w;
}

static void test_keeps_what_is_needed(void **state) {
  (void)state;
  world w = chain();
  td_plan *p;
  assert_plan(&w, "x", "loss",
              "_arg_x_0=_Arg()\n"
              "sub=PlanNeg(_arg_x_0:0)\n"
              "loss=PlanNeg(sub:0)\n"
              "_retval_loss_0_0=_Retval(loss:0)\n");
  OK(plan(&w, "x", "loss", &p));
  assert_int_equal(p->pruned, 2);
  assert_int_equal(p->n_edges, 0);
  td_plan_free(p);
  free_world(&w);
}

/* Feeds and what comes out of them. */
static const struct {
  const char *feeds, *fetches, *want;
} feeding[] = {
    {"sub", "loss",
     "_arg_sub_0=_Arg()\n"
     "loss=PlanNeg(_arg_sub_0:0)\n"
     "_retval_loss_0_0=_Retval(loss:0)\n"},
    /* A fed edge fetched is the feed itself. */
    {"sub", "sub",
     "_arg_sub_0=_Arg()\n"
     "_retval_sub_0_0=_Retval(_arg_sub_0:0)\n"},
    /* One nobody needs. */
    {"x sub", "loss",
     "_arg_sub_0=_Arg()\n"
     "loss=PlanNeg(_arg_sub_0:0)\n"
     "_retval_loss_0_0=_Retval(loss:0)\n"},
    /* The same fetch twice. */
    {"loss", "loss loss",
     "_arg_loss_0=_Arg()\n"
     "_retval_loss_0_0=_Retval(_arg_loss_0:0)\n"
     "_retval_loss_0_1=_Retval(_arg_loss_0:0)\n"},
    {"x", "^sub",
     "_arg_x_0=_Arg()\n"
     "sub=PlanNeg(_arg_x_0:0)\n"},
    {"x", "", ""},
    /* A fed placeholder to be run has run. */
    {"x", "^x", ""},
};

static void test_feeds(void **state) {
  (void)state;
  world w = chain();
  for (size_t i = 0; i < TD_COUNT(feeding); i++)
    assert_plan(&w, feeding[i].feeds, feeding[i].fetches, feeding[i].want);
  free_world(&w);
}

static void test_missing_feed(void **state) {
  (void)state;
  world w = chain();
  td_plan *p;
  FAILS(plan(&w, "", "loss", &p), TD_INVALID_ARGUMENT,
        "fetch \"loss:0\" needs placeholder \"x\" (float32 {-1, 784}), which "
        "is not fed; path: loss (train.lua:2) <- sub (train.lua:2) <- x "
        "(train.lua:1)");
  assert_null(p);
  FAILS(plan(&w, "", "^loss", &p), TD_INVALID_ARGUMENT,
        "target \"loss\" needs placeholder \"x\"");
  FAILS(plan(&w, "x x", "loss", &p), TD_INVALID_ARGUMENT, "fed twice");
  free_world(&w);
}

static void test_long_path(void **state) {
  (void)state;
  world w = new_world("C");
  char name[2][16] = {"x", ""};
  td_plan *p;
  add_placeholder(&w, "x", td_shape_scalar());
  for (int i = 0; i < 100; i++) {
    snprintf(name[1], sizeof name[1], "n%d", i);
    add(&w, name[1], "PlanNeg", name[0]);
    strcpy(name[0], name[1]);
  }
  FAILS(plan(&w, "", "n99", &p), TD_INVALID_ARGUMENT,
        "path: n99 <- n98 <- n97 <- n96 <- n95 <- n94 <- ... 89 more <- n4 <- "
        "n3 <- n2 <- n1 <- n0 <- x");
  free_world(&w);
}

static void test_other_graph(void **state) {
  (void)state;
  world w = chain(), v = chain();
  td_plan *p;
  td_edge e = edge(&v, "loss"), beyond = {edge(&w, "loss").node, 1};
  td_plan_request r = {.graph = w.g,
                       .fetches = &e,
                       .n_fetches = 1,
                       .placer = placer_of(&w),
                       .devices = w.devices,
                       .n_devices = 1};
  FAILS(td_plan_new(&r, &p), TD_INVALID_ARGUMENT, "fetch 0 is of another");
  r.fetches = &beyond;
  FAILS(td_plan_new(&r, &p), TD_INVALID_ARGUMENT, "output 1 of \"loss\"");
  r.n_fetches = 0;
  r.feeds = &e;
  r.n_feeds = 1;
  FAILS(td_plan_new(&r, &p), TD_INVALID_ARGUMENT, "feed 0 is of another");
  r.n_feeds = 0;
  r.targets = &e.node;
  r.n_targets = 1;
  FAILS(td_plan_new(&r, &p), TD_INVALID_ARGUMENT, "target 0 is of another");
  free_world(&w);
  free_world(&v);
}

/* "After x" means after x was fed; after another fed node means its run. */
static void test_control_on_fed(void **state) {
  (void)state;
  world w = chain();
  add(&w, "later", "PlanSource", "^x ^sub");
  assert_plan(&w, "x sub", "later",
              "_arg_x_0=_Arg()\n"
              "sub=PlanNeg(_arg_x_0:0)\n"
              "later=PlanSource()^_arg_x_0^sub\n"
              "_retval_later_0_0=_Retval(later:0)\n");
  free_world(&w);
}

/* A control edge to a node that was added later. */
static void test_late_control(void **state) {
  (void)state;
  world w = new_world("C");
  td_node *a = add(&w, "a", "PlanSource", "");
  td_node *b = add(&w, "b", "PlanSource", "");
  OK(td_node_add_control(a, b));
  assert_plan(&w, "", "a",
              "b=PlanSource()\n"
              "a=PlanSource()^b\n"
              "_retval_a_0_0=_Retval(a:0)\n");
  free_world(&w);
}

static void add_loop(world *w) {
  add_const(w, "zero", TD_FLOAT32, 0, "");
  add_const(w, "ten", TD_FLOAT32, 10, "");
  add_enter(w, "enter", "loop", false, "zero");
  add_enter(w, "limit", "loop", true, "ten");
  attr(w, "N", td_attr_int(2));
  td_node *m = add(w, "merge", "Merge", "enter ?");
  add(w, "less", "PlanLess", "merge limit");
  add(w, "cond", "LoopCond", "less");
  add(w, "switch", "Switch", "merge cond");
  add(w, "body", "PlanNeg", "switch:1");
  td_node *n = add(w, "next", "NextIteration", "body");
  OK(td_node_set_back_edge(m, 1, (td_edge){n, 0}));
  add(w, "exit", "Exit", "switch");
}

static void test_loop_is_whole(void **state) {
  (void)state;
  world w = new_world("C");
  add_loop(&w);
  add(&w, "after", "PlanNeg", "exit");
  add(&w, "unused", "PlanNeg", "switch:1");
  assert_plan(&w, "", "after",
              "zero=Const()\n"
              "ten=Const()\n"
              "enter=Enter(zero:0)\n"
              "limit=Enter(ten:0)\n"
              "merge=Merge(enter:0,next:0)\n"
              "less=PlanLess(merge:0,limit:0)\n"
              "cond=LoopCond(less:0)\n"
              "switch=Switch(merge:0,cond:0)\n"
              "body=PlanNeg(switch:1)\n"
              "next=NextIteration(body:0)\n"
              "exit=Exit(switch:0)\n"
              "after=PlanNeg(exit:0)\n"
              "_retval_after_0_0=_Retval(after:0)\n");
  free_world(&w);
}

static void test_inside_a_loop(void **state) {
  (void)state;
  world w = new_world("C");
  td_plan *p;
  add_loop(&w);
  FAILS(plan(&w, "body", "exit", &p), TD_INVALID_ARGUMENT,
        "\"body:0\" is inside the loop \"loop\" and cannot be fed");
  FAILS(plan(&w, "enter", "exit", &p), TD_INVALID_ARGUMENT, "inside the loop");
  FAILS(plan(&w, "", "body", &p), TD_INVALID_ARGUMENT, "cannot be fetched");
  FAILS(plan(&w, "", "merge:1", &p), TD_INVALID_ARGUMENT, "cannot be fetched");
  OK(plan(&w, "exit", "exit", &p));
  td_plan_free(p);
  free_world(&w);
}

/* A loop half built stops only those who need it. */
static void test_half_built(void **state) {
  (void)state;
  world w = new_world("C");
  td_plan *p;
  add_const(&w, "zero", TD_FLOAT32, 0, "");
  add_enter(&w, "enter", "loop", false, "zero");
  attr(&w, "N", td_attr_int(2));
  add(&w, "merge", "Merge", "enter ?");
  add(&w, "inside", "PlanNeg", "merge");
  OK(plan(&w, "", "zero", &p));
  td_plan_free(p);
  FAILS(plan(&w, "", "^inside", &p), TD_INVALID_ARGUMENT,
        "input 1 of this Merge is missing");
  free_world(&w);
}

static void test_partial(void **state) {
  (void)state;
  world w = chain();
  td_plan *p;
  w.request.partial = true;
  assert_plan(&w, "sub x", "loss other loss",
              "_recv_0=_Recv()\n"
              "_recv_1=_Recv()\n"
              "loss=PlanNeg(_recv_0:0)\n"
              "other=PlanNeg(_recv_1:0)\n"
              "_send_2=_Send(loss:0)\n"
              "_send_3=_Send(other:0)\n"
              "_send_4=_Send(loss:0)\n");
  OK(plan(&w, "sub x", "loss other loss", &p));
  assert_int_equal(p->n_edges, 5);
  assert_string_equal(p->edges[1].name, "edge_1_x");
  const td_node *n = td_graph_find(p->parts[0].graph, "_recv_1");
  assert_true(td_node_bool(n, "client_terminated"));
  assert_int_equal(td_node_int(n, "_edge"), 1);
  assert_int_equal(n->out[0].shape.dim[1], 784);
  td_plan_free(p);
  free_world(&w);
}

static void test_no_memory(void **state) {
  (void)state;
  world w = chain();
  add_loop(&w);
  add(&w, "both", "PlanAdd", "exit loss @c0");
  starve(&w, "x", "both ^sub");
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_keeps_what_is_needed),
      cmocka_unit_test(test_feeds),
      cmocka_unit_test(test_missing_feed),
      cmocka_unit_test(test_long_path),
      cmocka_unit_test(test_other_graph),
      cmocka_unit_test(test_control_on_fed),
      cmocka_unit_test(test_late_control),
      cmocka_unit_test(test_loop_is_whole),
      cmocka_unit_test(test_inside_a_loop),
      cmocka_unit_test(test_half_built),
      cmocka_unit_test(test_partial),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
