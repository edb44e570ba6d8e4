/* partition.c - tests of engine/plan/partition.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"

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
  assert_string_equal(p->edges[0].name, "edge_0_a");
  for (int i = 0; i < 2; i++) {
    const td_node *n = i ? node(part(p, "CPU", 1), "_recv_0")
                         : node(part(p, "CPU", 0), "_send_0");
    assert_string_equal(td_node_string(n, "tensor_name"), "edge_0_a");
    assert_string_equal(td_node_string(n, "send_device"), w.devices[0]->name);
    assert_string_equal(td_node_string(n, "recv_device"), w.devices[1]->name);
    assert_int_equal(td_node_int(n, "send_device_incarnation"), 0);
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

/* Without the pass each edge has its own. */
static void test_recv_for_each(void **state) {
  (void)state;
  world w = new_world("CC");
  w.request.passes_off = ~0U;
  add(&w, "a", "PlanSource", "");
  add(&w, "b", "PlanNeg", "a @c1");
  add(&w, "c", "PlanAdd", "a b ^a @c1");
  assert_plan(&w, "", "^c",
              "CPU:0\n"
              "a=PlanSource()\n"
              "_send_0=_Send(a:0)\n"
              "_send_1=_Send(a:0)\n"
              "_signal_2=Const()^a\n"
              "_send_2=_Send(_signal_2:0)\n"
              "CPU:1\n"
              "_recv_0=_Recv()\n"
              "b=PlanNeg(_recv_0:0)\n"
              "_recv_1=_Recv()\n"
              "_recv_2=_Recv()\n"
              "_after_2=Identity(_recv_2:0)\n"
              "c=PlanAdd(_recv_1:0,b:0)^_after_2\n");
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_device),    cmocka_unit_test(test_cut),
      cmocka_unit_test(test_attributes),    cmocka_unit_test(test_control_edge),
      cmocka_unit_test(test_recv_for_each), cmocka_unit_test(test_feed_for_two),
      cmocka_unit_test(test_memory),        cmocka_unit_test(test_branches),
      cmocka_unit_test(test_dead_control),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
