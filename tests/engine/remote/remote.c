/* remote.c - tests of engine/remote: steps over workers of this process.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pair.h"

static td_status *run(cluster *c, td_edge fetch, const td_step_options *o,
                      double *out) {
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  td_tensor value;
  TD_TRY(td_session_run(c->s, &sig, NULL, &value, o));
  if (out) *out = td_tensor_get_f(&value, 0);
  td_tensor_release(&value);
  return NULL;
}

/* (2 + 3) there, times 2 here, plus 3 there again. */
static void test_to_and_fro(void **state) {
  cluster c = {0};
  double value = 0;
  (void)state;
  cluster_init(&c, 1);
  c.s->options.passes_off = ~0u;
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL),
          three = make_const(&c.r, TD_FLOAT32, 3, NULL);
  td_edge sum = far_node(&c, 0, "Add", "sum", (td_edge[]){two, three}, 2);
  td_edge product = NODE(&c.r, "Mul", "product", sum, two);
  td_edge last = far_node(&c, 0, "Add", "last", (td_edge[]){product, three}, 2);
  for (int i = 0; i < 100; i++) {
    OK(run(&c, last, NULL, &value));
    assert_true(value == 13);
  }
  cluster_deinit(&c);
}

/* A value goes from one worker to the other, and back, not by this process:
 * what they say first waits until they know each other. */
static void test_between_workers(void **state) {
  cluster c = {0};
  double value = 0;
  (void)state;
  cluster_init(&c, 2);
  c.s->options.passes_off = ~0u;
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL);
  td_edge sum = far_node(&c, 0, "Add", "sum", (td_edge[]){two, two}, 2);
  td_edge square = far_node(&c, 1, "Mul", "square", (td_edge[]){sum, sum}, 2);
  td_edge last = far_node(&c, 0, "Add", "last", (td_edge[]){square, sum}, 2);
  for (int i = 0; i < 100; i++) {
    OK(run(&c, last, &(td_step_options){.timeout = PATIENCE}, &value));
    assert_true(value == 20);
  }
  cluster_deinit(&c);
}

/* What this process sends may be there before the worker's portion is started.
 */
static void test_early_value(void **state) {
  cluster c = {0};
  double value = 0;
  (void)state;
  cluster_init(&c, 2);
  c.s->options.passes_off = ~0u;
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL);
  td_edge here = NODE(&c.r, "Neg", "here", two);
  td_edge sum = far_node(&c, 0, "Add", "sum", (td_edge[]){here, two}, 2);
  td_edge all = far_node(&c, 1, "Add", "all", (td_edge[]){here, sum}, 2);
  for (int i = 0; i < 1000; i++) {
    OK(run(&c, all, &(td_step_options){.timeout = PATIENCE}, &value));
    assert_true(value == -2);
  }
  cluster_deinit(&c);
}

/* A client that goes before the last share of its session, which a step that
 * has just ended may have. */
static void test_clients_that_go(void **state) {
  cluster c = {0};
  (void)state;
  cluster_init(&c, 1);
  for (int i = 0; i < 10; i++) {
    td_channel *channel;
    td_remote *client;
    td_session *s;
    td_member *m;
    td_attach_options o = {.to.control = c.worker[0].address};
    OK(td_channel_zmq_new(&(td_channel_zmq_options){0}, &channel));
    OK(td_remote_new(&(td_remote_options){.runtime = c.r.runtime,
                                          .channel = channel,
                                          .thread = true},
                     &client));
    OK(td_session_new(c.r.runtime, c.r.graph, NULL, &s));
    OK(td_remote_attach(client, s, &o, &m));
    td_session_close(s);
    td_remote_close(client);
    td_remote_release(client);
    td_session_release(s);
  }
  cluster_deinit(&c);
}

/* A session that ended, closed or let go of, is none that another is taken for,
 * whatever is still said about it. */
static void test_one_after_another(void **state) {
  cluster c = {0};
  double value = 0;
  (void)state;
  cluster_init(&c, 2);
  td_edge two = make_const(&c.r, TD_FLOAT32, 2, NULL);
  td_edge sum = far_node(&c, 0, "Add", "sum", (td_edge[]){two, two}, 2);
  for (int i = 0; i < 50; i++) {
    if (i % 2) td_session_close(c.s);
    td_session_release(c.s);
    OK(td_session_new(c.r.runtime, c.r.graph, NULL, &c.s));
    for (int k = 0; k < 2; k++) {
      td_member *m;
      td_attach_options o = {.to.control = c.worker[k].address};
      OK(td_remote_attach(c.remote, c.s, &o, &m));
    }
    OK(run(&c, sum, &(td_step_options){.timeout = PATIENCE}, &value));
    assert_true(value == 4);
  }
  cluster_deinit(&c);
}

/* What the pool and threads have in hand may take a while. */
static bool soon(bool (*is)(cluster *c), cluster *c) {
  int64_t until = td_clock_now() + PATIENCE;
  while (!is(c))
    if (td_clock_now() > until)
      return false;
    else
      usleep(1000);
  return true;
}

/* ---- a worker that ends, and comes back ---------------------------------- */

typedef struct counter {
  td_node *init;
  td_edge add, read;
} counter;

static td_edge far_int(cluster *c, int task, double v) {
  td_edge k = make_const(&c->r, TD_INT64, v, NULL);
  return far_node(c, task, "Identity", NULL, &k, 1);
}

/* A variable there. */
static void make_counter(cluster *c, int task, counter *out) {
  td_build b;
  td_node *handle;
  char device[64];
  snprintf(device, sizeof device, "/job:worker/task:%d/device:CPU:0", task);
  td_build_init(&b, c->r.graph, "VarHandleOp", NULL);
  td_build_attr(&b, "dtype", td_attr_type(TD_INT64));
  td_shape shape = td_shape_of(0, NULL);
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  b.device = device;
  OK(td_build_node(&b, &handle));
  td_edge h = {handle, 0}, zero = far_int(c, task, 0),
          one = far_int(c, task, 1);
  out->init =
      make_node(&c->r, "AssignVariableOp", NULL, (td_edge[]){h, zero}, 2).node;
  out->add =
      make_node(&c->r, "AssignAddVariableOp", NULL, (td_edge[]){h, one}, 2);
  td_build_init(&b, c->r.graph, "ReadVariableOp", NULL);
  td_build_flat(&b, &h, 1);
  td_build_attr(&b, "dtype", td_attr_type(TD_INT64));
  td_node *read;
  OK(td_build_node(&b, &read));
  out->read = (td_edge){read, 0};
}

static td_status *run_op(cluster *c, td_node *op) {
  td_signature sig = {.targets = &op, .n_targets = 1};
  return td_session_run(c->s, &sig, NULL, NULL, NULL);
}

static counter *probe;

static bool is_back(cluster *c) {
  td_status *s = run_op(c, probe->init);
  bool ok = td_ok(s);
  td_status_release(s);
  return ok;
}

static void test_restart(void **state) {
  cluster c = {0};
  counter n;
  double value = 0;
  (void)state;
  cluster_init(&c, 1);
  make_counter(&c, 0, &n);
  OK(run_op(&c, n.init));
  for (int i = 0; i < 5; i++) OK(run_op(&c, n.add.node));
  OK(run(&c, n.read, NULL, &value));
  assert_true(value == 5);
  worker_stop(&c.worker[0]);
  td_status *s = run(&c, n.read, NULL, NULL);
  assert_int_equal(td_status_code(s), TD_UNAVAILABLE);
  assert_non_null(strstr(td_status_message(s), "/job:worker"));
  worker_start(&c, &c.worker[0], 0);
  /* Its variables are gone. */
  int64_t until = td_clock_now() + PATIENCE;
  do {
    td_status_release(s);
    s = run(&c, n.read, NULL, NULL);
  } while (td_status_code(s) == TD_UNAVAILABLE && td_clock_now() < until);
  FAILS(s, TD_FAILED_PRECONDITION, "initial");
  probe = &n;
  assert_true(soon(is_back, &c));
  OK(run_op(&c, n.add.node));
  OK(run(&c, n.read, NULL, &value));
  assert_true(value == 1);
  cluster_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_to_and_fro),
      cmocka_unit_test(test_between_workers),
      cmocka_unit_test(test_early_value),
      cmocka_unit_test(test_clients_that_go),
      cmocka_unit_test(test_one_after_another),
      cmocka_unit_test(test_restart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
