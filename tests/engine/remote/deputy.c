/* deputy.c - tests of engine/remote: a node that was short before keeps the
 * thread that listens, and others are heard all the same.
 *
 * The node waits here until somebody else's step has come and gone, which would
 * never be without a deputy.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/waiter.h"
#include "engine/device/kernel_rows.h"
#include "engine/run/async.h"
#include "engine/run/callable.h"
#include "pair.h"

enum { SHORT_ONES = 40 };

static struct {
  td_waiter waiter;
  int32_t closed, inside; /* atomic */
} gate;

static bool is_open(void *arg) {
  (void)arg;
  return !__atomic_load_n(&gate.closed, __ATOMIC_ACQUIRE);
}

static bool is_inside(void *arg) {
  (void)arg;
  return __atomic_load_n(&gate.inside, __ATOMIC_ACQUIRE) != 0;
}

static td_status *gate_run(td_kernel_ctx *c) {
  if (!is_open(NULL)) {
    __atomic_store_n(&gate.inside, 1, __ATOMIC_RELEASE);
    td_waiter_wake(&gate.waiter);
    assert_int_equal(
        td_waiter_wait(&gate.waiter, INT64_MAX, NULL, is_open, NULL),
        TD_WAITED_READY);
  }
  c->out[0] = c->in[0];
  c->in[0] = (td_tensor){0};
  return NULL;
}

static const td_op_def ops[] = {
    {.type = "TestRemoteGate",
     .sig = "x: float -> y: float",
     .shape = td_infer_same,
     .flags = TD_STATEFUL,
     .doc = "Gives its input while a gate is open."},
    {0},
};
static const td_kernel_def kernels[] = {
    {.op = "TestRemoteGate", .device = "CPU", .run = gate_run}, {0}};
static const td_module module = {"test_remote_gate", ops, kernels};

static td_callable *callable(cluster *c, td_edge fetch) {
  td_callable *out;
  OK(td_callable_new(c->s, &(td_signature){.fetches = &fetch, .n_fetches = 1},
                     &out));
  return out;
}

static void run(td_callable *c) {
  td_tensor value;
  OK(td_callable_run(c, NULL, &value, NULL));
  assert_true(td_tensor_get_f(&value, 0) == 3);
  td_tensor_release(&value);
}

static void test_stands_in(void **state) {
  cluster c;
  td_async *a;
  td_tensor value;
  (void)state;
  OK(td_op_register(&module));
  OK(td_kernel_register(&module));
  cluster_init(&c, 1);
  c.s->options.passes_off = ~0u;
  td_edge three = make_const(&c.r, TD_FLOAT32, 3, NULL);
  td_callable *gated =
      callable(&c, far_node(&c, 0, "TestRemoteGate", "gate", &three, 1));
  td_callable *other =
      callable(&c, far_node(&c, 0, "Identity", "other", &three, 1));
  for (int i = 0; i < SHORT_ONES; i++) run(gated), run(other);
  __atomic_store_n(&gate.closed, 1, __ATOMIC_RELEASE);
  OK(td_async_start(gated, NULL, NULL, &a));
  assert_int_equal(
      td_waiter_wait(&gate.waiter, INT64_MAX, NULL, is_inside, NULL),
      TD_WAITED_READY);
  run(other);
  __atomic_store_n(&gate.closed, 0, __ATOMIC_RELEASE);
  td_waiter_wake(&gate.waiter);
  OK(td_async_wait(a, -1, &value, NULL));
  td_tensor_release(&value);
  td_async_release(a);
  td_callable_release(gated);
  td_callable_release(other);
  cluster_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_stands_in)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
