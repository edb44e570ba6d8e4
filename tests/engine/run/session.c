/* session.c - whole graphs through planner, executor and session.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"

#include <sched.h>

#include "engine/run/async.h"
#include "engine/run/loop.h"
#include "engine/run/partial.h"

/* A rig with a session on one or two CPU devices. */
typedef struct bench {
  rig r;
  td_session *s;
} bench;

static void bench_init(bench *b, int cpus) {
  rig_init(&b->r);
  td_session_options o = {.threads = 2,
                          .cpu_devices = cpus,
                          .first = device_type(NULL),
                          .verify = true};
  OK(session_new(b->r.runtime, b->r.graph, &o, &b->s));
}

static void bench_deinit(bench *b) {
  td_session_release(b->s);
  rig_deinit(&b->r);
}

static td_edge place_holder(rig *r, const char *name, td_dtype t) {
  td_build b;
  td_node *n;
  td_shape any = td_shape_unknown();
  td_build_init(&b, r->graph, "Placeholder", name);
  td_build_attr(&b, "dtype", td_attr_type(t));
  td_build_attr(&b, "shape", td_attr_shape(&any));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static td_tensor scalar(double v) {
  td_tensor t;
  OK(td_tensor_scalar_f(TD_FLOAT64, v, &t));
  return t;
}

static td_status *run1(bench *b, td_edge feed, double v, td_edge fetch,
                       double *out, const td_step_options *o) {
  td_tensor in = scalar(v), got;
  td_signature sig = {.feeds = &feed,
                      .n_feeds = feed.node != NULL,
                      .fetches = &fetch,
                      .n_fetches = 1};
  td_status *s = td_session_run(b->s, &sig, &in, &got, o);
  if (td_ok(s)) *out = td_tensor_get_f(&got, 0);
  td_tensor_release(&got);
  td_tensor_release(&in);
  return s;
}

/* ---- feeds and fetches ---- */

static void test_feed_any_edge(void **state) {
  (void)state;
  bench b;
  bench_init(&b, 1);
  td_edge x = place_holder(&b.r, "x", TD_FLOAT64);
  td_edge two = make_const(&b.r, TD_FLOAT64, 2, NULL);
  td_edge y = NODE(&b.r, "Mul", "y", x, two);
  td_edge z = NODE(&b.r, "AddV2", "z", y, two);
  double v;
  OK(run1(&b, x, 5, z, &v, NULL));
  assert_true(v == 12);
  OK(run1(&b, y, 5, z, &v, NULL));
  assert_true(v == 7);
  OK(run1(&b, two, 5, two, &v, NULL)); /* a fed fetch is the feed */
  assert_true(v == 5);
  td_status *s = run1(&b, (td_edge){NULL, 0}, 0, z, &v, NULL);
  assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
  assert_non_null(strstr(td_status_message(s), "\"x\""));
  td_status_release(s);
  bench_deinit(&b);
}

static void test_wrong_feed(void **state) {
  (void)state;
  bench b;
  bench_init(&b, 1);
  td_edge x = place_holder(&b.r, "x", TD_FLOAT32);
  td_tensor in = scalar(1), got;
  td_signature sig = {.feeds = &x, .n_feeds = 1, .fetches = &x, .n_fetches = 1};
  td_status *s = td_session_run(b.s, &sig, &in, &got, NULL);
  assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
  assert_non_null(strstr(td_status_message(s), "float64"));
  td_status_release(s);
  td_tensor_release(&in);
  bench_deinit(&b);
}

static void test_dead_fetch(void **state) {
  (void)state;
  bench b;
  bench_init(&b, 1);
  td_edge x = place_holder(&b.r, "x", TD_FLOAT64);
  td_edge yes = make_const(&b.r, TD_BOOL, 1, NULL);
  td_edge sw = NODE(&b.r, "Switch", NULL, x, yes);
  td_edge no = NODE(&b.r, "Identity", "no", port(sw, 0));
  double v;
  td_status *s = run1(&b, x, 1, no, &v, NULL);
  assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
  assert_non_null(strstr(td_status_message(s), "dead"));
  td_status_release(s);
  bench_deinit(&b);
}

/* The graph grows between steps; the cache stays bounded. */
static void test_grow(void **state) {
  (void)state;
  bench b;
  rig_init(&b.r);
  td_session_options o = {.cache = 4};
  OK(session_new(b.r.runtime, b.r.graph, &o, &b.s));
  td_edge x = make_const(&b.r, TD_FLOAT64, 0, NULL);
  td_edge one = make_const(&b.r, TD_FLOAT64, 1, NULL);
  for (int i = 1; i <= 20; i++) {
    double v;
    x = NODE(&b.r, "AddV2", NULL, x, one);
    OK(run1(&b, (td_edge){NULL, 0}, 0, x, &v, NULL));
    assert_true(v == i);
  }
  td_session_stats st = td_session_read_stats(b.s);
  assert_int_equal(st.plans, 20);
  assert_int_equal(st.evicted, 16);
  bench_deinit(&b);
}

/* When each signature ran; a step that failed does not count. */
static void test_ran(void **state) {
  (void)state;
  bench b;
  bench_init(&b, 1);
  td_edge x = make_const(&b.r, TD_FLOAT64, 1, NULL);
  td_edge loop = make_endless(&b.r);
  td_step_options o = {.timeout = 5000000};
  td_session_ran list[3];
  double v;
  OK(run1(&b, (td_edge){NULL, 0}, 0, x, &v, NULL));
  OK(run1(&b, (td_edge){NULL, 0}, 0, x, &v, NULL));
  FAILS(run1(&b, (td_edge){NULL, 0}, 0, loop, &v, &o), TD_DEADLINE_EXCEEDED,
        "");
  assert_int_equal(td_session_list_ran(b.s, list, 3), 2);
  assert_int_equal(list[0].last + list[1].last, 2);
  assert_int_equal(list[0].last * list[1].last, 0);
  assert_true(list[0].signature != list[1].signature);
  bench_deinit(&b);
}

/* ---- handles ---- */

static void test_handle(void **state) {
  (void)state;
  bench b;
  bench_init(&b, 1);
  td_edge never = make_endless(&b.r);
  td_signature sig = {.fetches = &never, .n_fetches = 1};
  td_callable *c;
  td_async *h;
  td_tensor out;
  OK(td_callable_new(b.s, &sig, &c));
  OK(td_async_start(c, NULL, NULL, &h));
  td_status *s = td_async_wait(h, 5000000, &out, NULL);
  assert_int_equal(td_status_code(s), TD_DEADLINE_EXCEEDED);
  td_status_release(s);
  assert_false(td_async_done(h));
  td_str why;
  td_str_init(&why);
  td_session_why(b.s, &why);
  assert_true(why.len > 0);
  td_str_deinit(&why);
  td_async_cancel(h);
  s = td_async_wait(h, -1, &out, NULL);
  assert_int_equal(td_status_code(s), TD_CANCELLED);
  td_status_release(s);
  td_async_release(h);
  /* Closing ends what runs. */
  OK(td_async_start(c, NULL, NULL, &h));
  td_session_close(b.s);
  s = td_async_wait(h, -1, &out, NULL);
  assert_int_equal(td_status_code(s), TD_CANCELLED);
  td_status_release(s);
  s = td_callable_run(c, NULL, &out, NULL);
  assert_int_equal(td_status_code(s), TD_FAILED_PRECONDITION);
  td_status_release(s);
  td_async_release(h);
  td_callable_release(c);
  bench_deinit(&b);
}

/* On CPU:1, of what a loop on CPU:0 never gives. */
static td_edge make_never(rig *r) {
  td_edge never = NODE(r, "Neg", "never", make_endless(r));
  OK(td_node_set_device(never.node, "/device:CPU:1"));
  return never;
}

/* A late step's error says what its kernels wait for. */
static void test_deadline_tells_why(void **state) {
  (void)state;
  bench b;
  if (fleet_wanted()) return skip();
  bench_init(&b, 2);
  double v;
  td_step_options o = {.timeout = 50000000};
  FAILS(run1(&b, (td_edge){NULL, 0}, 0, make_never(&b.r), &v, &o),
        TD_DEADLINE_EXCEEDED,
        "_endless_exit from /job:localhost/replica:0/task:0/device:");
  bench_deinit(&b);
}

/* The handle was let go: the step's deadline ends it and is the last to know
 * it. Later deadlines still work. */
static void test_deadline_alone(void **state) {
  (void)state;
  bench b;
  bench_init(&b, 2);
  td_edge never = make_never(&b.r), loop = make_endless(&b.r);
  td_signature sig = {.fetches = &never, .n_fetches = 1};
  td_step_options o = {.timeout = 5000000};
  for (int i = 0; i < 3; i++) {
    td_callable *c;
    td_async *h;
    double v;
    OK(td_callable_new(b.s, &sig, &c));
    OK(td_async_start(c, NULL, &o, &h));
    td_async_release(h);
    td_callable_release(c);
    while (td_session_read_stats(b.s).steps < 2 * i + 1) sched_yield();
    td_status *s = run1(&b, (td_edge){NULL, 0}, 0, loop, &v, &o);
    assert_int_equal(td_status_code(s), TD_DEADLINE_EXCEEDED);
    td_status_release(s);
  }
  bench_deinit(&b);
}

/* ---- state ---- */

static td_edge variable(rig *r, const char *name) {
  td_build b;
  td_node *n;
  td_shape shape = td_shape_scalar();
  td_build_init(&b, r->graph, "VarHandleOp", name);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  td_build_attr(&b, "shared_name", td_attr_string(name));
  td_build_attr(&b, "container", td_attr_string("shared"));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static td_node *update(rig *r, const char *op, td_edge v, td_edge by) {
  td_build b;
  td_node *n;
  td_build_init(&b, r->graph, op, NULL);
  td_build_in(&b, v);
  td_build_in(&b, by);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  OK(td_build_node(&b, &n));
  return n;
}

static void run_target(td_session *s, td_node *n) {
  td_signature sig = {.targets = &n, .n_targets = 1};
  OK(td_session_run(s, &sig, NULL, NULL, NULL));
}

/* Two sessions, one variable, four threads: no update is lost. */
static void test_no_lost_update(void **state) {
  (void)state;
  bench b;
  bench_init(&b, 1);
  td_session *other;
  OK(session_new(b.r.runtime, b.r.graph, NULL, &other));
  td_edge v = variable(&b.r, "counter");
  td_edge zero = make_const(&b.r, TD_FLOAT64, 0, NULL);
  td_edge one = make_const(&b.r, TD_FLOAT64, 1, NULL);
  run_target(b.s, update(&b.r, "AssignVariableOp", v, zero));
  td_node *add = update(&b.r, "AssignAddVariableOp", v, one);
  td_build rb;
  td_node *read;
  td_build_init(&rb, b.r.graph, "ReadVariableOp", NULL);
  td_build_in(&rb, v);
  td_build_attr(&rb, "dtype", td_attr_type(TD_FLOAT64));
  OK(td_build_node(&rb, &read));
  td_signature sig = {.targets = &add, .n_targets = 1};
  td_callable *c[2];
  td_loop *h[2];
  int64_t each = device_type(NULL) ? 10000 : 200000; /* some are slow */
  td_loop_options o = {.threads = 2, .steps = each};
  td_session *sessions[2] = {b.s, other};
  for (int i = 0; i < 2; i++) {
    OK(td_callable_new(sessions[i], &sig, &c[i]));
    OK(td_loop_start(c[i], &o, &h[i]));
  }
  for (int i = 0; i < 2; i++) {
    OK(td_loop_wait(h[i], -1, NULL));
    assert_int_equal(td_loop_steps(h[i]), each);
    td_loop_release(h[i]);
    td_callable_release(c[i]);
  }
  double sum;
  OK(run1(&b, (td_edge){NULL, 0}, 0, (td_edge){read, 0}, &sum, NULL));
  assert_true(sum == (double)(2 * each));
  td_session_release(other);
  bench_deinit(&b);
}

/* ---- partial runs ---- */

static void test_partial(void **state) {
  (void)state;
  bench b;
  bench_init(&b, 1);
  td_edge x = place_holder(&b.r, "x", TD_FLOAT64);
  td_edge y = place_holder(&b.r, "y", TD_FLOAT64);
  td_edge p = NODE(&b.r, "Mul", NULL, x, x);
  td_edge q = NODE(&b.r, "AddV2", NULL, p, y);
  td_edge feeds[2] = {x, y}, fetches[2] = {p, q};
  td_signature sig = {
      .feeds = feeds, .n_feeds = 2, .fetches = fetches, .n_fetches = 2};
  td_partial *h;
  OK(td_partial_new(b.s, &sig, NULL, &h));
  td_tensor three = scalar(3), four = scalar(4), out;
  OK(td_partial_run(h, (int[]){0}, &three, 1, (int[]){0}, &out, 1, NULL));
  assert_true(td_tensor_get_f(&out, 0) == 9);
  td_tensor_release(&out);
  td_status *s = td_partial_run(h, NULL, NULL, 0, (int[]){1}, &out, 1, NULL);
  assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
  td_status_release(s);
  OK(td_partial_run(h, (int[]){1}, &four, 1, (int[]){1}, &out, 1, NULL));
  assert_true(td_tensor_get_f(&out, 0) == 13);
  td_tensor_release(&out);
  td_partial_release(h);
  OK(td_partial_new(b.s, &sig, NULL, &h)); /* given up half way */
  OK(td_partial_run(h, (int[]){0}, &three, 1, NULL, NULL, 0, NULL));
  td_partial_release(h);
  td_tensor_release(&three);
  td_tensor_release(&four);
  bench_deinit(&b);
}

/* ---- two runtimes ---- */

static void test_two_runtimes(void **state) {
  (void)state;
  bench a, b;
  if (fleet_wanted()) return skip();
  bench_init(&a, 1);
  bench_init(&b, 1);
  bench *both[2] = {&a, &b};
  for (int i = 0; i < 2; i++) {
    bench *at = both[i];
    td_edge v = variable(&at->r, "v");
    td_edge c = make_const(&at->r, TD_FLOAT64, i + 1, NULL);
    run_target(at->s, update(&at->r, "AssignVariableOp", v, c));
  }
  for (int i = 0; i < 2; i++) {
    bench *at = both[i];
    td_build rb;
    td_node *read;
    double got;
    td_build_init(&rb, at->r.graph, "ReadVariableOp", NULL);
    td_build_in(&rb, (td_edge){td_graph_find(at->r.graph, "v"), 0});
    td_build_attr(&rb, "dtype", td_attr_type(TD_FLOAT64));
    OK(td_build_node(&rb, &read));
    OK(run1(at, (td_edge){NULL, 0}, 0, (td_edge){read, 0}, &got, NULL));
    assert_true(got == i + 1);
  }
  bench_deinit(&a);
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_feed_any_edge),
      cmocka_unit_test(test_wrong_feed),
      cmocka_unit_test(test_dead_fetch),
      cmocka_unit_test(test_grow),
      cmocka_unit_test(test_ran),
      cmocka_unit_test(test_handle),
      cmocka_unit_test(test_deadline_tells_why),
      cmocka_unit_test(test_deadline_alone),
      cmocka_unit_test(test_no_lost_update),
      cmocka_unit_test(test_partial),
      cmocka_unit_test(test_two_runtimes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
