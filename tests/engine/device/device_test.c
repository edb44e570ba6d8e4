/* device_test.c - the test device: two phases, streams, memory in their order,
 * failures on demand.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/device/run_node.h"

#include <math.h>
#include <unistd.h>

#include "engine/device/device_test.h"

static td_device *dev; /* TEST:0, of each test */

/* ---- ops ----------------------------------------------------------------- */

static int32_t closed; /* atomic: held kernels wait */
static int32_t ran;    /* atomic: held kernels that have run */

/* y = x, once the test lets it. */
static td_status *hold_run(td_kernel_ctx *c) {
  td_tensor *y;
  while (__atomic_load_n(&closed, __ATOMIC_ACQUIRE)) usleep(100);
  TD_TRY(td_out_like(c, 0, 0, &y));
  size_t bytes = td_tensor_bytes(y);
  if (bytes && y->data != td_in(c, 0)->data)
    memcpy(y->data, td_in(c, 0)->data, bytes);
  __atomic_fetch_add(&ran, 1, __ATOMIC_ACQ_REL);
  return NULL;
}

/* Makes its output and writes nothing. */
static td_status *lazy_run(td_kernel_ctx *c) {
  td_tensor *y;
  return td_out(c, 0, &td_in(c, 0)->shape, &y);
}

/* Its shape function does not tell the truth. */
static td_status *liar_run(td_kernel_ctx *c) {
  td_shape shape = td_shape_vector(td_tensor_count(td_in(c, 0)) + 1);
  td_tensor *y;
  return td_out(c, 0, &shape, &y);
}

#define SAME .sig = "x: float -> y: float", .shape = td_infer_same

static const td_op_def ops[] = {
    {.type = "TestHold", SAME},
    {.type = "TestLazy", SAME},
    {.type = "TestLiar", SAME},
    {.type = "TestHoldWhole", .sig = "x: float -> y: float", ANY},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "TestHold", CPU, .run = hold_run},
    {.op = "TestLazy", CPU, .run = lazy_run},
    {.op = "TestLiar", CPU, .run = liar_run},
    {.op = "TestHoldWhole", CPU, .run = hold_run},
    {0},
};

static const td_module module = {"device_test", ops, kernels};

static void shut(void) {
  __atomic_store_n(&closed, 1, __ATOMIC_RELEASE);
}

static void let_go(void) {
  __atomic_store_n(&closed, 0, __ATOMIC_RELEASE);
}

/* ---- nodes on tensors of the device -------------------------------------- */

typedef struct bench {
  td_graph *graph;
  td_step step;
  pending *all[1024];
  int n;
} bench;

static void bench_init(bench *b) {
  *b = (bench){.step = step_new()};
  OK(td_graph_new(&b->graph));
}

/* Starts op(x) and takes its output over. `x` stays the caller's. */
static pending *start(bench *b, const char *op, const td_tensor *x) {
  pending *p = b->all[b->n++] = td_calloc(1, sizeof *p);
  td_dtype types[] = {x->dtype};
  assert_true(b->n <= (int)TD_COUNT(b->all));
  OK(pending_init(p, node_of(b->graph, op, types, 1), dev, NULL, &b->step, x));
  td_kernel_start(&p->ctx);
  return p;
}

/* The output of op(x), promised; the input is let go, as an executor does. */
static td_tensor promised(bench *b, const char *op, td_tensor x) {
  pending *p = start(b, op, &x);
  assert_true(pending_over(p)); /* at once */
  OK(pending_wait(p));
  td_tensor y = p->out[0];
  p->out[0] = (td_tensor){0};
  td_tensor_release(&p->in[0]);
  td_tensor_release(&x);
  return y;
}

static td_tensor on_device(td_tensor host) {
  td_tensor t;
  OK(td_device_transfer_wait(dev, &host, dev->memory, &t));
  td_tensor_release(&host);
  return t;
}

/* On the host; `t` is let go. */
static td_tensor back(td_tensor t) {
  td_tensor host;
  OK(td_device_transfer_wait(dev, &t, dev->host, &host));
  td_tensor_release(&t);
  return host;
}

static void bench_end(bench *b) {
  settle(dev);
  for (int i = 0; i < b->n; i++) {
    pending_end(b->all[i]);
    td_free(b->all[i]);
  }
  step_end(&b->step);
  td_graph_release(b->graph);
}

static td_device_test_counts counts(void) {
  return td_device_test_count(dev);
}

/* ---- two phases ---------------------------------------------------------- */

typedef struct landing {
  int32_t landed; /* atomic */
  td_status *status;
} landing;

static void land(void *arg, td_status *s) {
  landing *l = arg;
  l->status = s;
  __atomic_store_n(&l->landed, 1, __ATOMIC_RELEASE);
}

static void wait_for(const int32_t *flag) {
  while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE)) usleep(100);
}

/* A kernel and its consumers are done before any of them has run; the host gets
 * what they make when it is there; settling waits for it. */
static void test_done_when_enqueued(void **state) {
  bench b;
  landing l = {0};
  td_tensor host;
  (void)state;
  bench_init(&b);
  ran = 0;
  shut();
  td_tensor t = promised(&b, "TestHold", on_device(FLOATS(1, 4, 9)));
  for (int i = 0; i < 8; i++) t = promised(&b, i % 2 ? "Square" : "Sqrt", t);
  assert_int_equal(ran, 0);
  assert_true(t.buffer->event != 0);
  td_device_transfer(dev, &t, dev->host, &host, land, &l);
  settler s = {.base.over = settled,
               .mutex = PTHREAD_MUTEX_INITIALIZER,
               .cond = PTHREAD_COND_INITIALIZER};
  assert_false(dev->settle(dev, &s.base));
  usleep(5000);
  assert_int_equal(__atomic_load_n(&l.landed, __ATOMIC_ACQUIRE), 0);
  let_go();
  wait_for(&l.landed);
  OK(l.status);
  assert_int_equal(ran, 1);
  assert_true(td_tensor_get_f(&host, 2) == 9);
  pthread_mutex_lock(&s.mutex);
  while (!s.over) pthread_cond_wait(&s.cond, &s.mutex);
  pthread_mutex_unlock(&s.mutex);
  assert_int_equal(counts().promised, 9);
  td_tensor_release(&host);
  td_tensor_release(&t);
  bench_end(&b);
}

/* One whose outputs nobody can tell is done when it is complete. */
static void test_done_when_complete(void **state) {
  bench b;
  td_tensor x = FLOATS(1, 2);
  (void)state;
  bench_init(&b);
  ran = 0;
  shut();
  pending *p = start(&b, "TestHoldWhole", &x);
  usleep(5000);
  assert_false(pending_over(p));
  let_go();
  OK(pending_wait(p));
  assert_int_equal(ran, 1);
  assert_true(p->out[0].buffer->event == 0);
  assert_int_equal(counts().promised, 0);
  assert_int_equal(counts().whole, 1);
  td_tensor_release(&x);
  bench_end(&b);
}

/* A stream that has much to do makes whoever enqueues wait. */
static void test_backlog(void **state) {
  enum { MANY = 700 }; /* on two streams, of 256 each */
  bench b;
  int late = 0;
  (void)state;
  bench_init(&b);
  shut();
  td_tensor t = promised(&b, "TestHold", on_device(FLOATS(1)));
  for (int i = 1; i < MANY; i++) late += !pending_over(start(&b, "Neg", &t));
  assert_in_range(counts().promised, 257, 513);
  assert_int_equal(late, MANY - counts().promised);
  let_go();
  for (int i = 0; i < b.n; i++) OK(pending_wait(b.all[i]));
  td_tensor_release(&t);
  bench_end(&b);
}

/* ---- streams ------------------------------------------------------------- */

/* Chains that go over both streams, many at a time. */
static void test_order_over_streams(void **state) {
  enum { CHAINS = 6, LONG = 40 };
  (void)state;
  bench b;
  td_tensor t[CHAINS];
  bench_init(&b);
  td_device_test_delay(dev, 300000);
  shut();
  for (int c = 0; c < CHAINS; c++)
    t[c] = promised(&b, "TestHold", on_device(FLOATS(1, 2, (float)c)));
  for (int i = 0; i < LONG; i++)
    for (int c = 0; c < CHAINS; c++) {
      t[c] = promised(&b, i % 2 ? "Sqrt" : "Square", t[c]);
    }
  let_go();
  for (int c = 0; c < CHAINS; c++) {
    td_tensor host = back(t[c]);
    assert_true(td_tensor_get_f(&host, 1) == 2);
    assert_true(td_tensor_get_f(&host, 2) == c);
    td_tensor_release(&host);
  }
  assert_true(counts().waits > 0);
  bench_end(&b);
}

/* ---- memory -------------------------------------------------------------- */

/* What is let go is handed on while earlier work has still to read it: the
 * chain lives in a few blocks. All of it is poisoned before it is written. */
static void test_reused_in_stream_order(void **state) {
  bench b;
  (void)state;
  bench_init(&b);
  shut();
  td_tensor t = promised(&b, "TestHold", on_device(FLOATS(1, 2, 3)));
  for (int i = 0; i < 60; i++) t = promised(&b, i % 2 ? "Sqrt" : "Square", t);
  assert_true(counts().reused > 10);
  let_go();
  td_tensor host = back(t);
  assert_true(td_tensor_get_f(&host, 2) == 3);
  td_tensor_release(&host);
  bench_end(&b);
}

/* Nobody else gets such a block before the work that reads it is complete. */
static void test_not_reused_elsewhere(void **state) {
  enum { MANY = 40 };
  bench b;
  td_tensor other[MANY];
  landing l = {0};
  td_tensor host;
  (void)state;
  bench_init(&b);
  shut();
  td_tensor t = promised(&b, "TestHold", on_device(FLOATS(1, 2, 3)));
  t = promised(&b, "Square", t);
  td_device_transfer(dev, &t, dev->host, &host, land, &l);
  td_tensor_release(&t); /* the copy holds it */
  td_shape shape = td_shape_vector(3);
  for (int i = 0; i < MANY; i++) {
    OK(td_tensor_new(dev->memory, TD_FLOAT32, &shape, &other[i]));
    float *at = dev->map(dev, other[i].data);
    for (int k = 0; k < 3; k++) at[k] = -1;
  }
  let_go();
  wait_for(&l.landed);
  OK(l.status);
  for (int k = 0; k < 3; k++)
    assert_true(td_tensor_get_f(&host, k) == (k + 1) * (k + 1));
  for (int i = 0; i < MANY; i++) td_tensor_release(&other[i]);
  td_tensor_release(&host);
  bench_end(&b);
}

/* What a kernel does not write is garbage, not what was there before. */
static void test_poisoned(void **state) {
  bench b;
  (void)state;
  bench_init(&b);
  td_tensor host = back(promised(&b, "TestLazy", on_device(FLOATS(1, 2, 3))));
  for (int i = 0; i < 3; i++) assert_true(isnan(td_tensor_get_f(&host, i)));
  td_tensor_release(&host);
  bench_end(&b);
}

/* ---- failures ------------------------------------------------------------ */

static void test_failures(void **state) {
  bench b;
  td_tensor host, x = FLOATS(1);
  td_device_test_faults *doors = td_device_test_doors(dev);
  (void)state;
  bench_init(&b);
  td_fault_arm(&doors->enqueue, 1, false);
  FAILS(pending_wait(start(&b, "Square", &x)), TD_UNAVAILABLE,
        "enqueueing failed on " PLACE "/device:TEST:0");
  td_fault_arm(&doors->copy, 2, false);
  td_tensor t = on_device(FLOATS(4));
  FAILS(td_device_transfer_wait(dev, &t, dev->host, &host), TD_UNAVAILABLE,
        "a copy failed");
  assert_false(td_cancelled(b.step.stop));
  td_fault_arm(&doors->complete, 1, false);
  t = promised(&b, "Sqrt", t); /* done, and fails later */
  settle(dev);
  td_status *s = td_cancel_cause(b.step.cancel);
  assert_string_equal(td_status_op(s), "Sqrt");
  assert_non_null(strstr(td_status_device(s), "TEST:0"));
  FAILS(s, TD_UNAVAILABLE, "a kernel failed");
  td_tensor_release(&t);
  td_tensor_release(&x);
  bench_end(&b);
}

static void test_wrong_inference(void **state) {
  bench b;
  (void)state;
  bench_init(&b);
  td_tensor t = promised(&b, "TestLiar", on_device(FLOATS(1, 2)));
  settle(dev);
  FAILS(td_cancel_cause(b.step.cancel), TD_INTERNAL,
        "output 0 is of shape {3}, not {2} as inferred from the inputs");
  td_tensor_release(&t);
  bench_end(&b);
}

/* ---- peers --------------------------------------------------------------- */

/* Straight from one to the other, behind the work that writes it there. */
static void test_peers(void **state) {
  bench b;
  td_device *other;
  landing l[2] = {{0}, {0}};
  td_tensor there, host;
  (void)state;
  bench_init(&b);
  OK(td_device_test_new(PLACE, 1, 9, NULL, &other));
  shut();
  td_tensor t = promised(&b, "TestHold", on_device(FLOATS(5, 6)));
  td_device_transfer(other, &t, other->memory, &there, land, &l[0]);
  td_device_transfer(other, &t, other->host, &host, land, &l[1]);
  td_tensor_release(&t);
  usleep(5000);
  assert_int_equal(__atomic_load_n(&l[0].landed, __ATOMIC_ACQUIRE), 0);
  let_go();
  for (int i = 0; i < 2; i++) {
    wait_for(&l[i].landed);
    OK(l[i].status);
  }
  assert_true(td_tensor_get_f(&host, 1) == 6);
  td_tensor_release(&host);
  OK(td_device_transfer_wait(other, &there, other->host, &host));
  assert_true(td_tensor_get_f(&host, 0) == 5);
  assert_int_equal(td_device_test_count(other).peers, 2);
  assert_int_equal(counts().peers, 0);
  td_tensor_release(&host);
  td_tensor_release(&there);
  bench_end(&b);
  td_device_release(other);
}

static int begin_device(void **state) {
  (void)state;
  OK(td_device_test_new(PLACE, 0, 1, NULL, &dev));
  return 0;
}

static int end_device(void **state) {
  (void)state;
  let_go();
  td_device_release(dev);
  return 0;
}

static int begin(void **state) {
  register_node_ops(state);
  OK(td_op_register(&module));
  OK(td_kernel_register(&module));
  return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_device, end_device)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_done_when_enqueued),
      TEST(test_done_when_complete),
      TEST(test_backlog),
      TEST(test_order_over_streams),
      TEST(test_reused_in_stream_order),
      TEST(test_not_reused_elsewhere),
      TEST(test_poisoned),
      TEST(test_failures),
      TEST(test_wrong_inference),
      TEST(test_peers),

  };
  return cmocka_run_group_tests(tests, begin, NULL);
}
