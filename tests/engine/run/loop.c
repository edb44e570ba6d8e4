/* loop.c - loops of steps: how they end, what they keep, whose they are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/loop.h"

#include <sched.h>

#include "tests/engine/run/rig.h"
#include "tests/engine/run/wall.h"

/* v += 1 */
typedef struct world {
  rig r;
  td_session *s;
  td_edge v;
  td_node *add;
  td_callable *up, *log, *never;
} world;

static td_node *make_update(rig *r, const char *op, td_edge v, double by) {
  td_build b;
  td_node *n;
  td_build_init(&b, r->graph, op, NULL);
  td_build_in(&b, v);
  td_build_in(&b, make_const(r, TD_FLOAT64, by, NULL));
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  OK(td_build_node(&b, &n));
  return n;
}

static td_edge make_variable(rig *r) {
  td_build b;
  td_node *n;
  td_shape shape = td_shape_scalar();
  td_build_init(&b, r->graph, "VarHandleOp", "v");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  td_build_attr(&b, "shared_name", td_attr_string("v"));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

/* The value after `after`. */
static td_edge make_read(rig *r, td_edge v, td_node *after) {
  td_build b;
  td_node *n;
  td_build_init(&b, r->graph, "ReadVariableOp", NULL);
  td_build_in(&b, v);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  if (after) td_build_control(&b, after);
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static void world_init(world *w, int cpus) {
  rig *r = &w->r;
  rig_init(r);
  td_session_options o = {.threads = 2, .cpu_devices = cpus};
  OK(td_session_new(r->runtime, r->graph, &o, &w->s));
  w->v = make_variable(r);
  td_node *zero = make_update(r, "AssignVariableOp", w->v, 0);
  w->add = make_update(r, "AssignAddVariableOp", w->v, 1);
  td_edge now = make_read(r, w->v, w->add), endless = make_endless(r);
  td_edge twice = NODE(r, "AddV2", NULL, now, now);
  if (cpus == 2) OK(td_node_set_device(twice.node, "/device:CPU:1"));
  td_signature up = {.targets = &w->add, .n_targets = 1};
  td_signature log = {.fetches = (td_edge[]){now, twice},
                      .n_fetches = 2,
                      .targets = &w->add,
                      .n_targets = 1};
  td_signature never = {.fetches = &endless, .n_fetches = 1};
  td_signature init = {.targets = &zero, .n_targets = 1};
  OK(td_callable_new(w->s, &up, &w->up));
  OK(td_callable_new(w->s, &log, &w->log));
  OK(td_callable_new(w->s, &never, &w->never));
  OK(td_session_run(w->s, &init, NULL, NULL, NULL));
}

static void world_deinit(world *w) {
  td_callable_release(w->up);
  td_callable_release(w->log);
  td_callable_release(w->never);
  td_session_release(w->s);
  rig_deinit(&w->r);
}

static double value_of(world *w) {
  td_edge read = make_read(&w->r, w->v, NULL);
  td_tensor out;
  td_signature sig = {.fetches = &read, .n_fetches = 1};
  OK(td_session_run(w->s, &sig, NULL, &out, NULL));
  double v = td_tensor_get_f(&out, 0);
  td_tensor_release(&out);
  return v;
}

static void test_counted(void **state) {
  (void)state;
  for (int cpus = 1; cpus <= 2; cpus++)
    for (int threads = 1; threads <= 8; threads *= 2) {
      world w;
      td_loop *l;
      world_init(&w, cpus);
      td_loop_options o = {.threads = threads, .steps = rounds(2000, 20000)};
      OK(td_loop_start(cpus == 2 ? w.log : w.up, &o, &l));
      OK(td_loop_wait(l, -1, NULL));
      assert_true(td_loop_over(l));
      assert_int_equal(td_loop_steps(l), o.steps);
      assert_true(value_of(&w) == (double)o.steps);
      td_loop_release(l);
      world_deinit(&w);
    }
}

static void test_nothing_to_do(void **state) {
  (void)state;
  world w;
  td_loop *l;
  world_init(&w, 1);
  OK(td_loop_start(w.up, &(td_loop_options){.threads = 3}, &l));
  OK(td_loop_wait(l, -1, NULL));
  assert_int_equal(td_loop_steps(l), 0);
  td_loop_release(l);
  FAILS(td_loop_start(w.up, &(td_loop_options){.threads = 257}, &l),
        TD_INVALID_ARGUMENT, "1 to 256 threads");
  world_deinit(&w);
}

/* Every fifth step, by number; two chains may end theirs in any order. */
static void test_log(void **state) {
  (void)state;
  world w;
  td_loop *l;
  int64_t steps[8];
  td_tensor values[8];
  world_init(&w, 1);
  td_loop_options o = {
      .threads = 2, .steps = 42, .log = w.log, .n_log = 1, .every = 5};
  OK(td_loop_start(w.up, &o, &l));
  OK(td_loop_wait(l, -1, NULL));
  assert_int_equal(td_loop_log(l, steps, values, 8), 8);
  for (int i = 0; i < 8; i++) {
    assert_int_equal(steps[i], 5 * (i + 1));
    assert_true(td_tensor_get_f(&values[i], 0) >= 1);
    td_tensor_release(&values[i]);
  }
  assert_true(value_of(&w) == 42);
  td_loop_release(l);
  world_deinit(&w);
}

/* Of a long log the oldest is gone. */
static void test_long_log(void **state) {
  (void)state;
  enum { STEPS = 10005 };
  world w;
  td_loop *l;
  world_init(&w, 1);
  td_loop_options o = {.steps = STEPS, .log = w.log, .n_log = 2};
  OK(td_loop_start(w.up, &o, &l));
  OK(td_loop_wait(l, -1, NULL));
  int64_t step;
  td_tensor value[2];
  assert_int_equal(td_loop_log(l, &step, value, 1), 10000);
  assert_int_equal(step, STEPS - 10000 + 1);
  assert_true(td_tensor_get_f(&value[0], 0) == (double)step);
  assert_true(td_tensor_get_f(&value[1], 0) == 2 * (double)step);
  td_tensor_release(&value[0]);
  td_tensor_release(&value[1]);
  td_loop_release(l);
  world_deinit(&w);
}

/* And of one with large values: 64 MiB are kept, the last step in any case. */
static void test_large_log(void **state) {
  (void)state;
  static const int sizes[][2] = {{8 << 20, 8}, {80 << 20, 1}}; /* and kept */
  for (int i = 0; i < 2; i++) {
    world w;
    td_loop *l;
    td_callable *log;
    int64_t step;
    td_tensor value;
    world_init(&w, 1);
    td_edge dims = make_const(&w.r, TD_INT32, sizes[i][0], NULL);
    td_edge vector = NODE(&w.r, "ExpandDims", NULL, dims,
                          make_const(&w.r, TD_INT32, 0, NULL));
    td_edge big =
        NODE(&w.r, "Fill", NULL, vector, make_const(&w.r, TD_UINT8, 1, NULL));
    td_signature sig = {.fetches = &big, .n_fetches = 1};
    OK(td_callable_new(w.s, &sig, &log));
    td_loop_options o = {.steps = 12, .log = log, .n_log = 1};
    OK(td_loop_start(w.up, &o, &l));
    OK(td_loop_wait(l, -1, NULL));
    assert_int_equal(td_loop_log(l, &step, &value, 1), sizes[i][1]);
    assert_int_equal(step, 12 - sizes[i][1] + 1);
    td_tensor_release(&value);
    td_loop_release(l);
    td_callable_release(log);
    world_deinit(&w);
  }
}

static td_callable *callable_of(world *w, const char *op, td_edge in) {
  td_callable *c;
  td_edge out = NODE(&w->r, op, NULL, in);
  td_signature sig = {.targets = &out.node, .n_targets = 1};
  OK(td_callable_new(w->s, &sig, &c));
  return c;
}

/* Reads a variable without a value. */
static td_callable *failing(world *w) {
  td_build b;
  td_node *n;
  td_build_init(&b, w->r.graph, "VarHandleOp", "nowhere");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  td_shape shape = td_shape_scalar();
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  td_build_attr(&b, "shared_name", td_attr_string("nowhere"));
  OK(td_build_node(&b, &n));
  return callable_of(w, "Neg", make_read(&w->r, (td_edge){n, 0}, NULL));
}

/* An error ends every chain, and is what wait returns. */
static void test_error(void **state) {
  (void)state;
  world w;
  td_loop *l;
  world_init(&w, 1);
  td_callable *c = failing(&w);
  OK(td_loop_start(c, &(td_loop_options){.threads = 4, .steps = -1}, &l));
  FAILS(td_loop_wait(l, -1, NULL), TD_FAILED_PRECONDITION, "nowhere");
  assert_int_equal(td_loop_steps(l), 0);
  td_loop_release(l);
  td_callable_release(c);
  world_deinit(&w);
}

/* ---- the last step ---- */

static td_edge make_placeholder(rig *r, td_dtype t) {
  td_build b;
  td_node *n;
  td_shape scalar = td_shape_scalar();
  td_build_init(&b, r->graph, "Placeholder", NULL);
  td_build_attr(&b, "dtype", td_attr_type(t));
  td_build_attr(&b, "shape", td_attr_shape(&scalar));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static td_callable *callable_run(world *w, td_node *n, const td_edge *feeds,
                                 int n_feeds) {
  td_callable *c;
  td_signature sig = {
      .feeds = feeds, .n_feeds = n_feeds, .targets = &n, .n_targets = 1};
  OK(td_callable_new(w->s, &sig, &c));
  return c;
}

/* A queue that nothing is put into; to take from it, to end it, to let it fail.
 */
typedef struct empty {
  td_callable *take, *close, *fail;
} empty;

static void empty_init(empty *q, world *w) {
  static const td_dtype types[] = {TD_FLOAT64};
  rig *r = &w->r;
  td_build b;
  td_node *n;
  td_build_init(&b, r->graph, "FIFOQueueV2", "q");
  td_build_attr(&b, "component_types", td_attr_types(types, 1));
  OK(td_build_node(&b, &n));
  td_edge queue = {n, 0};
  td_build_init(&b, r->graph, "QueueDequeueV2", "take");
  td_build_in(&b, queue);
  td_build_attr(&b, "component_types", td_attr_types(types, 1));
  OK(td_build_node(&b, &n));
  q->take = callable_run(w, n, NULL, 0);
  q->close =
      callable_run(w, NODE(r, "QueueCloseV2", NULL, queue).node, NULL, 0);
  td_edge feeds[2] = {make_placeholder(r, TD_INT32),
                      make_placeholder(r, TD_STRING)};
  n = NODE(r, "QueueFail", NULL, queue, feeds[0], feeds[1]).node;
  q->fail = callable_run(w, n, feeds, 2);
}

static void empty_deinit(empty *q) {
  td_callable_release(q->take);
  td_callable_release(q->close);
  td_callable_release(q->fail);
}

static td_status *take(const empty *q) {
  return td_callable_run(q->take, NULL, NULL, NULL);
}

/* Once, when the last chain has ended, of whichever step. */
static void test_at_end(void **state) {
  (void)state;
  for (int cpus = 1; cpus <= 2; cpus++)
    for (int threads = 1; threads <= 4; threads++) {
      world w;
      td_loop *l;
      world_init(&w, cpus);
      td_node *much = make_update(&w.r, "AssignAddVariableOp", w.v, 1000);
      td_callable *end = callable_run(&w, much, NULL, 0);
      td_loop_options o = {.threads = threads,
                           .steps = 100,
                           .more = (td_callable *const[]){w.log},
                           .n_more = 1,
                           .at_end = end};
      OK(td_loop_start(w.up, &o, &l));
      OK(td_loop_wait(l, -1, NULL));
      assert_int_equal(td_loop_steps(l), 100);
      assert_int_equal(td_loop_failed(l), 0);
      assert_true(value_of(&w) == 1100);
      td_loop_release(l);
      td_callable_release(end);
      world_deinit(&w);
    }
}

/* Who takes what the loop was to put is told; at_end is not run. */
static void test_at_error(void **state) {
  (void)state;
  for (int threads = 1; threads <= 4; threads++) {
    world w;
    empty q;
    td_loop *l;
    world_init(&w, 1);
    empty_init(&q, &w);
    td_callable *bad = failing(&w);
    td_loop_options o = {
        .threads = threads, .steps = -1, .at_end = q.close, .at_error = q.fail};
    OK(td_loop_start(bad, &o, &l));
    FAILS(take(&q), TD_FAILED_PRECONDITION, "nowhere");
    FAILS(td_loop_wait(l, -1, NULL), TD_FAILED_PRECONDITION, "nowhere");
    assert_true(td_loop_failed(l) > 0);
    td_loop_release(l);
    td_callable_release(bad);
    empty_deinit(&q);
    world_deinit(&w);
  }
}

/* A loop that takes from a queue ends well when it is closed, by whoever; one
 * that is cancelled says so. */
static void test_ends_of_waiting_steps(void **state) {
  (void)state;
  world w;
  empty q;
  td_loop *l;
  world_init(&w, 1);
  empty_init(&q, &w);
  td_node *much = make_update(&w.r, "AssignAddVariableOp", w.v, 1000);
  td_callable *end = callable_run(&w, much, NULL, 0);
  td_loop_options o = {.threads = 3, .steps = -1, .at_end = end};
  OK(td_loop_start(q.take, &o, &l));
  OK(td_callable_run(q.close, NULL, NULL, NULL));
  OK(td_loop_wait(l, -1, NULL));
  assert_int_equal(td_loop_steps(l), 0);
  assert_true(value_of(&w) == 1000);
  td_loop_release(l);
  td_callable_release(end);
  empty_deinit(&q);
  world_deinit(&w);
}

static void test_cancelled_tells(void **state) {
  (void)state;
  world w;
  empty q;
  td_loop *l;
  world_init(&w, 1);
  empty_init(&q, &w);
  td_loop_options o = {.steps = -1, .at_end = q.close, .at_error = q.fail};
  OK(td_loop_start(w.never, &o, &l));
  td_loop_cancel(l);
  FAILS(take(&q), TD_CANCELLED, "queue q failed: cancelled");
  FAILS(td_loop_wait(l, -1, NULL), TD_CANCELLED, "cancelled");
  td_loop_release(l);
  empty_deinit(&q);
  world_deinit(&w);
}

/* The last step waits, and no thread of the pool is to be had. */
static void test_closed_in_the_last_step(void **state) {
  (void)state;
  world w;
  empty q;
  td_loop *l;
  world_init(&w, 1);
  empty_init(&q, &w);
  td_loop_options o = {.steps = 1, .at_end = q.take};
  OK(td_loop_start(w.up, &o, &l));
  FAILS(td_loop_wait(l, 10000000, NULL), TD_DEADLINE_EXCEEDED, "running");
  assert_int_equal(td_loop_steps(l), 1);
  if (!wall_up()) return skip();
  td_session_close(w.s);
  FAILS(td_loop_wait(l, -1, NULL), TD_CANCELLED, "closed");
  wall_down();
  td_loop_release(l);
  empty_deinit(&q);
  world_deinit(&w);
}

/* Whatever allocation fails, who takes is told of an end. */
static void test_ends_without_memory(void **state) {
  (void)state;
  world w;
  world_init(&w, 1);
  td_callable *bad = failing(&w);
  for (int nth = 1; nth <= 40; nth++) {
    empty q;
    td_loop *l;
    empty_init(&q, &w);
    td_loop_options o = {.steps = -1, .at_end = q.close, .at_error = q.fail};
    td_mem_fail(nth, false);
    td_status *s = td_loop_start(bad, &o, &l);
    if (td_ok(s)) {
      td_status *end = td_loop_wait(l, -1, NULL);
      assert_true(td_status_code(end) == TD_FAILED_PRECONDITION ||
                  td_status_code(end) == TD_RESOURCE_EXHAUSTED);
      td_status_release(end);
    }
    td_mem_fail(0, false);
    if (td_ok(s)) {
      td_step_options soon = {.timeout = 10000000000};
      s = td_callable_run(q.take, NULL, NULL, &soon);
      assert_int_not_equal(td_status_code(s), TD_DEADLINE_EXCEEDED);
      assert_false(td_ok(s));
      td_loop_release(l);
    }
    td_status_release(s);
    empty_deinit(&q);
  }
  td_callable_release(bad);
  world_deinit(&w);
}

static void test_mistakes(void **state) {
  (void)state;
  world w;
  empty q;
  td_loop *l;
  world_init(&w, 1);
  empty_init(&q, &w);
  td_loop_options fed = {.at_end = q.fail}, unfed = {.at_error = q.close};
  td_loop_options both = {
      .log = w.log, .more = (td_callable *const[]){w.up}, .n_more = 1};
  FAILS(td_loop_start(w.up, &fed, &l), TD_INVALID_ARGUMENT, "no feeds");
  FAILS(td_loop_start(q.fail, &(td_loop_options){0}, &l), TD_INVALID_ARGUMENT,
        "no feeds");
  FAILS(td_loop_start(w.up, &unfed, &l), TD_INVALID_ARGUMENT, "int32");
  FAILS(td_loop_start(w.up, &both, &l), TD_INVALID_ARGUMENT, "no log");
  empty_deinit(&q);
  world_deinit(&w);
}

/* ---- whose they are ---- */

static void test_session_lists_and_ends_them(void **state) {
  (void)state;
  world w;
  td_loop *a, *b, *found[4];
  world_init(&w, 1);
  td_loop_options o = {.threads = 2, .steps = -1};
  assert_int_equal(td_session_loops(w.s, found, 4), 0);
  OK(td_loop_start(w.up, &o, &a));
  OK(td_loop_start(w.never, &o, &b));
  td_loop_release(b); /* a lost handle */
  assert_int_equal(td_session_loops(w.s, found, 4), 2);
  assert_true(found[0] == b && found[1] == a);
  td_loop_release(found[1]);
  td_session_close(w.s);
  assert_true(td_loop_over(a) && td_loop_over(b));
  FAILS(td_loop_wait(a, -1, NULL), TD_CANCELLED, "the session was closed");
  assert_int_equal(td_session_loops(w.s, found + 1, 3), 0);
  td_loop_release(a);
  td_loop_release(found[0]);
  FAILS(td_loop_start(w.up, &o, &a), TD_FAILED_PRECONDITION, "closed");
  world_deinit(&w);
}

static void test_session_let_go(void **state) {
  (void)state;
  world w;
  td_loop *l;
  world_init(&w, 1);
  OK(td_loop_start(w.never, &(td_loop_options){.steps = -1}, &l));
  td_session_end_loops(w.s);
  FAILS(td_loop_wait(l, -1, NULL), TD_CANCELLED, "let go");
  td_loop_release(l);
  world_deinit(&w);
}

/* With every thread of the pool held, the two chains of a variable among what
 * ends: one may wait for its lock, or have just been given it. */
static void test_ended_without_the_pool(void **state) {
  (void)state;
  world w;
  td_loop *l[3];
  world_init(&w, 1);
  td_loop_options o = {.threads = 2, .steps = -1};
  OK(td_loop_start(w.never, &o, &l[0])); /* in flight */
  OK(td_loop_start(w.up, &o, &l[1]));
  while (td_loop_steps(l[1]) < 10) sched_yield();
  if (!wall_up()) return skip();
  OK(td_loop_start(w.up, &o, &l[2])); /* not begun */
  td_loop_cancel(l[0]);
  FAILS(td_loop_wait(l[0], -1, NULL), TD_CANCELLED, "cancelled");
  td_session_close(w.s);
  for (int i = 1; i < 3; i++)
    FAILS(td_loop_wait(l[i], -1, NULL), TD_CANCELLED, "closed");
  wall_down();
  for (int i = 0; i < 3; i++) td_loop_release(l[i]);
  world_deinit(&w);
}

/* A wait that is over leaves the loop as it is. */
static void test_waits(void **state) {
  (void)state;
  world w;
  td_loop *l;
  int flag = 1;
  world_init(&w, 1);
  OK(td_loop_start(w.up, &(td_loop_options){.steps = -1}, &l));
  FAILS(td_loop_wait(l, 1000000, NULL), TD_DEADLINE_EXCEEDED, "still running");
  FAILS(td_loop_wait(l, -1, &flag), TD_CANCELLED, "interrupted");
  int64_t n = td_loop_steps(l);
  while (td_loop_steps(l) < n + 10) sched_yield();
  assert_false(td_loop_over(l));
  td_loop_cancel(l);
  FAILS(td_loop_wait(l, -1, NULL), TD_CANCELLED, "cancelled");
  td_loop_cancel(l);
  td_loop_release(l);
  world_deinit(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counted),
      cmocka_unit_test(test_nothing_to_do),
      cmocka_unit_test(test_log),
      cmocka_unit_test(test_large_log),
      cmocka_unit_test(test_long_log),
      cmocka_unit_test(test_error),
      cmocka_unit_test(test_at_end),
      cmocka_unit_test(test_at_error),
      cmocka_unit_test(test_ends_of_waiting_steps),
      cmocka_unit_test(test_cancelled_tells),
      cmocka_unit_test(test_closed_in_the_last_step),
      cmocka_unit_test(test_ends_without_memory),
      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_session_lists_and_ends_them),
      cmocka_unit_test(test_session_let_go),
      cmocka_unit_test(test_ended_without_the_pool),
      cmocka_unit_test(test_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
