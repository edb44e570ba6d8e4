/* frames.c - iterations overlap; no device runs ahead of another; loops that
 * cannot end are refused.
 *
 * Overlap is shown without a clock: in each iteration a slow half waits until
 * the fast half of a later one has run. Were iterations one after the other,
 * the loop could not end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel_rows.h"
#include "tests/engine/run/rig.h"

#include "engine/device/alloc.h"
#include "engine/graph/node_edit.h"
#include "engine/run/session.h"

/* ---- two ops: Fast notes its iteration, Slow waits for a later one ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t fastest; /* lock: the latest iteration whose fast half ran */
static td_kernel_ctx *waiting[64];
static int n_waiting;

enum { AHEAD = 3, ROUNDS = 20 };

/* Lets go of every slow half whose time has come. Lock held. */
static int ready_locked(td_kernel_ctx **go) {
  int n = 0, left = 0;
  for (int i = 0; i < n_waiting; i++) {
    int64_t until = waiting[i]->iteration + AHEAD;
    if (fastest >= (until < ROUNDS - 1 ? until : ROUNDS - 1))
      go[n++] = waiting[i];
    else
      waiting[left++] = waiting[i];
  }
  n_waiting = left;
  return n;
}

static void wake(void) {
  td_kernel_ctx *go[64];
  pthread_mutex_lock(&lock);
  int n = ready_locked(go);
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < n; i++) {
    td_out_set(go[i], 0, td_in(go[i], 0));
    td_kernel_done(go[i], NULL);
  }
}

static td_status *fast(td_kernel_ctx *c) {
  td_out_set(c, 0, td_in(c, 0));
  pthread_mutex_lock(&lock);
  if (c->iteration > fastest) fastest = c->iteration;
  pthread_mutex_unlock(&lock);
  wake();
  return NULL;
}

static void slow(td_kernel_ctx *c) {
  pthread_mutex_lock(&lock);
  waiting[n_waiting++] = c;
  pthread_mutex_unlock(&lock);
  wake();
}

static void slow_cancel(td_kernel_ctx *c) {
  bool mine = false;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < n_waiting; i++)
    if (waiting[i] == c) {
      waiting[i] = waiting[--n_waiting];
      mine = true;
    }
  pthread_mutex_unlock(&lock);
  if (mine) td_kernel_done(c, td_error(TD_CANCELLED, "cancelled"));
}

/* ---- two more: Make makes a mebibyte, Nap takes its time with it ---- */

static td_status *make(td_kernel_ctx *c) {
  td_tensor *y;
  td_shape shape = td_shape_vector(1 << 17);
  TD_TRY(td_out(c, 0, &shape, &y));
  memset(y->data, 0, td_tensor_bytes(y));
  return NULL;
}

static void wake_up(void *c) {
  td_out_set(c, 0, td_in(c, 0));
  td_kernel_done(c, NULL);
}

static void nap(td_kernel_ctx *c) {
  if (!td_timer_start(td_clock_now() + 500000, wake_up, c)) wake_up(c);
}

/* It is short. */
static void nap_cancel(td_kernel_ctx *c) {
  (void)c;
}

static const td_op_def ops[] = {
    {.type = "TestFast",
     .sig = "x: T -> y: T; T: type",
     .shape = td_infer_same,
     .flags = TD_STATEFUL,
     .doc = "Notes its iteration."},
    {.type = "TestSlow",
     .sig = "x: T -> y: T; T: type",
     .shape = td_infer_same,
     .flags = TD_STATEFUL,
     .doc = "Waits for a later iteration."},
    {.type = "TestMake",
     .sig = "x: T -> y: T; T: type",
     .shape = td_infer_any,
     .flags = TD_STATEFUL,
     .doc = "Gives a mebibyte."},
    {.type = "TestNap",
     .sig = "x: T -> y: T; T: type",
     .shape = td_infer_same,
     .flags = TD_STATEFUL,
     .doc = "Gives its input after half a millisecond."},
    {0},
};
static const td_kernel_def kernels[] = {
    {.op = "TestFast", .device = "CPU", .run = fast},
    {.op = "TestSlow", .device = "CPU", .start = slow, .cancel = slow_cancel},
    {.op = "TestMake", .device = "CPU", .run = make},
    {.op = "TestNap", .device = "CPU", .start = nap, .cancel = nap_cancel},
    {0},
};
static const td_module module = {"test_frames", ops, kernels};

/* ---- overlap ---- */

/* while i < ROUNDS: i = fast(i + 1), s = s + slow(i) */
static td_edge overlapping(rig *r, int parallel) {
  td_edge zero = make_const(r, TD_FLOAT64, 0, NULL);
  td_edge rounds = make_const(r, TD_FLOAT64, ROUNDS, NULL);
  td_edge n = make_enter(r, rounds, "overlap", true, parallel);
  td_edge i =
      make_loop_merge(r, make_enter(r, zero, "overlap", false, parallel));
  td_edge s =
      make_loop_merge(r, make_enter(r, zero, "overlap", false, parallel));
  td_edge cond = NODE(r, "LoopCond", NULL, NODE(r, "Less", NULL, i, n));
  td_edge si = NODE(r, "Switch", NULL, i, cond);
  td_edge ss = NODE(r, "Switch", NULL, s, cond);
  td_edge body = NODE(r, "TestFast", NULL, port(si, 1));
  td_edge one = make_const(r, TD_FLOAT64, 1, body.node);
  td_edge more = NODE(r, "AddV2", NULL, body, one);
  td_edge held = NODE(r, "TestSlow", NULL, body);
  td_edge sum = NODE(r, "AddV2", NULL, port(ss, 1), held);
  OK(td_node_set_back_edge(i.node, 1, NODE(r, "NextIteration", NULL, more)));
  OK(td_node_set_back_edge(s.node, 1, NODE(r, "NextIteration", NULL, sum)));
  NODE(r, "Exit", NULL, port(si, 0));
  return NODE(r, "Exit", "total", port(ss, 0));
}

static td_status *run_total(rig *r, int parallel, double *total,
                            int64_t timeout) {
  td_session *s;
  td_tensor out;
  fastest = -1;
  n_waiting = 0;
  td_edge fetch = overlapping(r, parallel);
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  td_step_options o = {.timeout = timeout};
  OK(session_new(r->runtime, r->graph, NULL, &s));
  td_status *st = td_session_run(s, &sig, NULL, &out, &o);
  if (td_ok(st)) *total = td_tensor_get_f(&out, 0);
  td_tensor_release(&out);
  td_session_release(s);
  return st;
}

static void test_overlap(void **state) {
  (void)state;
  rig r;
  double total = 0;
  rig_init(&r);
  OK(run_total(&r, 10, &total, 60000000000));
  assert_true(total == ROUNDS * (ROUNDS - 1) / 2.0);
  rig_deinit(&r);
}

/* Two in flight are too few for a slow half that waits for three ahead: the
 * limit holds. */
static void test_limit(void **state) {
  (void)state;
  rig r;
  double total = 0;
  rig_init(&r);
  td_status *s = run_total(&r, 2, &total, 200000000);
  assert_int_equal(td_status_code(s), TD_DEADLINE_EXCEEDED);
  td_status_release(s);
  rig_deinit(&r);
}

/* ---- a device that is slower than the one it receives from ---- */

/* while i < n: `maker` makes a mebibyte, and `taker`, which has the variable s,
 * naps over it. i is on CPU:0. Gives the Exit of s. */
static td_edge lagging(rig *r, int n, const char *maker, const char *taker) {
  enum { AT_ONCE = 4 };
  td_edge zero = make_const(r, TD_FLOAT64, 0, NULL);
  td_edge many = make_const(r, TD_FLOAT64, n, NULL);
  many = make_enter(r, many, "lag", true, AT_ONCE);
  td_edge i = make_loop_merge(r, make_enter(r, zero, "lag", false, AT_ONCE));
  td_edge s = make_loop_merge(r, make_enter(r, zero, "lag", false, AT_ONCE));
  td_edge cond = NODE(r, "LoopCond", NULL, NODE(r, "Less", NULL, i, many));
  td_edge si = NODE(r, "Switch", NULL, i, cond);
  td_edge ss = NODE(r, "Switch", NULL, s, cond);
  td_edge body = NODE(r, "Identity", NULL, port(si, 1));
  td_edge one = make_const(r, TD_FLOAT64, 1, body.node);
  td_edge more = NODE(r, "AddV2", NULL, body, one);
  td_edge big = NODE(r, "TestMake", NULL, body);
  td_edge slow = NODE(r, "TestNap", NULL, big);
  td_edge kept = NODE(r, "Identity", NULL, port(ss, 1));
  OK(td_node_add_control(kept.node, slow.node));
  OK(td_node_set_back_edge(i.node, 1, NODE(r, "NextIteration", NULL, more)));
  OK(td_node_set_back_edge(s.node, 1, NODE(r, "NextIteration", NULL, kept)));
  OK(td_node_set_device(i.node, "/cpu:0"));
  OK(td_node_set_device(cond.node, "/cpu:0"));
  OK(td_node_set_device(more.node, "/cpu:0"));
  OK(td_node_set_device(big.node, maker));
  OK(td_node_set_device(s.node, taker));
  OK(td_node_set_device(ss.node, taker));
  OK(td_node_set_device(slow.node, taker));
  OK(td_node_set_device(kept.node, taker));
  return NODE(r, "Exit", NULL, port(ss, 0));
}

/* The most that the maker's values took at once. */
static size_t peak_of(int n, int maker, const char *taker, bool roundtrip) {
  rig r;
  td_session *s;
  td_tensor out;
  td_device *d;
  rig_init(&r);
  td_edge y = lagging(&r, n, maker ? "/cpu:1" : "/cpu:0", taker);
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  td_session_options so = {
      .cpu_devices = 3, .threads = 2, .verify = true, .roundtrip = roundtrip};
  OK(session_new(r.runtime, r.graph, &so, &s));
  OK(td_runtime_cpu(r.runtime, maker, &d));
  td_allocator_reset_peak(d->memory);
  size_t before = td_allocator_read_stats(d->memory).in_use;
  OK(td_session_run(s, &sig, NULL, &out, NULL));
  size_t peak = td_allocator_read_stats(d->memory).peak;
  assert_true(peak >= before);
  td_tensor_release(&out);
  td_session_release(s);
  rig_deinit(&r);
  return peak - before;
}

/* At most parallel_iterations are under way on each device, and the LoopCond's
 * does not run ahead of any: what waits for the slow one does not grow with the
 * number of iterations. A mebibyte a value, and what one is made of. */
static void check_lag(int maker, const char *taker, bool roundtrip) {
  enum { MOST = 10 << 20 };
  size_t few = peak_of(50, maker, taker, roundtrip);
  size_t many = peak_of(rounds(1200, 5000), maker, taker, roundtrip);
  assert_in_range(few, 1 << 20, MOST);
  assert_in_range(many, 1 << 20, MOST);
}

static void test_lag(void **state) {
  (void)state;
  if (fleet_wanted()) return skip();
  check_lag(0, "/cpu:1", false);
  check_lag(0, "/cpu:1", true);
  check_lag(1, "/cpu:2", false); /* the LoopCond on a third one */
  check_lag(1, "/cpu:0", false);
}

/* ---- variables that die ---- */

/* while i < 5: y goes on while i < 2. Where y's part is on another device, that
 * hears in each iteration whether y is dead. */
static td_edge mortal(rig *r, const char *device, td_edge *y) {
  td_edge zero = make_const(r, TD_FLOAT64, 0, NULL);
  td_edge n = make_const(r, TD_FLOAT64, 5, NULL);
  td_edge few = make_const(r, TD_FLOAT64, 2, NULL);
  n = make_enter(r, n, "mortal", true, 2);
  few = make_enter(r, few, "mortal", true, 2);
  td_edge i = make_loop_merge(r, make_enter(r, zero, "mortal", false, 2));
  td_edge m = make_loop_merge(r, make_enter(r, zero, "mortal", false, 2));
  td_edge cond = NODE(r, "LoopCond", NULL, NODE(r, "Less", NULL, i, n));
  td_edge si = NODE(r, "Switch", NULL, i, cond);
  td_edge sm = NODE(r, "Switch", NULL, m, cond);
  td_edge body = NODE(r, "Identity", NULL, port(si, 1));
  td_edge one = make_const(r, TD_FLOAT64, 1, body.node);
  td_edge more = NODE(r, "AddV2", NULL, body, one);
  td_edge goes_on = NODE(r, "Less", NULL, body, few);
  td_edge sum = NODE(r, "AddV2", NULL, port(sm, 1), one);
  td_edge side = NODE(r, "Switch", NULL, sum, goes_on);
  td_edge half = NODE(r, "Neg", NULL, m);
  OK(td_node_set_back_edge(i.node, 1, NODE(r, "NextIteration", NULL, more)));
  OK(td_node_set_back_edge(m.node, 1,
                           NODE(r, "NextIteration", NULL, port(side, 1))));
  OK(td_node_set_device(sum.node, device));
  OK(td_node_set_device(half.node, device));
  *y = NODE(r, "Exit", NULL, port(NODE(r, "Switch", NULL, half, cond), 0));
  return NODE(r, "Exit", NULL, port(si, 0));
}

static void test_mortal(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    rig r;
    td_session *s;
    td_tensor out;
    td_edge y;
    rig_init(&r);
    td_edge i = mortal(&r, k ? "/cpu:1" : "/cpu:0", &y);
    td_session_options so = {.cpu_devices = 2, .verify = true};
    td_step_options o = {.timeout = 60000000000};
    td_signature sig = {
        .fetches = &i, .n_fetches = 1, .targets = &y.node, .n_targets = 1};
    OK(session_new(r.runtime, r.graph, &so, &s));
    OK(td_session_run(s, &sig, NULL, &out, &o));
    assert_true(td_tensor_get_f(&out, 0) == 5);
    td_tensor_release(&out);
    sig = (td_signature){.fetches = &y, .n_fetches = 1};
    td_status *st = td_session_run(s, &sig, NULL, &out, &o);
    assert_non_null(st);
    assert_non_null(strstr(td_status_message(st), "is dead"));
    td_status_release(st);
    td_session_release(s);
    rig_deinit(&r);
  }
}

/* ---- loops that cannot end ---- */

static void test_missing_back_edge(void **state) {
  (void)state;
  rig r;
  td_session *s;
  td_tensor out;
  rig_init(&r);
  td_edge zero = make_const(&r, TD_FLOAT64, 0, NULL);
  td_edge merge = make_loop_merge(&r, make_enter(&r, zero, "lost", false, 10));
  td_edge exit = NODE(&r, "Exit", NULL, merge);
  td_signature sig = {.fetches = &exit, .n_fetches = 1};
  OK(session_new(r.runtime, r.graph, NULL, &s));
  td_status *st = td_session_run(s, &sig, NULL, &out, NULL);
  assert_int_equal(td_status_code(st), TD_INVALID_ARGUMENT);
  assert_non_null(strstr(td_status_message(st), "Merge"));
  td_status_release(st);
  td_session_release(s);
  rig_deinit(&r);
}

static void test_two_frames(void **state) {
  (void)state;
  rig r;
  td_session *s;
  td_tensor out;
  rig_init(&r);
  td_edge zero = make_const(&r, TD_FLOAT64, 0, NULL);
  td_edge in = make_enter(&r, zero, "frame", false, 10);
  td_edge mixed = NODE(&r, "AddV2", "mixed", in, zero);
  td_edge exit = NODE(&r, "Exit", NULL, mixed);
  td_signature sig = {.fetches = &exit, .n_fetches = 1};
  OK(session_new(r.runtime, r.graph, NULL, &s));
  td_status *st = td_session_run(s, &sig, NULL, &out, NULL);
  assert_int_equal(td_status_code(st), TD_INVALID_ARGUMENT);
  assert_string_equal(td_status_node(st), "mixed");
  td_status_release(st);
  td_session_release(s);
  rig_deinit(&r);
}

static int set_up(void **state) {
  (void)state;
  td_status *s = td_op_register(&module);
  if (td_ok(s)) s = td_kernel_register(&module);
  return td_ok(s) ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_overlap),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_lag),
      cmocka_unit_test(test_mortal),
      cmocka_unit_test(test_missing_back_edge),
      cmocka_unit_test(test_two_frames),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
