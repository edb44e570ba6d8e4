/* kernel.c - state, outputs, and a kernel's way through locks and cancels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/device/run_node.h"

#include <sched.h>
#include <time.h>
#include <xmmintrin.h>

static td_graph *fresh_graph(void) {
  td_graph *g;
  OK(td_graph_new(&g));
  return g;
}

static void nap(void) {
  nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* ---- state --------------------------------------------------------------- */

static int32_t run_count(td_states *keep, const td_node *n) {
  td_step step = step_new();
  pending f;
  OK(pending_init(&f, n, cpu, keep, &step, NULL));
  td_kernel_start(&f.ctx);
  OK(pending_wait(&f));
  int32_t v = *(const int32_t *)f.out[0].data;
  pending_end(&f);
  step_end(&step);
  return v;
}

static void test_state_belongs_to_session_and_node(void **state) {
  td_graph *g = fresh_graph();
  td_build b;
  td_node *n[2];
  td_states *keep[2];
  (void)state;
  for (int i = 0; i < 2; i++) {
    td_build_init(&b, g, "TestCount", NULL);
    OK(td_build_node(&b, &n[i]));
    OK(td_states_new(&keep[i]));
  }
  assert_int_equal(run_count(keep[0], n[0]), 1);
  assert_int_equal(run_count(keep[0], n[0]), 2);
  assert_int_equal(run_count(keep[0], n[1]), 1);
  assert_int_equal(run_count(keep[1], n[0]), 1);
  assert_int_equal(run_count(NULL, n[0]), 1);
  assert_int_equal(run_count(NULL, n[0]), 1);
  n[1]->serial += 100; /* another node of that name */
  assert_int_equal(run_count(keep[0], n[1]), 1);
  assert_int_equal(run_count(keep[0], n[1]), 2);
  assert_int_equal(states, 4);
  td_states_release(keep[0]);
  td_states_release(keep[1]);
  assert_int_equal(states, 0);
  td_graph_release(g);
}

/* ---- outputs ------------------------------------------------------------- */

static void test_forwarding(void **state) {
  td_graph *g = fresh_graph();
  td_node *n = NODE(g, "TestDouble", TD_FLOAT32);
  td_step step = step_new();
  (void)state;
  /* 0: alone; 1: shared; 2: read-only; 3: a small view of a large buffer */
  for (int how = 0; how < 4; how++) {
    td_tensor x = how == 3 ? FLOATS(1, 2, 3, 4, 5, 6, 7, 8) : FLOATS(1, 2, 3);
    if (how == 3) {
      td_tensor view;
      OK(td_tensor_rows(&x, 0, 2, &view));
      td_tensor_release(&x);
      x = view;
    }
    x.buffer->readonly = how == 2;
    pending f;
    td_tensor none = {0};
    OK(pending_init(&f, n, cpu, NULL, &step, &none));
    f.in[0] = x;
    if (how == 1) td_buffer_retain(x.buffer);
    uint64_t stamp = x.buffer->stamp;
    td_kernel_start(&f.ctx);
    OK(pending_wait(&f));
    assert_int_equal(f.out[0].buffer == x.buffer, how == 0);
    assert_int_equal(x.buffer->stamp != stamp, how == 0);
    assert_true(td_tensor_get_f(&f.out[0], 1) == 4);
    assert_true(how == 0 || td_tensor_get_f(&x, 1) == 2);
    if (how == 1) td_buffer_release(x.buffer);
    pending_end(&f);
  }
  step_end(&step);
  td_graph_release(g);
}

static void test_pass_moves_or_shares(void **state) {
  td_graph *g = fresh_graph();
  td_node *n = NODE(g, "Identity", TD_FLOAT32);
  td_step step = step_new();
  (void)state;
  for (int alone = 0; alone < 2; alone++) {
    td_tensor x = FLOATS(1, 2), none = {0};
    pending f;
    OK(pending_init(&f, n, cpu, NULL, &step, &none));
    f.in[0] = x;
    if (!alone) td_buffer_retain(x.buffer);
    td_kernel_start(&f.ctx);
    OK(pending_wait(&f));
    assert_ptr_equal(f.out[0].buffer, x.buffer);
    assert_int_equal(td_tensor_valid(&f.in[0]), !alone);
    assert_int_equal(x.buffer->refs, alone ? 1 : 3);
    pending_end(&f);
    if (!alone) td_buffer_release(x.buffer);
  }
  step_end(&step);
  td_graph_release(g);
}

static unsigned flush_seen;

static td_status *flush_run(td_kernel_ctx *c) {
  (void)c;
  flush_seen = _mm_getcsr();
  return NULL;
}

/* Flush-to-zero and denormals-are-zero hold inside a kernel, and only there. */
static void test_flush_to_zero(void **state) {
  td_kernel_def def = {.op = "NoOp", CPU, .run = flush_run};
  td_kernel k = {.def = &def, .device = cpu, .plain = true};
  td_kernel_ctx c = {.kernel = &k};
  unsigned was = _mm_getcsr();
  (void)state;
  OK(td_kernel_run(&c));
  assert_int_equal(flush_seen & 0x8040, 0x8040);
  assert_int_equal(_mm_getcsr() & 0x8040, was & 0x8040);
}

static void check_why(pending *f, const char *want) {
  td_str why;
  td_str_init(&why);
  td_kernel_why(&f->ctx, &why);
  assert_string_equal(td_str_c(&why), want);
  td_str_deinit(&why);
}

/* ---- locks --------------------------------------------------------------- */

static td_variable *ready_variable(float v) {
  td_variable *var;
  td_shape one = td_shape_vector(1);
  OK(td_variable_new(TD_FLOAT32, &one, &var));
  var->base.name = td_strdup("W");
  var->value = FLOATS(v);
  return var;
}

static float value_of(td_variable *v) {
  return (float)td_tensor_get_f(&v->value, 0);
}

static void drop_variable(td_variable *v) {
  assert_int_equal(v->base.lock.state, 0);
  td_object_release(&v->base.object);
}

static void test_parks_until_the_lock_is_free(void **state) {
  td_graph *g = fresh_graph();
  td_node *n = NODE(g, "TestUpdate", TD_RESOURCE, TD_FLOAT32);
  td_variable *v = ready_variable(1);
  td_tensor in[] = {handle_of(v), FLOATS(2)};
  td_step step = step_new();
  pending f;
  (void)state;
  OK(pending_init(&f, n, cpu, NULL, &step, in));
  assert_false(f.kernel.plain);
  assert_true(f.kernel.whole);
  assert_true(td_lock_try(&v->base.lock, false));
  td_kernel_start(&f.ctx); /* returns: it parks the work, not the thread */
  nap();
  assert_false(pending_over(&f));
  check_why(&f, "the lock of variable \"W\"");
  assert_true(value_of(v) == 1);
  td_lock_release(&v->base.lock, false);
  OK(pending_wait(&f));
  assert_true(value_of(v) == 3);
  pending_end(&f);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
  step_end(&step);
  drop_variable(v);
  td_graph_release(g);
}

static void test_cancel_while_parked(void **state) {
  td_graph *g = fresh_graph();
  td_node *n = NODE(g, "TestUpdate", TD_RESOURCE, TD_FLOAT32);
  td_variable *v = ready_variable(1);
  td_tensor in[] = {handle_of(v), FLOATS(2)};
  (void)state;
  for (int early = 0; early < 2; early++) { /* before or after the start */
    td_step step = step_new();
    pending f;
    OK(pending_init(&f, n, cpu, NULL, &step, in));
    assert_true(td_lock_try(&v->base.lock, true));
    if (early) td_kernel_cancel(&f.ctx);
    td_kernel_start(&f.ctx);
    if (!early) td_kernel_cancel(&f.ctx);
    td_kernel_cancel(&f.ctx); /* twice is once */
    FAILS(pending_wait(&f), TD_CANCELLED, "cancelled");
    assert_int_equal(f.dones, 1);
    pending_end(&f);
    td_lock_release(&v->base.lock, true);
    step_end(&step);
  }
  assert_true(value_of(v) == 1);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
  drop_variable(v);
  td_graph_release(g);
}

/* An update of a stopped step does not begin. */
static void test_stopped_before_it_begins(void **state) {
  td_graph *g = fresh_graph();
  td_node *n = NODE(g, "TestUpdate", TD_RESOURCE, TD_FLOAT32);
  td_variable *v = ready_variable(1);
  td_tensor in[] = {handle_of(v), FLOATS(2)};
  td_step step = step_new();
  (void)state;
  td_cancel_fire(step.cancel, NULL);
  FAILS(run_node(n, cpu, &step, in, NULL), TD_CANCELLED, "cancelled");
  assert_true(value_of(v) == 1);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
  step_end(&step);
  drop_variable(v);
  td_graph_release(g);
}

static void test_locks_what_is_no_handle(void **state) {
  td_graph *g = fresh_graph();
  td_node *n = NODE(g, "TestUpdate", TD_RESOURCE, TD_FLOAT32);
  td_tensor in[] = {FLOATS(1), FLOATS(2)};
  td_step step = step_new();
  (void)state;
  FAILS(run_node(n, cpu, &step, in, NULL), TD_INVALID_ARGUMENT,
        "var must be the handle of a resource, not float32 {1}");
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
  step_end(&step);
  td_graph_release(g);
}

/* ---- many at once -------------------------------------------------------- */

enum { THREADS = 4, UPDATES = 5000 };

typedef struct worker {
  td_node *node;
  td_tensor in[2];
  bool cancels; /* every so many runs */
  int64_t ran;
} worker;

static void *run_updates(void *arg) {
  worker *w = arg;
  td_step step = step_new();
  for (int i = 0; i < UPDATES; i++) {
    pending f;
    OK(pending_init(&f, w->node, cpu, NULL, &step, w->in));
    if (w->cancels && i % 3 == 0) td_kernel_cancel(&f.ctx);
    td_kernel_start(&f.ctx);
    if (w->cancels && i % 3 == 1) {
      /* The executor keeps a context while a cancel looks at it: so does the
       * test. */
      td_kernel_cancel(&f.ctx);
    }
    td_status *s = pending_wait(&f);
    if (td_ok(s)) w->ran++;
    assert_true(td_ok(s) || w->cancels);
    td_status_release(s);
    assert_int_equal(f.dones, 1);
    pending_end(&f);
  }
  step_end(&step);
  return NULL;
}

/* a += b and b += a, the same locks in both orders, by address no deadlock. */
static void run_joins(bool cancels) {
  td_graph *g = fresh_graph();
  td_node *n = NODE(g, "TestJoin", TD_RESOURCE, TD_RESOURCE);
  td_variable *v[2] = {ready_variable(0), ready_variable(0)};
  worker workers[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.node = n, .cancels = cancels};
    workers[i].in[0] = handle_of(v[i % 2]);
    workers[i].in[1] = handle_of(v[(i + i / 2 + 1) % 2]);
    assert_int_equal(
        pthread_create(&threads[i], NULL, run_updates, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    td_tensor_release(&workers[i].in[0]);
    td_tensor_release(&workers[i].in[1]);
  }
  drop_variable(v[0]);
  drop_variable(v[1]);
  td_graph_release(g);
}

static void test_two_locks_no_deadlock(void **state) {
  (void)state;
  run_joins(false);
}

static void test_two_locks_and_cancels(void **state) {
  (void)state;
  run_joins(true);
}

static void test_no_update_is_lost(void **state) {
  td_graph *g = fresh_graph();
  td_node *n = NODE(g, "TestUpdate", TD_RESOURCE, TD_FLOAT32);
  td_variable *v = ready_variable(0);
  worker workers[THREADS];
  pthread_t threads[THREADS];
  (void)state;
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.node = n, .in = {handle_of(v), FLOATS(1)}};
    assert_int_equal(
        pthread_create(&threads[i], NULL, run_updates, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(workers[i].ran, UPDATES);
    td_tensor_release(&workers[i].in[0]);
    td_tensor_release(&workers[i].in[1]);
  }
  assert_true(value_of(v) == THREADS * UPDATES);
  drop_variable(v);
  td_graph_release(g);
}

/* ---- asynchronous -------------------------------------------------------- */

static td_node *wait_node(td_graph *g) {
  td_build b;
  td_node *n;
  td_build_init(&b, g, "TestWait", NULL);
  OK(td_build_node(&b, &n));
  return n;
}

static void test_asynchronous(void **state) {
  static const struct {
    bool before, after; /* cancels */
    td_code want;
  } rows[] = {
      {false, false, TD_OK},
      {true, false, TD_CANCELLED},
      {false, true, TD_CANCELLED},
      {true, true, TD_CANCELLED},
  };
  td_graph *g = fresh_graph();
  td_node *n = wait_node(g);
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_step step = step_new();
    pending f;
    OK(pending_init(&f, n, cpu, NULL, &step, NULL));
    if (rows[i].before) td_kernel_cancel(&f.ctx);
    td_kernel_start(&f.ctx);
    assert_int_equal(pending_over(&f), rows[i].before);
    check_why(&f, rows[i].before ? "" : "the test, at " PLACE "/device:CPU:0");
    if (rows[i].after) td_kernel_cancel(&f.ctx);
    if (!rows[i].before && !rows[i].after) wait_end(NULL);
    td_status *s = pending_wait(&f);
    assert_int_equal(td_status_code(s), rows[i].want);
    td_status_release(s);
    assert_int_equal(f.dones, 1);
    pending_end(&f);
    step_end(&step);
  }
  td_graph_release(g);
}

/* ---- memory -------------------------------------------------------------- */

/* Everything that allocates between a node and its result, n-th call failed. */
static td_status *once_through(td_graph *g, const td_tensor *handle) {
  td_states *keep = NULL;
  td_step step = {.threads = 1};
  td_tensor x = {0};
  pending f = {.over = false};
  td_status *s = td_states_new(&keep);
  if (td_ok(s)) s = td_cancel_new(&step.cancel);
  if (td_ok(s)) step.stop = td_cancel_flag(step.cancel);
  if (td_ok(s)) s = td_tensor_scalar_f(TD_FLOAT32, 1, &x);
  td_tensor in[] = {*handle, x};
  if (td_ok(s))
    s = pending_init(&f, td_graph_find(g, "TestUpdate"), cpu, keep, &step, in);
  if (td_ok(s)) {
    td_kernel_start(&f.ctx);
    s = pending_wait(&f);
  }
  pending_end(&f);
  if (td_ok(s))
    s = pending_init(&f, td_graph_find(g, "TestCount"), cpu, keep, &step, NULL);
  if (td_ok(s)) {
    td_kernel_start(&f.ctx);
    s = pending_wait(&f);
  }
  pending_end(&f);
  td_tensor_release(&x);
  td_cancel_release(step.cancel);
  td_states_release(keep);
  return s;
}

static void test_without_memory(void **state) {
  td_graph *g = fresh_graph();
  td_build b;
  td_node *n;
  td_variable *v = ready_variable(1);
  td_tensor handle = handle_of(v), reader;
  (void)state;
  NODE(g, "TestUpdate", TD_RESOURCE, TD_FLOAT32);
  td_build_init(&b, g, "TestCount", NULL);
  OK(td_build_node(&b, &n));
  for (int for_ever = 0; for_ever < 2; for_ever++) {
    int64_t nth = 1;
    for (;; nth++) {
      td_tensor_retain(&v->value, &reader); /* so that the write copies */
      td_mem_fail(nth, for_ever);
      td_status *s = once_through(g, &handle);
      td_mem_fail(0, false);
      td_tensor_release(&reader);
      assert_int_equal(v->base.lock.state, 0);
      if (td_ok(s)) break;
      FAILS(s, TD_RESOURCE_EXHAUSTED, "");
    }
    print_message("%lld allocations failed\n", (long long)nth - 1);
    assert_true(nth > 5);
  }
  assert_int_equal(states, 0);
  td_tensor_release(&handle);
  drop_variable(v);
  td_graph_release(g);
}

static int begin(void **state) {
  register_node_ops(state);
  return begin_cpu(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_state_belongs_to_session_and_node),
      cmocka_unit_test(test_forwarding),
      cmocka_unit_test(test_pass_moves_or_shares),
      cmocka_unit_test(test_flush_to_zero),
      cmocka_unit_test(test_parks_until_the_lock_is_free),
      cmocka_unit_test(test_cancel_while_parked),
      cmocka_unit_test(test_stopped_before_it_begins),
      cmocka_unit_test(test_locks_what_is_no_handle),
      cmocka_unit_test(test_two_locks_no_deadlock),
      cmocka_unit_test(test_two_locks_and_cancels),
      cmocka_unit_test(test_no_update_is_lost),
      cmocka_unit_test(test_asynchronous),
      cmocka_unit_test(test_without_memory),
  };
  return cmocka_run_group_tests(tests, begin, end_cpu);
}
