/* faults.c - no memory at the n-th allocation, everywhere from a node to a
 * step.
 *
 * Each case runs until it succeeds with the n-th allocation failing once, then
 * for ever: only out-of-memory errors, nothing leaked (under AddressSanitizer),
 * and afterwards all works. TIDE_SOAK tries every n, else every 7th.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"

#include <stdlib.h>

#include "engine/graph/build.h"
#include "engine/graph/node_edit.h"
#include "engine/run/session.h"

/* A loop of three iterations with a branch's worth of ops in it, and state. */
static td_status *try_node(rig *r, const char *op, const td_edge *in, int n,
                           td_node *after, td_edge *out) {
  td_build b;
  td_build_init(&b, r->graph, op, NULL);
  td_build_flat(&b, in, n);
  if (after) td_build_control(&b, after);
  out->port = 0;
  return td_build_node(&b, &out->node);
}

static td_status *try_const(rig *r, double v, td_node *after, td_edge *out) {
  td_tensor t;
  td_build b;
  TD_TRY(td_tensor_scalar_f(TD_FLOAT64, v, &t));
  td_build_init(&b, r->graph, "Const", NULL);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  td_build_attr(&b, "value", td_attr_tensor(&t));
  if (after) td_build_control(&b, after);
  out->port = 0;
  td_status *s = td_build_node(&b, &out->node);
  td_tensor_release(&t);
  return s;
}

static td_status *try_enter(rig *r, td_edge in, bool constant, td_edge *out) {
  td_build b;
  td_build_init(&b, r->graph, "Enter", NULL);
  td_build_in(&b, in);
  td_build_attr(&b, "frame_name", td_attr_string("loop"));
  td_build_attr(&b, "is_constant", td_attr_bool(constant));
  out->port = 0;
  return td_build_node(&b, &out->node);
}

static td_status *try_loop(rig *r, td_edge x, td_edge *out) {
  td_edge limit, n, enter, merge, less, cond, sw, body, one, next, back;
  td_build b;
  TD_TRY(try_const(r, 3, NULL, &limit));
  TD_TRY(try_enter(r, limit, true, &n));
  TD_TRY(try_enter(r, x, false, &enter));
  td_build_init(&b, r->graph, "Merge", NULL);
  td_build_flat(&b, (td_edge[]){enter, {NULL, 0}}, 2);
  td_build_attr(&b, "T", td_attr_type(TD_FLOAT64));
  td_build_attr(&b, "N", td_attr_int(2));
  merge.port = 0;
  TD_TRY(td_build_node(&b, &merge.node));
  TD_TRY(try_node(r, "Less", (td_edge[]){merge, n}, 2, NULL, &less));
  TD_TRY(try_node(r, "LoopCond", &less, 1, NULL, &cond));
  TD_TRY(try_node(r, "Switch", (td_edge[]){merge, cond}, 2, NULL, &sw));
  td_edge yes = port(sw, 1), no = port(sw, 0);
  TD_TRY(try_node(r, "Identity", &yes, 1, NULL, &body));
  TD_TRY(try_const(r, 1, body.node, &one));
  TD_TRY(try_node(r, "AddV2", (td_edge[]){body, one}, 2, NULL, &next));
  TD_TRY(try_node(r, "NextIteration", &next, 1, NULL, &back));
  TD_TRY(td_node_set_back_edge(merge.node, 1, back));
  return try_node(r, "Exit", &no, 1, NULL, out);
}

static td_status *try_all(int cpus) {
  rig r;
  memset(&r, 0, sizeof r);
  td_session *s = NULL;
  td_tensor out = {0};
  td_edge x, y, z;
  td_session_options o = {.cpu_devices = cpus, .threads = 1};
  td_status *st = td_runtime_new(NULL, &r.runtime);
  if (td_ok(st)) st = td_graph_new(&r.graph);
  if (td_ok(st)) st = try_const(&r, 0, NULL, &x);
  if (td_ok(st)) st = try_loop(&r, x, &y);
  if (td_ok(st) && cpus == 2)
    st = td_node_set_device(td_graph_find(r.graph, "AddV2"), "/device:CPU:1");
  if (td_ok(st)) st = try_node(&r, "Mul", (td_edge[]){y, y}, 2, NULL, &z);
  if (td_ok(st)) st = td_session_new(r.runtime, r.graph, &o, &s);
  if (td_ok(st)) {
    td_signature sig = {.fetches = &z, .n_fetches = 1};
    st = td_session_run(s, &sig, NULL, &out, NULL);
  }
  if (td_ok(st)) assert_true(td_tensor_get_f(&out, 0) == 9);
  td_tensor_release(&out);
  td_session_release(s);
  td_graph_release(r.graph);
  td_runtime_release(r.runtime);
  return st;
}

static void fail_each(int cpus, bool for_ever) {
  int every = soaked() ? 1 : 7, n = 1;
  td_status *warm = try_all(cpus); /* what is made once per process */
  assert_null(warm);
  for (;; n += every) {
    int64_t before = td_mem_calls();
    td_mem_fail(n, for_ever);
    td_status *s = try_all(cpus);
    td_mem_fail(0, false);
    bool reached = td_mem_calls() - before >= n;
    if (s && td_status_code(s) != TD_RESOURCE_EXHAUSTED)
      fail_msg("n = %d: %s", n, td_status_message(s));
    td_status_release(s);
    if (!reached) break;
  }
  print_message("%d devices: N = %d allocations, in steps of %d failed %s\n",
                cpus, n, every, for_ever ? "and all after it" : "once");
}

static void test_once(void **state) {
  (void)state;
  fail_each(1, false);
  fail_each(2, false);
}

static void test_for_ever(void **state) {
  (void)state;
  fail_each(1, true);
  fail_each(2, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_once),
      cmocka_unit_test(test_for_ever),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
