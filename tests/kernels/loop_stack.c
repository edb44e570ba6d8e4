/* loop_stack.c - stacks: order, shares, refusals, life.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/net.h"

typedef struct bench {
  net w;
  td_edge handle; /* fed with the handle of one stack */
  td_edge push, pop, close;
  td_edge elem; /* what push takes */
} bench;

static void bench_init(bench *b, int max_size) {
  td_note type = {"elem_type", td_attr_type(TD_FLOAT32)};
  td_tensor handle;
  net_init(&b->w, 1);
  td_edge most = net_feed(&b->w, scalar_f(TD_INT32, max_size));
  OK(net_run(&b->w, net_node(&b->w, "StackV2", &most, 1, &type, 1), &handle));
  b->handle = net_feed(&b->w, handle);
  b->elem = net_feed(&b->w, scalar_f(TD_FLOAT32, 0));
  td_edge in[] = {b->handle, b->elem};
  b->push = net_node(&b->w, "StackPushV2", in, 2, NULL, 0);
  b->pop = net_node(&b->w, "StackPopV2", in, 1, &type, 1);
  b->close = net_node(&b->w, "StackCloseV2", in, 1, NULL, 0);
}

static td_status *push(bench *b, double v) {
  net_refeed(&b->w, b->elem, scalar_f(TD_FLOAT32, v));
  return net_do(&b->w, b->push);
}

/* What was pushed last comes first, the same buffer, and is then held by
 * nobody else. */
static void test_order(void **state) {
  (void)state;
  bench b;
  td_tensor t;
  bench_init(&b, -1);
  for (int i = 0; i < 100; i++) OK(push(&b, i));
  void *last = b.w.fed[b.elem.node->id].data;
  OK(net_run(&b.w, b.pop, &t));
  assert_ptr_equal(t.data, last);
  td_tensor_release(&t);
  for (int i = 98; i >= 0; i--) {
    OK(net_run(&b.w, b.pop, &t));
    assert_int_equal((int)td_tensor_get_f(&t, 0), i);
    assert_true(td_buffer_sole(t.buffer));
    td_tensor_release(&t);
  }
  FAILS(net_do(&b.w, b.pop), TD_INVALID_ARGUMENT, "is empty");
  net_deinit(&b.w);
}

static void test_limits(void **state) {
  (void)state;
  bench b;
  bench_init(&b, 2);
  OK(push(&b, 1));
  OK(push(&b, 2));
  FAILS(push(&b, 3), TD_INVALID_ARGUMENT, "is full: its max_size is 2");
  OK(net_do(&b.w, b.close));
  FAILS(push(&b, 3), TD_INVALID_ARGUMENT, "was closed before");
  FAILS(net_do(&b.w, b.pop), TD_INVALID_ARGUMENT, "was closed before");
  net_deinit(&b.w);
}

static void test_wrong(void **state) {
  (void)state;
  bench b;
  td_note type = {"elem_type", td_attr_type(TD_INT32)};
  td_edge many, e;
  bench_init(&b, -1);
  OK(push(&b, 1));
  FAILS(net_do(&b.w, net_node(&b.w, "StackPopV2", &b.handle, 1, &type, 1)),
        TD_INVALID_ARGUMENT, "holds float32 and cannot give int32");
  td_edge in[] = {b.handle, net_feed(&b.w, scalar_f(TD_INT32, 1))};
  FAILS(net_do(&b.w, net_node(&b.w, "StackPushV2", in, 2, NULL, 0)),
        TD_INVALID_ARGUMENT, "holds float32 and cannot be given int32");
  many = net_feed(&b.w, ints(2, (int32_t[]){1, 2}));
  e = net_node(&b.w, "StackV2", &many, 1, &type, 1);
  FAILS(net_do(&b.w, e), TD_INVALID_ARGUMENT, "max_size must be a scalar");
  e = net_variable(&b.w, "v", TD_FLOAT32, td_shape_scalar());
  FAILS(net_do(&b.w, net_node(&b.w, "StackPopV2", &e, 1, &type, 1)),
        TD_INVALID_ARGUMENT, "not of a variable");
  net_deinit(&b.w);
}

/* What is on it goes with the last handle. */
static void test_life(void **state) {
  (void)state;
  bench b;
  bench_init(&b, -1);
  OK(push(&b, 1));
  td_buffer *pushed = b.w.fed[b.elem.node->id].buffer;
  assert_false(td_buffer_sole(pushed));
  td_tensor_release(&b.w.fed[b.handle.node->id]);
  assert_true(td_buffer_sole(pushed));
  net_deinit(&b.w);
}

static void test_no_memory(void **state) {
  (void)state;
  bench b;
  td_note type = {"elem_type", td_attr_type(TD_FLOAT32)};
  bench_init(&b, -1);
  td_edge most = net_feed(&b.w, scalar_f(TD_INT32, 1));
  net_starve(&b.w, net_node(&b.w, "StackV2", &most, 1, &type, 1));
  net_starve(&b.w, b.push);
  net_starve(&b.w, b.pop);
  net_deinit(&b.w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),     cmocka_unit_test(test_limits),
      cmocka_unit_test(test_wrong),     cmocka_unit_test(test_life),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
