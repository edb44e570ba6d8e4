/* executor.c - both loops, by hand-built parts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"

#include <stdlib.h>
#include <sys/resource.h>

/* Every case runs on one thread here, one of the pool, two, and again. */
static void each_way(rig *r, td_program *p, void (*check)(rig *r)) {
  for (int i = 0; i < 24; i++) {
    rig_run(r, p, 1 + i % 2, i % 4 < 2);
    check(r);
  }
}

static double ret_f(rig *r, int i) {
  if (r->status) fail_msg("%s", td_status_message(r->status));
  assert_true(td_tensor_valid(&r->rets[i]));
  return td_tensor_get_f(&r->rets[i], 0);
}

/* ---- straight graphs ---- */

static void sum_is_seven(rig *r) {
  assert_true(ret_f(r, 0) == 7.0);
}

static void test_sum(void **state) {
  (void)state;
  rig r;
  rig_init(&r);
  td_edge a = make_const(&r, TD_FLOAT32, 3, NULL);
  td_edge b = make_const(&r, TD_FLOAT32, 4, NULL);
  make_ret(&r, NODE(&r, "AddV2", NULL, a, b), 0);
  td_program *p = rig_compile(&r);
  each_way(&r, p, sum_is_seven);
  td_program_free(p);
  rig_deinit(&r);
}

static void fan_is_right(rig *r) {
  assert_true(ret_f(r, 0) == 2000.0);
}

/* One value with a thousand readers, gathered again. */
static void test_fan(void **state) {
  (void)state;
  rig r;
  rig_init(&r);
  td_edge a = make_const(&r, TD_FLOAT64, 1, NULL), in[1000];
  for (int i = 0; i < 1000; i++) in[i] = NODE(&r, "AddV2", NULL, a, a);
  make_ret(&r, make_list(&r, "AddN", in, 1000), 0);
  td_program *p = rig_compile(&r);
  each_way(&r, p, fan_is_right);
  td_program_free(p);
  rig_deinit(&r);
}

/* ---- dead values ---- */

static bool want_true;

static void branch_taken(rig *r) {
  assert_true(ret_f(r, 0) == (want_true ? 6.0 : 5.0));
  assert_true(td_tensor_get_i(&r->rets[1], 0) == (want_true ? 1 : 0));
  assert_true(r->dead[2] == want_true);
}

static void run_branch(bool taken) {
  rig r;
  rig_init(&r);
  want_true = taken;
  td_edge x = make_const(&r, TD_FLOAT32, 5, NULL);
  td_edge pred = make_const(&r, TD_BOOL, taken, NULL);
  td_edge sw = NODE(&r, "Switch", NULL, x, pred);
  td_edge no = NODE(&r, "Identity", NULL, port(sw, 0));
  td_edge yes = NODE(&r, "Identity", NULL, port(sw, 1));
  td_edge one = make_const(&r, TD_FLOAT32, 1, yes.node);
  td_edge more = NODE(&r, "AddV2", NULL, yes, one);
  td_edge merge = make_list(&r, "Merge", (td_edge[]){no, more}, 2);
  make_ret(&r, merge, 0);
  make_ret(&r, port(merge, 1), 1);
  make_ret(&r, no, 2);
  td_program *p = rig_compile(&r);
  each_way(&r, p, branch_taken);
  td_program_free(p);
  rig_deinit(&r);
}

static void test_cond(void **state) {
  (void)state;
  run_branch(true);
  run_branch(false);
}

/* ---- loops ---- */

typedef struct loop {
  td_edge enter, merge, sw, body, exit;
} loop;

/* while i < n: i = i + 1, with `parallel` iterations in flight. */
static loop make_count(rig *r, td_edge start, td_edge limit, const char *frame,
                       int parallel) {
  loop l;
  l.enter = make_enter(r, start, frame, false, parallel);
  td_edge n = make_enter(r, limit, frame, true, parallel);
  l.merge = make_loop_merge(r, l.enter);
  td_edge less = NODE(r, "Less", NULL, l.merge, n);
  td_edge cond = NODE(r, "LoopCond", NULL, less);
  l.sw = NODE(r, "Switch", NULL, l.merge, cond);
  l.exit = NODE(r, "Exit", NULL, port(l.sw, 0));
  l.body = NODE(r, "Identity", NULL, port(l.sw, 1));
  td_edge one = make_const(r, td_edge_dtype(start), 1, l.body.node);
  td_edge next = NODE(r, "AddV2", NULL, l.body, one);
  td_edge back = NODE(r, "NextIteration", NULL, next);
  OK(td_node_set_back_edge(l.merge.node, 1, back));
  return l;
}

static double want;
static void counted(rig *r) {
  assert_true(ret_f(r, 0) == want);
}

static void count_to(double n, int parallel) {
  rig r;
  rig_init(&r);
  want = n < 0 ? 0 : n;
  td_edge zero = make_const(&r, TD_FLOAT64, 0, NULL);
  td_edge limit = make_const(&r, TD_FLOAT64, n, NULL);
  make_ret(&r, make_count(&r, zero, limit, "count", parallel).exit, 0);
  td_program *p = rig_compile(&r);
  each_way(&r, p, counted);
  td_program_free(p);
  rig_deinit(&r);
}

static void test_while(void **state) {
  (void)state;
  count_to(10, 10);
  count_to(10, 1);
  count_to(1000, 2);
  count_to(1000, 32);
  count_to(-1, 10); /* not a single iteration */
}

static void loop_is_dead(rig *r) {
  if (r->status) fail_msg("%s", td_status_message(r->status));
  assert_true(r->dead[0]);
  assert_true(ret_f(r, 1) == 0.0);
}

/* A loop inside a branch that is not taken ends without running. */
static void test_dead_loop(void **state) {
  (void)state;
  rig r;
  rig_init(&r);
  td_edge zero = make_const(&r, TD_FLOAT64, 0, NULL);
  td_edge limit = make_const(&r, TD_FLOAT64, 10, NULL);
  td_edge pred = make_const(&r, TD_BOOL, 0, NULL);
  td_edge sw = NODE(&r, "Switch", NULL, zero, pred);
  td_edge start = NODE(&r, "Identity", NULL, port(sw, 1));
  loop l = make_count(&r, start, limit, "dead", 10);
  td_edge merge = make_list(&r, "Merge", (td_edge[]){port(sw, 0), l.exit}, 2);
  make_ret(&r, l.exit, 0);
  make_ret(&r, merge, 1);
  td_program *p = rig_compile(&r);
  each_way(&r, p, loop_is_dead);
  td_program_free(p);
  rig_deinit(&r);
}

/* Outer loop of 5, each with an inner loop that adds 7: 35. */
static void test_nested(void **state) {
  (void)state;
  for (int parallel = 1; parallel <= 10; parallel += 3) {
    rig r;
    rig_init(&r);
    want = 35;
    td_edge zero = make_const(&r, TD_FLOAT64, 0, NULL);
    td_edge total = make_const(&r, TD_FLOAT64, 35, NULL);
    td_edge seven = make_const(&r, TD_FLOAT64, 7, NULL);
    td_edge enter = make_enter(&r, zero, "outer", false, parallel);
    td_edge n = make_enter(&r, total, "outer", true, parallel);
    td_edge step = make_enter(&r, seven, "outer", true, parallel);
    td_edge merge = make_loop_merge(&r, enter);
    td_edge less = NODE(&r, "Less", NULL, merge, n);
    td_edge cond = NODE(&r, "LoopCond", NULL, less);
    td_edge sw = NODE(&r, "Switch", NULL, merge, cond);
    td_edge body = NODE(&r, "Identity", NULL, port(sw, 1));
    td_edge until = NODE(&r, "AddV2", NULL, body, step);
    loop inner = make_count(&r, body, until, "inner", parallel);
    td_edge back = NODE(&r, "NextIteration", NULL, inner.exit);
    OK(td_node_set_back_edge(merge.node, 1, back));
    make_ret(&r, NODE(&r, "Exit", NULL, port(sw, 0)), 0);
    td_program *p = rig_compile(&r);
    each_way(&r, p, counted);
    td_program_free(p);
    rig_deinit(&r);
  }
}

/* Many iterations need no more memory than few. */
static void test_long_loop(void **state) {
  (void)state;
  rig r;
  rig_init(&r);
  int64_t n = rounds(1000000, 10000000);
  want = (double)n;
  td_edge zero = make_const(&r, TD_FLOAT64, 0, NULL);
  td_edge limit = make_const(&r, TD_FLOAT64, (double)n, NULL);
  make_ret(&r, make_count(&r, zero, limit, "long", 10).exit, 0);
  td_program *p = rig_compile(&r);
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  rig_run(&r, p, 1, false);
  counted(&r);
  getrusage(RUSAGE_SELF, &after);
  assert_true(after.ru_maxrss - before.ru_maxrss < 32768); /* KiB */
  td_program_free(p);
  rig_deinit(&r);
}

/* ---- failures ---- */

static void failed_at_node(rig *r) {
  assert_non_null(r->status);
  assert_int_equal(td_status_code(r->status), TD_INVALID_ARGUMENT);
  assert_string_equal(td_status_op(r->status), "CheckNumerics");
  assert_false(td_tensor_valid(&r->rets[1]));
}

static void test_failure(void **state) {
  (void)state;
  rig r;
  rig_init(&r);
  td_edge zero = make_const(&r, TD_FLOAT32, 0, NULL);
  td_edge nan = NODE(&r, "RealDiv", NULL, zero, zero);
  td_build b;
  td_node *check;
  td_build_init(&b, r.graph, "CheckNumerics", "check");
  td_build_in(&b, nan);
  td_build_attr(&b, "message", td_attr_string("here"));
  OK(td_build_node(&b, &check));
  td_edge bad = {check, 0};
  for (int i = 0; i < 50; i++) bad = NODE(&r, "AddV2", NULL, bad, zero);
  make_ret(&r, bad, 1);
  td_program *p = rig_compile(&r);
  each_way(&r, p, failed_at_node);
  td_program_free(p);
  rig_deinit(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sum),       cmocka_unit_test(test_fan),
      cmocka_unit_test(test_cond),      cmocka_unit_test(test_while),
      cmocka_unit_test(test_dead_loop), cmocka_unit_test(test_nested),
      cmocka_unit_test(test_long_loop), cmocka_unit_test(test_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
