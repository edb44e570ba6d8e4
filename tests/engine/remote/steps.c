/* steps.c - every way to run a step, over workers: results are those of one
 * process, and a step ends in time whatever becomes of it.
 *
 * TIDE_FLEET chooses the workers (fleet.h); without it each test runs over one
 * by ipc, one by tcp and two. `far(..)` nodes are on the last of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/remote/fleet.h"
#include "tests/engine/run/rig.h"

#include "engine/graph/node_edit.h"
#include "engine/run/async.h"
#include "engine/run/loop.h"
#include "engine/run/partial.h"
#include "engine/run/session.h"

#define SECOND INT64_C(1000000000)

static const char *const kinds[] = {"worker-ipc", "worker-tcp", "two"};
enum { KINDS = 3 };

typedef struct bench {
  rig r;
  const char *device; /* where far nodes go */
  const char *other;  /* another worker's, or the same */
  fleet workers;
  td_remote *client;
  td_session *s;
} bench;

static void bench_init(bench *b, int kind) {
  const char *what = fleet_wanted() ? fleet_wanted() : kinds[kind];
  rig_init(&b->r);
  bool two = strcmp(what, "two") == 0;
  b->device = two ? "/job:worker/task:1/device:CPU:0" : "/job:worker/cpu:0";
  b->other = two ? "/job:worker/task:0/device:CPU:0" : b->device;
  fleet_start(&b->workers, what);
  b->client = fleet_client(b->r.runtime);
  td_session_options o = {.threads = 2, .passes_off = ~0U};
  OK(td_session_new(b->r.runtime, b->r.graph, &o, &b->s));
  fleet_attach(&b->workers, b->client, b->s);
}

static void bench_deinit(bench *b) {
  td_session_close(b->s);
  td_session_release(b->s);
  fleet_leave(b->client);
  fleet_stop(&b->workers);
  rig_deinit(&b->r);
}

/* Once for each kind of fleet that is wanted. */
static void each(void (*test)(bench *b)) {
  for (int i = 0; i < (fleet_wanted() ? 1 : KINDS); i++) {
    bench b = {0};
    bench_init(&b, i);
    test(&b);
    bench_deinit(&b);
  }
}

#define EACH(name)                                                             \
  static void name(bench *b);                                                  \
  static void test_##name(void **state) {                                      \
    (void)state;                                                               \
    each(name);                                                                \
  }                                                                            \
  static void name(bench *b)

/* ---- nodes --------------------------------------------------------------- */

static td_edge on(bench *b, const char *device, const char *op,
                  const td_edge *in, int n, const char *attr, td_attr value) {
  td_build build;
  td_node *node;
  td_build_init(&build, b->r.graph, op, NULL);
  td_build_flat(&build, in, n);
  if (attr) td_build_attr(&build, attr, value);
  build.device = device;
  OK(td_build_node(&build, &node));
  return (td_edge){node, 0};
}

#define FAR(b, op, ...)                                                        \
  on(b, (b)->device, op, (td_edge[]){__VA_ARGS__},                             \
     (int)(sizeof((td_edge[]){__VA_ARGS__}) / sizeof(td_edge)), NULL,          \
     td_attr_int(0))

static td_edge placeholder(bench *b, td_dtype t) {
  return on(b, "/job:localhost/cpu:0", "Placeholder", NULL, 0, "dtype",
            td_attr_type(t));
}

static td_status *run1(bench *b, td_edge fetch, double *out,
                       const td_step_options *o) {
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  td_tensor got;
  TD_TRY(td_session_run(b->s, &sig, NULL, &got, o));
  if (out) *out = td_tensor_get_f(&got, 0);
  td_tensor_release(&got);
  return NULL;
}

/* A double variable there: what reads, adds one to and initialises it. */
typedef struct counter {
  td_node *init, *add;
  td_edge read;
} counter;

static void make_counter(bench *b, counter *c) {
  td_attr t = td_attr_type(TD_FLOAT64);
  td_build build;
  td_node *n;
  td_shape scalar = td_shape_scalar();
  td_build_init(&build, b->r.graph, "VarHandleOp", NULL);
  td_build_attr(&build, "dtype", t);
  td_build_attr(&build, "shape", td_attr_shape(&scalar));
  build.device = b->device;
  OK(td_build_node(&build, &n));
  td_edge v = {n, 0}, zero = make_const(&b->r, TD_FLOAT64, 0, NULL),
          one = make_const(&b->r, TD_FLOAT64, 1, NULL);
  c->init =
      on(b, NULL, "AssignVariableOp", (td_edge[]){v, zero}, 2, "dtype", t).node;
  c->add =
      on(b, NULL, "AssignAddVariableOp", (td_edge[]){v, one}, 2, "dtype", t)
          .node;
  c->read = on(b, NULL, "ReadVariableOp", &v, 1, "dtype", t);
}

static td_status *run_op(bench *b, td_node *op) {
  td_signature sig = {.targets = &op, .n_targets = 1};
  return td_session_run(b->s, &sig, NULL, NULL,
                        &(td_step_options){.timeout = PATIENCE});
}

/* ---- values -------------------------------------------------------------- */

/* There and back, by the other worker and this process: the same bits. */
static void check_way(bench *b, const td_tensor *value) {
  td_edge in = placeholder(b, value->dtype), got_of[2];
  td_edge there = FAR(b, "Identity", in);
  td_edge between =
      on(b, b->other, "Identity", &there, 1, NULL, td_attr_int(0));
  td_edge here = on(b, "/job:localhost/cpu:0", "Identity", &between, 1, NULL,
                    td_attr_int(0));
  got_of[0] = FAR(b, "Identity", here);
  got_of[1] = between;
  td_signature sig = {
      .feeds = &in, .n_feeds = 1, .fetches = got_of, .n_fetches = 2};
  td_tensor got[2];
  for (int i = 0; i < 2; i++) {
    OK(td_session_run(b->s, &sig, value, got,
                      &(td_step_options){.timeout = PATIENCE}));
    for (int k = 0; k < 2; k++) {
      assert_true(td_tensor_same(value, &got[k]));
      td_tensor_release(&got[k]);
    }
  }
}

static void check_bytes(bench *b, td_dtype t, const td_shape *shape) {
  td_tensor v;
  OK(td_tensor_new(NULL, t, shape, &v));
  size_t n = td_tensor_bytes(&v);
  for (size_t i = 0; i < n; i++)
    ((char *)v.data)[i] =
        (char)(t == TD_BOOL ? i % 3 == 0 : i * 31 + i / 251 * 7);
  check_way(b, &v);
  td_tensor_release(&v);
}

EACH(dtypes) {
  for (int t = 1; t < TD_DTYPES; t++) {
    td_shape shapes[] = {td_shape_scalar(), td_shape_vector(7),
                         td_shape_vector(0)};
    if (td_dtype_size((td_dtype)t) == 0 || t == TD_STRING) continue;
    if (t == TD_RESOURCE || t == TD_VARIANT) continue;
    for (size_t i = 0; i < TD_COUNT(shapes); i++)
      check_bytes(b, (td_dtype)t, &shapes[i]);
  }
}

EACH(shapes) {
  int64_t dims[16];
  for (int i = 0; i < 16; i++) dims[i] = 1 + (i % 5 == 0);
  td_shape deep = td_shape_of(16, dims);
  check_bytes(b, TD_FLOAT32, &deep);
  dims[7] = 0;
  td_shape empty = td_shape_of(16, dims);
  check_bytes(b, TD_INT64, &empty);
  static const int64_t sizes[] = {4095,    4096,    4097,    65535,  65536,
                                  65537,   262143,  262144,  262145, 1048575,
                                  1048576, 1048577, 3000000, 1 << 25};
  /* A sanitizer takes seconds over the last, as if the worker were gone. */
  for (size_t i = 0; i < TD_COUNT(sizes) - SANITIZED; i++) {
    td_shape s = td_shape_vector(sizes[i]);
    check_bytes(b, TD_UINT8, &s);
  }
}

EACH(strings) {
  static char long_one[100000];
  memset(long_one, 'x', sizeof long_one);
  const char *at[] = {"", "a", "two\0parts", long_one, "\xff\xfe"};
  const size_t len[] = {0, 1, 9, sizeof long_one, 2};
  for (int n = 0; n <= 5; n++) {
    td_tensor v;
    td_shape shape = td_shape_vector(n);
    OK(td_tensor_strings(&shape, at, len, &v));
    check_way(b, &v);
    td_tensor_release(&v);
  }
}

/* Forty feeds and fetches in one message, some of which do not fit into it. */
EACH(many_values) {
  enum { N = 80 };
  td_edge in[N], out[N];
  td_tensor fed[N], got[N];
  for (int i = 0; i < N; i++) {
    td_shape shape = td_shape_vector(i % 7 == 0 ? 70000 : i);
    in[i] = placeholder(b, TD_UINT8);
    out[i] = FAR(b, "Identity", in[i]);
    OK(td_tensor_new(NULL, TD_UINT8, &shape, &fed[i]));
    memset(fed[i].data, i, td_tensor_bytes(&fed[i]));
  }
  td_signature sig = {
      .feeds = in, .n_feeds = N, .fetches = out, .n_fetches = N};
  for (int k = 0; k < 5; k++) {
    OK(td_session_run(b->s, &sig, fed, got,
                      &(td_step_options){.timeout = PATIENCE}));
    for (int i = 0; i < N; i++) {
      assert_true(td_tensor_same(&fed[i], &got[i]));
      td_tensor_release(&got[i]);
    }
  }
  for (int i = 0; i < N; i++) td_tensor_release(&fed[i]);
}

/* ---- other ways to run --------------------------------------------------- */

EACH(callables_and_async) {
  counter c;
  make_counter(b, &c);
  OK(run_op(b, c.init));
  td_callable *call;
  td_async *a[20];
  td_signature sig = {.targets = &c.add, .n_targets = 1};
  OK(td_callable_new(b->s, &sig, &call));
  for (int i = 0; i < 20; i++) OK(td_callable_run(call, NULL, NULL, NULL));
  for (int i = 0; i < 20; i++) OK(td_async_start(call, NULL, NULL, &a[i]));
  for (int i = 0; i < 20; i++) {
    OK(td_async_wait(a[i], PATIENCE, NULL, NULL));
    td_async_release(a[i]);
  }
  double value;
  OK(run1(b, c.read, &value, NULL));
  assert_true(value == 40);
  td_callable_release(call);
}

EACH(loops_of_steps) {
  counter c;
  make_counter(b, &c);
  OK(run_op(b, c.init));
  td_callable *call;
  td_loop *l;
  td_signature sig = {.targets = &c.add, .n_targets = 1};
  OK(td_callable_new(b->s, &sig, &call));
  OK(td_loop_start(call, &(td_loop_options){.threads = 4, .steps = 300}, &l));
  OK(td_loop_wait(l, PATIENCE, NULL));
  assert_int_equal(td_loop_steps(l), 300);
  td_loop_release(l);
  double value;
  OK(run1(b, c.read, &value, NULL));
  assert_true(value == 300);
  /* One without an end is ended, at once. */
  OK(td_loop_start(call, &(td_loop_options){.threads = 2, .steps = -1}, &l));
  usleep(20000);
  td_loop_cancel(l);
  int64_t began = td_clock_now();
  td_status_release(td_loop_wait(l, PATIENCE, NULL));
  assert_true(td_clock_now() - began < in_time(3 * SECOND));
  td_loop_release(l);
  td_callable_release(call);
}

/* What is computed in the first call is there in the second. */
EACH(partial) {
  td_edge x = placeholder(b, TD_FLOAT64), y = placeholder(b, TD_FLOAT64);
  td_edge feeds[2] = {x, y}, fetches[2];
  fetches[0] = FAR(b, "AddV2", x, x);
  fetches[1] = FAR(b, "Mul", fetches[0], y);
  td_signature sig = {
      .feeds = feeds, .n_feeds = 2, .fetches = fetches, .n_fetches = 2};
  td_tensor v, got;
  td_partial *p;
  OK(td_tensor_scalar_f(TD_FLOAT64, 3, &v));
  for (int k = 0; k < 10; k++) {
    td_step_options o = {.timeout = PATIENCE};
    OK(td_partial_new(b->s, &sig, NULL, &p));
    OK(td_partial_run(p, (int[]){0}, &v, 1, (int[]){0}, &got, 1, &o));
    assert_true(td_tensor_get_f(&got, 0) == 6);
    td_tensor_release(&got);
    if (k % 2 == 0) {
      OK(td_partial_run(p, (int[]){1}, &v, 1, (int[]){1}, &got, 1, &o));
      assert_true(td_tensor_get_f(&got, 0) == 18);
      td_tensor_release(&got);
    }
    td_partial_release(p); /* half done, too */
  }
  td_tensor_release(&v);
}

/* ---- loops over workers -------------------------------------------------- */

/* while i < n: i = i + 1 here, s = s + i there, p = s * 0 + p + 1 on the other.
 */
static td_edge far_loop(bench *b, const char *frame, int n, int parallel,
                        td_edge *last) {
  rig *r = &b->r;
  td_edge zero = make_const(r, TD_FLOAT64, 0, NULL);
  td_edge most = make_const(r, TD_FLOAT64, n, NULL);
  most = make_enter(r, most, frame, true, parallel);
  td_edge m[3], sw[3];
  for (int k = 0; k < 3; k++)
    m[k] = make_loop_merge(r, make_enter(r, zero, frame, false, parallel));
  td_edge cond = NODE(r, "LoopCond", NULL, NODE(r, "Less", NULL, m[0], most));
  for (int k = 0; k < 3; k++) sw[k] = NODE(r, "Switch", NULL, m[k], cond);
  td_edge i = NODE(r, "Identity", NULL, port(sw[0], 1));
  td_edge one = make_const(r, TD_FLOAT64, 1, i.node);
  td_edge next[3];
  next[0] = NODE(r, "AddV2", NULL, i, one);
  next[1] = FAR(b, "AddV2", port(sw[1], 1), i);
  td_edge sum = on(b, b->other, "Sub", (td_edge[]){next[1], next[1]}, 2, NULL,
                   td_attr_int(0));
  td_edge both = on(b, b->other, "AddV2", (td_edge[]){port(sw[2], 1), one}, 2,
                    NULL, td_attr_int(0));
  next[2] =
      on(b, b->other, "AddV2", (td_edge[]){both, sum}, 2, NULL, td_attr_int(0));
  for (int k = 0; k < 3; k++)
    OK(td_node_set_back_edge(m[k].node, 1,
                             NODE(r, "NextIteration", NULL, next[k])));
  *last = NODE(r, "Exit", NULL, port(sw[2], 0));
  return NODE(r, "Exit", NULL, port(sw[1], 0));
}

EACH(loops) {
  static const int parallel[] = {1, 2, 10, 32};
  int n = rounds(50, 50);
  for (int k = 0; k < 4; k++) {
    char frame[16];
    td_edge fetch[2];
    td_tensor got[2];
    snprintf(frame, sizeof frame, "f%d", k);
    fetch[0] = far_loop(b, frame, n, parallel[k], &fetch[1]);
    td_signature sig = {.fetches = fetch, .n_fetches = 2};
    for (int i = 0; i < 3; i++) {
      OK(td_session_run(b->s, &sig, NULL, got,
                        &(td_step_options){.timeout = PATIENCE}));
      assert_true(td_tensor_get_f(&got[0], 0) == n * (n - 1) / 2);
      assert_true(td_tensor_get_f(&got[1], 0) == n);
      for (int v = 0; v < 2; v++) td_tensor_release(&got[v]);
    }
  }
}

/* ---- many at once -------------------------------------------------------- */

enum { THREADS = 16 };

typedef struct hand {
  bench *b;
  td_edge fetch;
  td_node *add;
  int n, steps;
  bool good;
} hand;

static void *work(void *arg) {
  hand *h = arg;
  double value = 0;
  td_step_options o = {.timeout = PATIENCE};
  h->good = true;
  for (int i = 0; h->good && i < h->steps; i++) {
    td_status *s = run1(h->b, h->fetch, &value, &o);
    if (td_ok(s)) s = run_op(h->b, h->add);
    h->good = td_ok(s) && value == h->n * (h->n - 1) / 2;
    if (!td_ok(s)) print_message("%s\n", td_status_message(s));
    td_status_release(s);
  }
  return NULL;
}

EACH(threads) {
  counter c;
  td_edge last;
  int n = rounds(50, 50), steps = rounds(25, 25);
  td_edge sum = far_loop(b, "f", n, 10, &last);
  hand hands[THREADS];
  pthread_t t[THREADS];
  make_counter(b, &c);
  OK(run_op(b, c.init));
  for (int i = 0; i < THREADS; i++) {
    hands[i] = (hand){b, sum, c.add, n, steps, false};
    assert_int_equal(pthread_create(&t[i], NULL, work, &hands[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
  for (int i = 0; i < THREADS; i++) assert_true(hands[i].good);
  double value;
  OK(run1(b, c.read, &value, NULL));
  assert_true(value == THREADS * steps);
}

/* ---- ends ---------------------------------------------------------------- */

/* while true, over all of them. */
static td_edge endless(bench *b) {
  td_edge last;
  return far_loop(b, "endless", 1 << 30, 4, &last);
}

/* Steps, each cancelled at some moment of its life; then all is well. */
EACH(cancelled) {
  td_callable *call;
  td_edge y = endless(b),
          sum = FAR(b, "AddV2", make_const(&b->r, TD_FLOAT64, 2, NULL),
                    make_const(&b->r, TD_FLOAT64, 3, NULL));
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  unsigned seed = 1;
  OK(td_callable_new(b->s, &sig, &call));
  for (int i = rounds(200, 1000); i > 0; i--) {
    td_async *a;
    td_tensor got;
    OK(td_async_start(call, NULL, NULL, &a));
    seed = seed * 1664525u + 1013904223u;
    usleep(seed >> 16 & 4095);
    int64_t began = td_clock_now();
    td_async_cancel(a);
    td_status *s = td_async_wait(a, PATIENCE, &got, NULL);
    assert_int_equal(td_status_code(s), TD_CANCELLED);
    assert_true(td_clock_now() - began < in_time(3 * SECOND));
    td_status_release(s);
    td_async_release(a);
  }
  td_callable_release(call);
  double value;
  OK(run1(b, sum, &value, &(td_step_options){.timeout = PATIENCE}));
  assert_true(value == 5);
}

/* An error by the timeout + 0.1 s (an overloaded machine is given more). */
EACH(timeouts) {
  td_edge y = endless(b);
  td_status_release(run1(b, y, NULL, &(td_step_options){.timeout = 200000000}));
  for (int i = 0; i < 10; i++) {
    int64_t limit = 20000000 + i * 10000000, began = td_clock_now();
    td_status *s = run1(b, y, NULL, &(td_step_options){.timeout = limit});
    int64_t took = td_clock_now() - began;
    assert_int_equal(td_status_code(s), TD_DEADLINE_EXCEEDED);
    td_status_release(s);
    if (took > limit + SECOND / 10)
      print_message("a timeout of %.3f s took %.3f s\n", (double)limit * 1e-9,
                    (double)took * 1e-9);
    assert_true(took < limit + in_time(SECOND / 2));
  }
}

static void *press(void *arg) {
  usleep(30000);
  __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
  return NULL;
}

EACH(interrupted) {
  td_edge y = endless(b);
  for (int i = 0; i < 5; i++) {
    int pressed = 0;
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, press, &pressed), 0);
    int64_t began = td_clock_now();
    td_status *s = run1(b, y, NULL, &(td_step_options){.interrupt = &pressed});
    assert_int_equal(td_status_code(s), TD_CANCELLED);
    assert_true(td_clock_now() - began < in_time(SECOND));
    td_status_release(s);
    pthread_join(t, NULL);
  }
}

/* An error of a kernel there, and one of this process while they compute. */
EACH(errors) {
  td_edge x = placeholder(b, TD_FLOAT64), y = placeholder(b, TD_FLOAT64);
  td_edge feeds[2] = {x, y};
  td_edge there = FAR(b, "MatMul", x, y);
  td_edge here = on(b, "/job:localhost/cpu:0", "MatMul", (td_edge[]){x, y}, 2,
                    NULL, td_attr_int(0));
  td_edge last[2] = {FAR(b, "Neg", here), there};
  int64_t dims[2] = {2, 3};
  td_tensor v[2];
  td_shape shape = td_shape_of(2, dims);
  for (int i = 0; i < 2; i++) {
    OK(td_tensor_new(NULL, TD_FLOAT64, &shape, &v[i]));
    memset(v[i].data, 0, td_tensor_bytes(&v[i]));
  }
  for (int i = 0; i < 20; i++) {
    td_edge fetch = last[i % 2];
    td_tensor got;
    td_signature sig = {
        .feeds = feeds, .n_feeds = 2, .fetches = &fetch, .n_fetches = 1};
    td_status *s = td_session_run(b->s, &sig, v, &got,
                                  &(td_step_options){.timeout = PATIENCE});
    assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
    const td_node *at = i % 2 ? there.node : here.node;
    assert_string_equal(td_status_node(s), at->name);
    td_status_release(s);
  }
  for (int i = 0; i < 2; i++) td_tensor_release(&v[i]);
}

/* A variable without a value there, by name. */
EACH(uninitialised) {
  counter c;
  make_counter(b, &c);
  td_status *s = run1(b, c.read, NULL, NULL);
  assert_int_equal(td_status_code(s), TD_FAILED_PRECONDITION);
  assert_non_null(strstr(td_status_message(s), "VarHandleOp"));
  td_status_release(s);
}

/* What the error of a step says of its updates there: of one that had begun, of
 * one that waited for what failed. */
static void check_applied(bench *b, td_node *target, const td_edge *feed,
                          const td_tensor *value, bool begun) {
  td_signature sig = {
      .feeds = feed, .n_feeds = 1, .targets = &target, .n_targets = 1};
  td_status *s = td_session_run(b->s, &sig, value, NULL,
                                &(td_step_options){.timeout = PATIENCE});
  const char *where = td_status_applied_where(s);
  assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
  if (!begun) assert_string_equal(where, "");
  if (begun) assert_non_null(strstr(where, "/job:worker/"));
  if (begun)
    assert_true(!strncmp(where, "unknown at ", 11) ||
                !strncmp(where, "all at ", 7));
  td_status_release(s);
}

EACH(applied) {
  counter c;
  td_tensor bad;
  make_counter(b, &c);
  OK(run_op(b, c.init));
  td_edge x = placeholder(b, TD_FLOAT64);
  td_edge ok = FAR(b, "Log", x);
  td_attr text = td_attr_string("bad");
  td_edge fails[3];
  for (int i = 0; i < 3; i++)
    fails[i] = on(b, i == 1 ? b->other : "/job:localhost/cpu:0",
                  "CheckNumerics", &ok, 1, "message", text);
  OK(td_tensor_scalar_f(TD_FLOAT64, 0, &bad));
  for (int i = 0; i < 2; i++) {
    counter d;
    make_counter(b, &d);
    OK(run_op(b, d.init));
    OK(td_node_add_control(d.add, fails[i].node));
    check_applied(b, d.add, &x, &bad, false);
  }
  OK(td_node_add_control(fails[2].node, c.add));
  check_applied(b, fails[2].node, &x, &bad, true);
  td_tensor_release(&bad);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dtypes),
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_strings),
      cmocka_unit_test(test_many_values),
      cmocka_unit_test(test_callables_and_async),
      cmocka_unit_test(test_loops_of_steps),
      cmocka_unit_test(test_partial),
      cmocka_unit_test(test_loops),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_cancelled),
      cmocka_unit_test(test_timeouts),
      cmocka_unit_test(test_interrupted),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_uninitialised),
      cmocka_unit_test(test_applied),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
