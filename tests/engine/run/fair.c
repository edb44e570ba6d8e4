/* fair.c - steps share the pool's threads, and who waits for one needs none.
 *
 * As many endless steps as the pool has threads, or tasks that hold every
 * thread: other steps get on all the same, or end by their deadline, by an
 * interrupt, by a cancel. Nothing here compares times: what must not happen is
 * that something never ends.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"
#include "tests/engine/run/wall.h"

#include <sched.h>

#include "engine/run/async.h"
#include "engine/run/loop.h"
#include "engine/run/partial.h"

enum { MOST = MOST_THREADS };
static const int64_t SECOND = 1000000000;

typedef struct world {
  rig r;
  td_session *s;
  td_edge x, y; /* y = -x */
  td_callable *endless, *counting, *small;
} world;

/* How far `counting` counts: seconds for all of them together. */
static int far(void) {
  return SANITIZED ? 10000 : 200000;
}

static td_edge make_placeholder(rig *r) {
  td_build b;
  td_node *n;
  td_shape scalar = td_shape_scalar();
  td_build_init(&b, r->graph, "Placeholder", "x");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT64));
  td_build_attr(&b, "shape", td_attr_shape(&scalar));
  OK(td_build_node(&b, &n));
  return (td_edge){n, 0};
}

/* for i = 0, n - 1 do end; gives n */
static td_edge make_counting(rig *r, int n) {
  td_edge zero = make_const(r, TD_FLOAT64, 0, NULL);
  td_edge most = make_const(r, TD_FLOAT64, n, NULL);
  td_edge merge =
      make_loop_merge(r, make_enter(r, zero, "counting", false, 10));
  td_edge limit = make_enter(r, most, "counting", true, 10);
  td_edge less = NODE(r, "Less", NULL, merge, limit);
  td_edge cond = NODE(r, "LoopCond", NULL, less);
  td_edge sw = NODE(r, "Switch", NULL, merge, cond);
  td_edge exit = NODE(r, "Exit", NULL, port(sw, 0));
  td_edge body = NODE(r, "Identity", NULL, port(sw, 1));
  td_edge one = make_const(r, TD_FLOAT64, 1, body.node);
  td_edge next = NODE(r, "AddV2", NULL, body, one);
  td_edge back = NODE(r, "NextIteration", NULL, next);
  OK(td_node_set_back_edge(merge.node, 1, back));
  return exit;
}

static void world_init(world *w) {
  rig_init(&w->r);
  w->x = make_placeholder(&w->r);
  w->y = NODE(&w->r, "Neg", NULL, w->x);
  td_edge never = make_endless(&w->r), end = make_counting(&w->r, far());
  td_signature endless = {.fetches = &never, .n_fetches = 1};
  td_signature counting = {.fetches = &end, .n_fetches = 1};
  td_signature small = {
      .feeds = &w->x, .n_feeds = 1, .fetches = &w->y, .n_fetches = 1};
  OK(td_session_new(w->r.runtime, w->r.graph, NULL, &w->s));
  OK(td_callable_new(w->s, &endless, &w->endless));
  OK(td_callable_new(w->s, &counting, &w->counting));
  OK(td_callable_new(w->s, &small, &w->small));
}

static void world_deinit(world *w) {
  td_callable_release(w->endless);
  td_callable_release(w->counting);
  td_callable_release(w->small);
  td_session_release(w->s);
  rig_deinit(&w->r);
}

static void start(td_callable *c, td_async **h, int n) {
  for (int i = 0; i < n; i++) OK(td_async_start(c, NULL, NULL, &h[i]));
}

static void stop(td_async **h, int n) {
  for (int i = 0; i < n; i++) td_async_cancel(h[i]);
  for (int i = 0; i < n; i++) {
    td_tensor out;
    FAILS(td_async_wait(h[i], -1, &out, NULL), TD_CANCELLED, "");
    td_async_release(h[i]);
  }
}

/* By the calling thread, or by the pool alone. */
static td_status *run_small(world *w, int i, bool alone) {
  td_tensor in, out;
  td_step_options o = {.timeout = 10 * SECOND};
  OK(td_tensor_scalar_f(TD_FLOAT64, i, &in));
  td_status *s;
  if (alone) {
    td_async *h;
    OK(td_async_start(w->small, &in, &o, &h));
    s = td_async_wait(h, -1, &out, NULL);
    td_async_release(h);
  } else {
    s = td_callable_run(w->small, &in, &out, &o);
  }
  if (td_ok(s)) assert_true(td_tensor_get_f(&out, 0) == -i);
  td_tensor_release(&in);
  td_tensor_release(&out);
  return s;
}

/* ---- endless steps ---- */

static void test_beside_endless_steps(void **state) {
  (void)state;
  world w;
  td_async *h[MOST];
  int n = td_pool_size() < MOST ? td_pool_size() : MOST;
  world_init(&w);
  start(w.endless, h, n);
  for (int i = 0; i < 100; i++) OK(run_small(&w, i, i % 2));
  td_tensor out;
  OK(td_callable_run(w.counting, NULL, &out, NULL));
  assert_true(td_tensor_get_f(&out, 0) == far());
  td_tensor_release(&out);
  stop(h, n);
  world_deinit(&w);
}

static void test_deadline_beside_endless_steps(void **state) {
  (void)state;
  world w;
  td_async *h[MOST];
  int n = td_pool_size() < MOST ? td_pool_size() : MOST;
  world_init(&w);
  start(w.endless, h, n);
  for (int i = 0; i < 10; i++) {
    td_tensor out;
    td_step_options o = {.timeout = SECOND / 50};
    FAILS(td_callable_run(w.endless, NULL, &out, &o), TD_DEADLINE_EXCEEDED,
          "did not end within");
  }
  stop(h, n);
  world_deinit(&w);
}

static void *interrupt_soon(void *flag) {
  struct timespec t = {.tv_nsec = 30000000};
  nanosleep(&t, NULL);
  __atomic_store_n((int *)flag, 1, __ATOMIC_RELEASE);
  return NULL;
}

static void test_interrupt_beside_endless_steps(void **state) {
  (void)state;
  world w;
  td_async *h[MOST];
  int flag = 0, n = td_pool_size() < MOST ? td_pool_size() : MOST;
  world_init(&w);
  start(w.endless, h, n);
  pthread_t t;
  td_tensor out;
  td_step_options o = {.interrupt = &flag};
  assert_int_equal(pthread_create(&t, NULL, interrupt_soon, &flag), 0);
  FAILS(td_callable_run(w.endless, NULL, &out, &o), TD_CANCELLED,
        "interrupted");
  pthread_join(t, NULL);
  stop(h, n);
  world_deinit(&w);
}

/* 8 endless and 8 finite loops, and many small steps. */
static void test_under_load(void **state) {
  (void)state;
  world w;
  td_async *endless[8], *counting[8];
  int late = 0, n = rounds(1000, 10000);
  world_init(&w);
  start(w.endless, endless, 8);
  start(w.counting, counting, 8);
  for (int i = 0; i < n; i++) {
    td_status *s = run_small(&w, i, i % 2);
    if (!td_ok(s)) assert_int_equal(td_status_code(s), TD_DEADLINE_EXCEEDED);
    late += !td_ok(s);
    td_status_release(s);
  }
  for (int i = 0; i < 8; i++) {
    td_tensor out;
    OK(td_async_wait(counting[i], -1, &out, NULL));
    assert_true(td_tensor_get_f(&out, 0) == far());
    td_tensor_release(&out);
    td_async_release(counting[i]);
  }
  print_message("%d small steps, %d of them late\n", n, late);
  stop(endless, 8);
  world_deinit(&w);
}

/* Loops of small steps all get on, whichever began first. */
static void test_loops_get_on(void **state) {
  (void)state;
  enum { LOOPS = 4, STEPS = 2000 };
  world w;
  td_async *endless[2];
  td_loop *h[LOOPS];
  td_callable *c;
  td_loop_options o = {.steps = -1};
  world_init(&w);
  td_edge four = make_const(&w.r, TD_FLOAT64, 4, NULL);
  td_edge two = NODE(&w.r, "Sqrt", NULL, four);
  td_signature sig = {.targets = &two.node, .n_targets = 1};
  OK(td_callable_new(w.s, &sig, &c));
  start(w.endless, endless, 2);
  for (int i = 0; i < LOOPS; i++) OK(td_loop_start(c, &o, &h[i]));
  for (int i = 0; i < LOOPS; i++)
    while (td_loop_steps(h[i]) < STEPS) sched_yield();
  for (int i = 0; i < LOOPS; i++) td_loop_cancel(h[i]);
  for (int i = 0; i < LOOPS; i++) {
    FAILS(td_loop_wait(h[i], -1, NULL), TD_CANCELLED, "");
    td_loop_release(h[i]);
  }
  stop(endless, 2);
  td_callable_release(c);
  world_deinit(&w);
}

/* ---- no thread of the pool at all ---- */

static void test_without_the_pool(void **state) {
  (void)state;
  world w;
  if (!wall_up()) return skip();
  world_init(&w);
  for (int i = 0; i < 5; i++) OK(run_small(&w, i, i % 2));
  td_tensor out;
  OK(td_callable_run(w.counting, NULL, &out, NULL));
  td_tensor_release(&out);
  td_step_options o = {.timeout = SECOND / 20};
  FAILS(td_callable_run(w.endless, NULL, &out, &o), TD_DEADLINE_EXCEEDED, "");
  wall_down();
  world_deinit(&w);
}

/* A step that nobody has begun is cancelled, or its session closed. */
static void test_abandoned_without_the_pool(void **state) {
  (void)state;
  world w;
  td_async *h[3];
  td_partial *p;
  if (!wall_up()) return skip();
  world_init(&w);
  start(w.endless, h, 2);
  stop(h, 2);
  td_signature sig = {
      .feeds = &w.x, .n_feeds = 1, .fetches = &w.y, .n_fetches = 1};
  OK(td_partial_new(w.s, &sig, NULL, &p));
  td_partial_release(p);
  start(w.endless, h, 3);
  td_session_close(w.s);
  for (int i = 0; i < 3; i++) {
    td_tensor out;
    FAILS(td_async_wait(h[i], -1, &out, NULL), TD_CANCELLED, "closed");
    td_async_release(h[i]);
  }
  wall_down();
  world_deinit(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_beside_endless_steps),
      cmocka_unit_test(test_deadline_beside_endless_steps),
      cmocka_unit_test(test_interrupt_beside_endless_steps),
      cmocka_unit_test(test_under_load),
      cmocka_unit_test(test_loops_get_on),
      cmocka_unit_test(test_without_the_pool),
      cmocka_unit_test(test_abandoned_without_the_pool),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
