/* lua_op.c - what a kernel has the thread that waits for its step do, without
 * Lua: who serves, who cannot, and what a cancel or a handle that is let go
 * does to what was posted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"

#include <sched.h>

#include "engine/run/async.h"
#include "engine/run/loop.h"
#include "engine/run/partial.h"

typedef struct bench {
  rig r;
  td_session *s;
} bench;

static void bench_init(bench *b) {
  rig_init(&b->r);
  td_session_options o = {.threads = 2, .first = device_type(NULL)};
  OK(td_session_new(b->r.runtime, b->r.graph, &o, &b->s));
}

static void bench_deinit(bench *b) {
  td_session_release(b->s);
  rig_deinit(&b->r);
}

/* A node that gives a float64 for `in`; `token` says to `serve` what it does.
 */
static td_edge asks(bench *b, const char *token, td_edge in) {
  td_build c;
  td_node *n;
  const td_dtype f64 = TD_FLOAT64;
  td_build_init(&c, b->r.graph, "LuaOp", NULL);
  td_build_list(&c, &in, 1);
  td_build_attr(&c, "token", td_attr_string(token));
  td_build_attr(&c, "Tout", td_attr_types(&f64, 1));
  OK(td_build_node(&c, &n));
  return (td_edge){n, 0};
}

/* ---- what serves --------------------------------------------------------- */

static pthread_t expected;
static int served; /* by `expected` only */
static td_async *within;

static td_status *serve(td_kernel_ctx *c) {
  const char *token = td_node_string(td_ctx_node(c), "token");
  assert_true(pthread_equal(pthread_self(), expected));
  served++;
  if (strcmp(token, "fail") == 0)
    return td_error(TD_DATA_LOSS, "no answer to this");
  if (strcmp(token, "wrong") == 0)
    return td_tensor_scalar_f(TD_FLOAT32, 1, &c->out[0]);
  if (strcmp(token, "nothing") == 0) return NULL;
  if (strcmp(token, "cancel") == 0) td_async_cancel(within);
  return td_tensor_scalar_f(TD_FLOAT64, 1 + td_tensor_get_f(td_in(c, 0), 0),
                            &c->out[0]);
}

static const td_step_options with = {.serve = serve};

static td_status *run(bench *b, td_edge y, double *out,
                      const td_step_options *o) {
  td_tensor got;
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  expected = pthread_self();
  td_status *s = td_session_run(b->s, &sig, NULL, &got, o);
  if (td_ok(s)) *out = td_tensor_get_f(&got, 0);
  td_tensor_release(&got);
  return s;
}

/* ---- the tests ----------------------------------------------------------- */

static void test_serves(void **state) {
  (void)state;
  enum { CHAIN = 100 };
  bench b;
  bench_init(&b);
  double v;
  td_edge one = make_const(&b.r, TD_FLOAT64, 1, NULL), y = one;
  for (int i = 0; i < CHAIN; i++) y = asks(&b, "add", y);
  for (int i = 0; i < 40; i++) { /* on the pool, and here where it is short */
    served = 0;
    OK(run(&b, y, &v, &with));
    assert_true(v == 1 + CHAIN);
    assert_int_equal(served, CHAIN);
  }
  FAILS(run(&b, asks(&b, "fail", one), &v, &with), TD_DATA_LOSS, "no answer");
  FAILS(run(&b, asks(&b, "wrong", one), &v, &with), TD_INVALID_ARGUMENT,
        "result 0 is float32 and was to be float64");
  FAILS(run(&b, asks(&b, "nothing", one), &v, &with), TD_INTERNAL,
        "result 0 was not set");
  bench_deinit(&b);
}

static void test_nobody(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  double v;
  td_edge y = asks(&b, "add", make_const(&b.r, TD_FLOAT64, 1, NULL));
  FAILS(run(&b, y, &v, NULL), TD_FAILED_PRECONDITION, "nobody waits");
  td_callable *c;
  td_loop *l;
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  OK(td_callable_new(b.s, &sig, &c));
  OK(td_loop_start(c, &(td_loop_options){.steps = 3}, &l));
  FAILS(td_loop_wait(l, -1, NULL), TD_FAILED_PRECONDITION, "nobody waits");
  td_loop_release(l);
  td_callable_release(c);
  bench_deinit(&b);
}

static void wait_until_asked(bench *b) {
  td_str why;
  do {
    sched_yield();
    td_str_init(&why);
    td_session_why(b->s, &why);
  } while (!strstr(td_str_c(&why), "to call function") &&
           (td_str_deinit(&why), true));
  td_str_deinit(&why);
}

static td_async *begin(bench *b, td_callable **c, td_edge y) {
  td_async *a;
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  OK(td_callable_new(b->s, &sig, c));
  OK(td_async_start(*c, NULL, &with, &a));
  wait_until_asked(b);
  return a;
}

static void test_handles(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  td_edge one = make_const(&b.r, TD_FLOAT64, 1, NULL);
  td_edge add = asks(&b, "add", asks(&b, "add", one));
  td_callable *c;
  td_tensor got;
  served = 0;
  expected = pthread_self();
  td_async *a = begin(&b, &c, add);
  assert_int_equal(served, 0);
  OK(td_async_wait(a, -1, &got, NULL));
  assert_true(td_tensor_get_f(&got, 0) == 3 && served == 2);
  td_tensor_release(&got);
  td_async_release(a);
  td_callable_release(c);

  a = begin(&b, &c, add); /* cancelled before anybody served */
  td_async_cancel(a);
  FAILS(td_async_wait(a, -1, &got, NULL), TD_CANCELLED, "cancelled");
  td_async_release(a);
  td_callable_release(c);

  a = begin(&b, &c, add); /* let go: it fails, and the session can end */
  td_async_release(a);
  td_callable_release(c);

  a = begin(&b, &c, add); /* closed */
  td_callable_release(c);
  td_session_close(b.s);
  FAILS(td_async_wait(a, -1, &got, NULL), TD_CANCELLED, "closed");
  td_async_release(a);
  assert_int_equal(served, 2);
  bench_deinit(&b);
}

/* The step ends while it is served: what is set comes to nothing. */
static void test_cancelled_while_served(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  td_callable *c;
  td_tensor got;
  td_edge y = asks(&b, "cancel", make_const(&b.r, TD_FLOAT64, 1, NULL));
  expected = pthread_self();
  within = begin(&b, &c, y);
  FAILS(td_async_wait(within, -1, &got, NULL), TD_CANCELLED, "cancelled");
  td_async_release(within);
  td_callable_release(c);
  bench_deinit(&b);
}

/* Handles that are let go at any moment of their steps. */
static void test_let_go_at_random(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  td_edge y = make_const(&b.r, TD_FLOAT64, 1, NULL);
  for (int i = 0; i < 5; i++) y = asks(&b, "add", y);
  td_signature sig = {.fetches = &y, .n_fetches = 1};
  td_callable *c;
  expected = pthread_self();
  OK(td_callable_new(b.s, &sig, &c));
  for (int i = 0; i < rounds(300, 10000); i++) {
    td_async *a;
    OK(td_async_start(c, NULL, &with, &a));
    for (int k = 0; k < i % 40; k++) sched_yield();
    if (i % 3 == 0) td_async_cancel(a);
    if (i % 5 == 0) {
      td_tensor got = {0}; /* a wait that was too short sets nothing */
      td_status_release(td_async_wait(a, 0, &got, NULL));
      td_tensor_release(&got);
    }
    td_async_release(a);
  }
  td_callable_release(c);
  bench_deinit(&b);
}

static void test_partial(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  td_edge one = make_const(&b.r, TD_FLOAT64, 1, NULL);
  td_edge y[2] = {asks(&b, "add", one)};
  y[1] = asks(&b, "add", y[0]);
  td_signature sig = {.fetches = y, .n_fetches = 2};
  td_partial *p;
  expected = pthread_self();
  OK(td_partial_new(b.s, &sig, &with, &p));
  for (int i = 0; i < 2; i++) {
    td_tensor got;
    OK(td_partial_run(p, NULL, NULL, 0, &i, &got, 1, NULL));
    assert_true(td_tensor_get_f(&got, 0) == 2 + i);
    td_tensor_release(&got);
  }
  td_partial_release(p);
  OK(td_partial_new(b.s, &sig, &with, &p)); /* given up while it asks */
  wait_until_asked(&b);
  td_partial_release(p);
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_serves),
      cmocka_unit_test(test_nobody),
      cmocka_unit_test(test_handles),
      cmocka_unit_test(test_cancelled_while_served),
      cmocka_unit_test(test_let_go_at_random),
      cmocka_unit_test(test_partial),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
