/* stops.c - steps stopped at random moments: by a deadline, a cancel, an
 * interrupt, the end of their session.
 *
 * The step is an endless loop that adds one to each element of a variable.
 * However it is stopped, run returns promptly, the next run works and the
 * variable is whole: an update that has begun is finished. TIDE_SOAK stops ten
 * thousand steps by deadlines and ten thousand by the rest.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"

#include <stdlib.h>
#include <time.h>

#include "engine/run/async.h"
#include "engine/run/loop.h"

enum { SIZE = 65536, LONGEST = 3000000 /* ns before a stop */ };

typedef struct world {
  rig r;
  int cpus;
  unsigned seed;
  td_session *s;
  td_callable *endless, *step; /* of the session */
  td_edge never, read, sum;
  td_node *init, *add;
} world;

static td_edge state_op(rig *r, const char *op, td_edge handle,
                        const td_edge *value) {
  td_build b;
  td_node *n;
  td_build_init(&b, r->graph, op, NULL);
  td_build_in(&b, handle);
  if (value) td_build_in(&b, *value);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static td_edge variable(rig *r) {
  td_build b;
  td_node *n;
  td_shape shape = td_shape_vector(SIZE);
  td_build_init(&b, r->graph, "VarHandleOp", "whole");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  td_build_attr(&b, "shared_name", td_attr_string("whole"));
  td_build_attr(&b, "container", td_attr_string("shared"));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

static td_edge filled(rig *r, float v) {
  td_tensor t;
  td_build b;
  td_node *n;
  td_shape shape = td_shape_vector(SIZE);
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &t));
  for (int i = 0; i < SIZE; i++) ((float *)t.data)[i] = v;
  td_build_init(&b, r->graph, "Const", NULL);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "value", td_attr_tensor(&t));
  OK(td_build_node(&b, &n));
  td_tensor_release(&t);
  return (td_edge){n, 0};
}

/* A session and what it keeps planned. */
static void world_open(world *w) {
  td_session_options o = {.threads = 2,
                          .cpu_devices = w->cpus,
                          .first = device_type(NULL),
                          .verify = true};
  td_signature never = {.fetches = &w->never, .n_fetches = 1};
  td_signature step = {.targets = &w->add, .n_targets = 1};
  OK(session_new(w->r.runtime, w->r.graph, &o, &w->s));
  OK(td_callable_new(w->s, &never, &w->endless));
  OK(td_callable_new(w->s, &step, &w->step));
}

static void world_close(world *w) {
  td_callable_release(w->endless);
  td_callable_release(w->step);
  td_session_release(w->s);
}

static void world_init(world *w, int cpus) {
  *w = (world){.cpus = cpus, .seed = 1};
  rig *r = &w->r;
  rig_init(r);
  w->never = make_endless(r);
  td_node *add = td_graph_find(r->graph, "endless_add");
  td_node *body = td_graph_find(r->graph, "endless_body");
  if (cpus == 2) OK(td_node_set_device(add, "/device:CPU:1"));
  td_edge v = variable(r), zeros = filled(r, 0), ones = filled(r, 1);
  td_edge in_v = make_enter(r, v, "endless", true, 10);
  td_edge in_ones = make_enter(r, ones, "endless", true, 10);
  td_edge up = state_op(r, "AssignAddVariableOp", in_v, &in_ones);
  OK(td_node_add_control(up.node, body));
  OK(td_node_add_control(add, up.node));
  w->init = state_op(r, "AssignVariableOp", v, &zeros).node;
  w->add = state_op(r, "AssignAddVariableOp", v, &ones).node;
  w->read = state_op(r, "ReadVariableOp", v, NULL);
  td_edge two = make_const(r, TD_FLOAT64, 2, NULL);
  w->sum = NODE(r, "AddV2", NULL, two, two);
  world_open(w);
  td_signature init = {.targets = &w->init, .n_targets = 1};
  OK(td_session_run(w->s, &init, NULL, NULL, NULL));
}

static void world_deinit(world *w) {
  world_close(w);
  rig_deinit(&w->r);
}

/* Lets the step get somewhere. */
static void nap(world *w) {
  struct timespec t = {.tv_nsec = rand_r(&w->seed) % LONGEST};
  nanosleep(&t, NULL);
}

static void expect(td_status *s, td_code code) {
  if (td_status_code(s) != code)
    fail_msg("%s: %s", td_code_name(td_status_code(s)), td_status_message(s));
  td_status_release(s);
}

/* ---- ways to stop: each returns how late the step came back, in ns ---- */

static int64_t by_deadline(world *w) {
  td_tensor out;
  td_step_options o = {.timeout = 100000 + rand_r(&w->seed) % LONGEST};
  int64_t start = td_clock_now();
  td_status *s = td_callable_run(w->endless, NULL, &out, &o);
  int64_t late = td_clock_now() - start - o.timeout;
  expect(s, TD_DEADLINE_EXCEEDED);
  return late;
}

static int64_t by_cancel(world *w) {
  td_async *h;
  td_tensor out;
  OK(td_async_start(w->endless, NULL, NULL, &h));
  nap(w);
  int64_t start = td_clock_now();
  td_async_cancel(h);
  td_status *s = td_async_wait(h, -1, &out, NULL);
  int64_t late = td_clock_now() - start;
  expect(s, TD_CANCELLED);
  td_async_release(h);
  return late;
}

static int64_t by_close(world *w) {
  td_async *h;
  td_tensor out;
  OK(td_async_start(w->endless, NULL, NULL, &h));
  nap(w);
  int64_t start = td_clock_now();
  td_session_close(w->s);
  td_status *s = td_async_wait(h, -1, &out, NULL);
  int64_t late = td_clock_now() - start;
  expect(s, TD_CANCELLED);
  td_async_release(h);
  world_close(w);
  world_open(w);
  return late;
}

/* A loop of short steps in two chains. */
static int64_t by_loop(world *w) {
  td_loop *h;
  td_loop_options o = {.threads = 2, .steps = -1};
  OK(td_loop_start(w->step, &o, &h));
  nap(w);
  int64_t start = td_clock_now();
  td_loop_cancel(h);
  td_status *s = td_loop_wait(h, -1, NULL);
  int64_t late = td_clock_now() - start;
  expect(s, TD_CANCELLED);
  td_loop_release(h);
  return late;
}

typedef struct alarm_clock {
  world *w;
  int64_t rang;
  int flag; /* atomic: what run listens to */
} alarm_clock;

static void *ring(void *arg) {
  alarm_clock *a = arg;
  nap(a->w);
  a->rang = td_clock_now();
  __atomic_store_n(&a->flag, 1, __ATOMIC_RELEASE);
  return NULL;
}

static int64_t by_interrupt(world *w) {
  pthread_t t;
  td_tensor out;
  alarm_clock a = {.w = w};
  td_step_options o = {.interrupt = &a.flag};
  assert_int_equal(pthread_create(&t, NULL, ring, &a), 0);
  td_status *s = td_callable_run(w->endless, NULL, &out, &o);
  int64_t over = td_clock_now();
  pthread_join(t, NULL);
  expect(s, TD_CANCELLED);
  return over - a.rang;
}

/* ---- many of them ---- */

static void check_after(world *w) {
  td_edge fetches[2] = {w->sum, w->read};
  td_tensor out[2];
  td_signature sig = {.fetches = fetches, .n_fetches = 2};
  OK(td_session_run(w->s, &sig, NULL, out, NULL));
  assert_true(td_tensor_get_f(&out[0], 0) == 4);
  const float *v = out[1].data;
  for (int i = 1; i < SIZE; i++)
    if (v[i] != v[0]) fail_msg("torn: %g at 0, %g at %d", v[0], v[i], i);
  td_tensor_release(&out[0]);
  td_tensor_release(&out[1]);
}

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static void stop_often(const char *what, int64_t (*stop)(world *w), int cpus,
                       int n) {
  world w;
  world_init(&w, cpus);
  int64_t *late = calloc((size_t)n, sizeof *late);
  for (int i = 0; i < n; i++) {
    late[i] = stop(&w);
    check_after(&w);
  }
  qsort(late, (size_t)n, sizeof *late, by_size);
  double p99 = (double)late[(n - 1) * 99 / 100] * 1e-6;
  print_message("%s, %d CPU devices: %d stops, p50 %.2f ms, p99 %.2f ms, "
                "worst %.2f ms\n",
                what, cpus, n, (double)late[n / 2] * 1e-6, p99,
                (double)late[n - 1] * 1e-6);
  if (soaked() && !SANITIZED) assert_true(p99 <= 100);
  free(late);
  world_deinit(&w);
}

static void test_deadline(void **state) {
  (void)state;
  for (int cpus = 1; cpus <= 2; cpus++)
    stop_often("deadline", by_deadline, cpus, rounds(150, 5000));
}

static void test_cancel(void **state) {
  static const struct {
    const char *what;
    int64_t (*stop)(world *w);
  } ways[] = {
      {"cancel of a handle", by_cancel},
      {"session closed", by_close},
      {"cancel of a loop", by_loop},
      {"interrupt", by_interrupt},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(ways); i++)
    for (int cpus = 1; cpus <= 2; cpus++)
      stop_often(ways[i].what, ways[i].stop, cpus, rounds(38, 1250));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_deadline),
      cmocka_unit_test(test_cancel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
