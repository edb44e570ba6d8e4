/* state.c - variables under a session: whole reads, no copies in training.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/variable.h"
#include "tests/engine/run/rig.h"

#include "engine/run/loop.h"

enum { SIZE = 4096 };

static td_edge make_op(rig *r, const char *op, const td_edge *in, int n,
                       const char *attr, td_attr value) {
  td_build b;
  td_node *node;
  td_build_init(&b, r->graph, op, NULL);
  for (int i = 0; i < n; i++) td_build_in(&b, in[i]);
  if (attr) td_build_attr(&b, attr, value);
  OK(td_build_node(&b, &node));
  return (td_edge){node, 0};
}

static td_edge vector(rig *r, float v) {
  td_tensor t;
  td_shape shape = td_shape_vector(SIZE);
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &t));
  for (int i = 0; i < SIZE; i++) ((float *)t.data)[i] = v;
  td_build b;
  td_node *n;
  td_build_init(&b, r->graph, "Const", NULL);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "value", td_attr_tensor(&t));
  OK(td_build_node(&b, &n));
  td_tensor_release(&t);
  return (td_edge){n, 0};
}

typedef struct model {
  rig r;
  td_session *s;
  td_edge v, read;
  td_node *init, *step;
} model;

/* v starts as zeros; the step is v -= -1 * (v * 0 + 1). */
static void model_init(model *m) {
  rig *r = &m->r;
  rig_init(r);
  td_build b;
  td_node *n;
  td_shape shape = td_shape_vector(SIZE);
  td_build_init(&b, r->graph, "VarHandleOp", "v");
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  td_build_attr(&b, "shape", td_attr_shape(&shape));
  OK(td_build_node(&b, &n));
  m->v = (td_edge){n, 0};
  td_attr f32 = td_attr_type(TD_FLOAT32);
  td_edge zeros = vector(r, 0), ones = vector(r, 1);
  td_edge minus = make_const(r, TD_FLOAT32, -1, NULL);
  m->init =
      make_op(r, "AssignVariableOp", (td_edge[]){m->v, zeros}, 2, "dtype", f32)
          .node;
  m->read = make_op(r, "ReadVariableOp", &m->v, 1, "dtype", f32);
  td_edge again = make_op(r, "ReadVariableOp", &m->v, 1, "dtype", f32);
  td_edge flat = NODE(r, "Mul", NULL, again, zeros);
  td_edge g = NODE(r, "AddV2", NULL, flat, ones);
  m->step = make_op(r, "ResourceApplyGradientDescent",
                    (td_edge[]){m->v, minus, g}, 3, NULL, (td_attr){0})
                .node;
  OK(session_new(r->runtime, r->graph, NULL, &m->s));
  td_signature sig = {.targets = &m->init, .n_targets = 1};
  OK(td_session_run(m->s, &sig, NULL, NULL, NULL));
}

static void model_deinit(model *m) {
  td_session_release(m->s);
  rig_deinit(&m->r);
}

/* The planner lets the reader go first, so the update writes in place. */
static void test_training_copies_nothing(void **state) {
  (void)state;
  model m;
  model_init(&m);
  td_edge fetch = make_op(&m.r, "Identity", &m.read, 1, NULL, (td_attr){0});
  td_edge sum =
      NODE(&m.r, "Max", NULL, fetch, make_const(&m.r, TD_INT32, 0, NULL));
  td_signature sig = {
      .fetches = &sum, .n_fetches = 1, .targets = &m.step, .n_targets = 1};
  td_tensor out;
  td_variable_stats before = td_variable_read_stats();
  for (int i = 0; i < 100; i++) {
    OK(td_session_run(m.s, &sig, NULL, &out, NULL));
    assert_true(td_tensor_get_f(&out, 0) == i); /* read before the update */
    td_tensor_release(&out);
  }
  td_variable_stats now = td_variable_read_stats();
  assert_int_equal(now.copied_on_write - before.copied_on_write, 0);
  model_deinit(&m);
}

/* A held read keeps its value: the update writes to a fresh buffer. */
static void test_held_read(void **state) {
  (void)state;
  model m;
  model_init(&m);
  td_signature read = {.fetches = &m.read, .n_fetches = 1};
  td_signature step = {.targets = &m.step, .n_targets = 1};
  td_tensor held, now;
  OK(td_session_run(m.s, &read, NULL, &held, NULL));
  OK(td_session_run(m.s, &step, NULL, NULL, NULL));
  OK(td_session_run(m.s, &read, NULL, &now, NULL));
  assert_true(td_tensor_get_f(&held, SIZE - 1) == 0);
  assert_true(td_tensor_get_f(&now, SIZE - 1) == 1);
  td_tensor_release(&held);
  td_tensor_release(&now);
  model_deinit(&m);
}

/* The same when rows are changed, even where the value was read before any row
 * ever was: the graph says that it will be. */
static void test_held_read_of_rows(void **state) {
  (void)state;
  model m;
  model_init(&m);
  td_edge at = make_const(&m.r, TD_INT32, 5, NULL);
  td_edge more = make_const(&m.r, TD_FLOAT32, 2, NULL);
  td_edge in[] = {m.v, at, more};
  td_node *scatter =
      make_op(&m.r, "ResourceScatterAdd", in, 3, NULL, (td_attr){0}).node;
  td_signature read = {.fetches = &m.read, .n_fetches = 1};
  td_signature sig = {.targets = &scatter, .n_targets = 1};
  td_tensor held, now;
  OK(td_session_run(m.s, &read, NULL, &held, NULL));
  td_variable_stats before = td_variable_read_stats();
  OK(td_session_run(m.s, &sig, NULL, NULL, NULL));
  td_variable_stats after = td_variable_read_stats();
  assert_int_equal(after.copied_on_write - before.copied_on_write, 0);
  OK(td_session_run(m.s, &read, NULL, &now, NULL));
  assert_true(td_tensor_get_f(&held, 5) == 0);
  assert_true(td_tensor_get_f(&now, 5) == 2);
  td_tensor_release(&held);
  td_tensor_release(&now);
  model_deinit(&m);
}

/* While two threads update, every read is of one moment. */
static void test_never_torn(void **state) {
  (void)state;
  model m;
  model_init(&m);
  td_callable *c;
  td_loop *h;
  td_loop_options o = {.threads = 2, .steps = 4000};
  td_signature step = {.targets = &m.step, .n_targets = 1};
  td_signature read = {.fetches = &m.read, .n_fetches = 1};
  OK(td_callable_new(m.s, &step, &c));
  OK(td_loop_start(c, &o, &h));
  float last = 0;
  int reads = 0;
  while (!td_loop_over(h)) {
    td_tensor out;
    OK(td_session_run(m.s, &read, NULL, &out, NULL));
    const float *v = out.data;
    for (int i = 1; i < SIZE; i++)
      if (v[i] != v[0]) fail_msg("torn: %g and %g", v[0], v[i]);
    assert_true(v[0] >= last);
    last = v[0];
    reads++;
    td_tensor_release(&out);
  }
  OK(td_loop_wait(h, -1, NULL));
  td_tensor out;
  OK(td_session_run(m.s, &read, NULL, &out, NULL));
  assert_true(td_tensor_get_f(&out, 0) == 4000);
  td_tensor_release(&out);
  print_message("%d reads beside 4000 updates\n", reads);
  td_loop_release(h);
  td_callable_release(c);
  model_deinit(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_training_copies_nothing),
      cmocka_unit_test(test_held_read),
      cmocka_unit_test(test_held_read_of_rows),
      cmocka_unit_test(test_never_torn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
