/* loop_stack.c - stacks: order, shares, refusals, life; what is swapped out of
 * a device's memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "engine/device/device_test.h"
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

/* ---- swapping ------------------------------------------------------------ */

enum { WIDE = 16 << 10, LIMIT = 1 << 20, MANY = 64 }; /* 64 KiB; 16; 4 MiB */

/* A stack on TEST:0, of LIMIT bytes. `swap`: of its pushes. */
static void swap_init(bench *b, bool swap) {
  td_note type = {"elem_type", td_attr_type(TD_FLOAT32)};
  td_note may = {"swap_memory", td_attr_bool(swap)};
  td_tensor handle;
  net_init(&b->w, 1);
  td_device_release(b->w.device);
  OK(td_device_test_new("/job:localhost/replica:0/task:0", 0, 1, NULL,
                        &b->w.device));
  td_allocator_set_limit(b->w.device->memory, LIMIT);
  td_edge most = net_feed(&b->w, scalar_f(TD_INT32, -1));
  OK(net_run(&b->w, net_node(&b->w, "StackV2", &most, 1, &type, 1), &handle));
  b->handle = net_feed(&b->w, handle);
  b->elem = net_feed(&b->w, scalar_f(TD_FLOAT32, 0));
  td_edge in[] = {b->handle, b->elem};
  b->push = net_node(&b->w, "StackPushV2", in, 2, &may, 1);
  b->pop = net_node(&b->w, "StackPopV2", in, 1, &type, 1);
  b->close = net_node(&b->w, "StackCloseV2", in, 1, NULL, 0);
}

static td_tensor wide_host(int v) {
  td_shape shape = td_shape_vector(WIDE);
  td_tensor t;
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &t));
  for (int i = 0; i < WIDE; i++) ((float *)t.data)[i] = (float)(v * 7 + i);
  return t;
}

static td_allocator_stats memory(const bench *b) {
  return td_allocator_read_stats(b->w.device->memory);
}

/* Pushes what only the stack holds then. */
static td_status *push_wide(bench *b, int v) {
  td_tensor host = wide_host(v), t;
  td_status *s =
      td_device_transfer_wait(b->w.device, &host, b->w.device->memory, &t);
  td_tensor_release(&host);
  TD_TRY(s);
  net_refeed(&b->w, b->elem, t);
  s = net_do(&b->w, b->push);
  net_refeed(&b->w, b->elem, scalar_f(TD_FLOAT32, 0));
  return s;
}

static void pop_wide(bench *b, int v) {
  td_tensor t, host, want = wide_host(v);
  OK(net_run(&b->w, b->pop, &t));
  assert_ptr_equal(t.buffer->allocator, b->w.device->memory);
  OK(td_device_transfer_wait(b->w.device, &t, b->w.device->host, &host));
  assert_memory_equal(host.data, want.data, td_tensor_bytes(&want));
  td_tensor_release(&t);
  td_tensor_release(&host);
  td_tensor_release(&want);
}

static void swap_deinit(bench *b) {
  net_refeed(&b->w, b->handle, scalar_f(TD_FLOAT32, 0));
  assert_int_equal(b->w.device->stacked, 0);
  net_deinit(&b->w);
}

/* Four times the device's memory, twice, in order; half of it taken off in
 * between. */
static void test_swapped(void **state) {
  (void)state;
  bench b;
  swap_init(&b, true);
  for (int turn = 0; turn < 2; turn++) {
    for (int i = 0; i < MANY; i++) OK(push_wide(&b, i));
    for (int i = MANY - 1; i >= MANY / 2; i--) pop_wide(&b, i);
    for (int i = MANY / 2; i < MANY; i++) OK(push_wide(&b, i + 1000));
    for (int i = MANY - 1; i >= MANY / 2; i--) pop_wide(&b, i + 1000);
    for (int i = MANY / 2 - 1; i >= 0; i--) pop_wide(&b, i);
  }
  FAILS(net_do(&b.w, b.pop), TD_INVALID_ARGUMENT, "is empty");
  assert_true(memory(&b).peak <= LIMIT);
  swap_deinit(&b);
}

/* Below 70 % of the limit nothing leaves. */
static void test_stays(void **state) {
  (void)state;
  bench b;
  swap_init(&b, true);
  for (int i = 0; i < 8; i++) OK(push_wide(&b, i));
  assert_int_equal(td_allocator_read_stats(b.w.device->host).allocs, 0);
  for (int i = 8; i < MANY; i++) OK(push_wide(&b, i));
  assert_true(td_allocator_read_stats(b.w.device->host).in_use > 3 * LIMIT);
  for (int i = MANY - 1; i >= 0; i--) pop_wide(&b, i);
  swap_deinit(&b);
}

/* The same tensor again and again takes no room but its own. */
static void test_same_again(void **state) {
  (void)state;
  bench b;
  swap_init(&b, true);
  td_tensor host = wide_host(1), t;
  OK(td_device_transfer_wait(b.w.device, &host, b.w.device->memory, &t));
  td_tensor_release(&host);
  net_refeed(&b.w, b.elem, t);
  OK(net_do(&b.w, b.push));
  td_allocator_set_limit(b.w.device->memory, memory(&b).in_use);
  for (int i = 0; i < 10; i++) OK(net_do(&b.w, b.push));
  for (int i = 0; i < 10; i++) {
    OK(net_run(&b.w, b.pop, &host));
    td_tensor_release(&host);
  }
  OK(net_do(&b.w, b.close));
  swap_deinit(&b);
}

/* A device without room says what would help; other steps are not told. */
static void test_not_allowed(void **state) {
  (void)state;
  bench b;
  td_status *s = NULL;
  int n = 0;
  swap_init(&b, false);
  for (; td_ok(s) && n < MANY; n++) s = push_wide(&b, n);
  assert_in_range(n, 12, 17);
  FAILS(s, TD_RESOURCE_EXHAUSTED, "swap_memory = true");
  OK(net_do(&b.w, b.close));
  td_shape shape = td_shape_vector(LIMIT);
  td_tensor host, t;
  OK(td_tensor_new(NULL, TD_FLOAT32, &shape, &host));
  s = td_device_transfer_wait(b.w.device, &host, b.w.device->memory, &t);
  assert_null(strstr(td_status_message(s), "swap_memory"));
  FAILS(s, TD_RESOURCE_EXHAUSTED, "within its memory limit of 1.0 MiB");
  td_tensor_release(&host);
  swap_deinit(&b);
}

/* A tensor that cannot leave, or is wanted before it has left, is popped from
 * where it is. */
static void test_copies_fail(void **state) {
  (void)state;
  bench b;
  swap_init(&b, true);
  for (int i = 0; i < 12; i++) OK(push_wide(&b, i));
  td_fault *door = &td_device_test_doors(b.w.device)->copy;
  td_device_test_delay(b.w.device, 2000000);
  td_tensor host = wide_host(99), t;
  OK(td_device_transfer_wait(b.w.device, &host, b.w.device->memory, &t));
  td_tensor_release(&host);
  for (int turn = 0; turn < 40; turn++) {
    td_tensor again;
    if (turn % 2) td_fault_arm(door, 1, false);
    net_refeed(&b.w, b.elem, (td_tensor){0});
    td_tensor_retain(&t, &b.w.fed[b.elem.node->id]);
    OK(net_do(&b.w, b.push));
    td_fault_arm(door, 0, false);
    OK(net_run(&b.w, b.pop, &again));
    td_tensor_release(&again);
  }
  net_refeed(&b.w, b.elem, scalar_f(TD_FLOAT32, 0));
  td_tensor_release(&t);
  td_device_test_delay(b.w.device, 0);
  for (int i = 11; i >= 0; i--) pop_wide(&b, i);
  swap_deinit(&b);
}

/* Copies follow each other. */
static void await_copies(const bench *b) {
  td_tensor host = scalar_f(TD_FLOAT32, 0), t;
  OK(td_device_transfer_wait(b->w.device, &host, b->w.device->memory, &t));
  td_tensor_release(&host);
  td_tensor_release(&t);
}

/* What has no room to come back is an error of the pop. */
static void test_no_way_back(void **state) {
  (void)state;
  bench b;
  td_tensor t;
  swap_init(&b, true);
  for (int i = 0; i < MANY; i++) OK(push_wide(&b, i));
  await_copies(&b);
  td_allocator_set_limit(b.w.device->memory, WIDE);
  FAILS(net_run(&b.w, b.pop, &t), TD_RESOURCE_EXHAUSTED, "memory limit");
  td_allocator_set_limit(b.w.device->memory, LIMIT);
  for (int i = MANY - 2; i >= MANY / 2; i--) pop_wide(&b, i);
  swap_deinit(&b); /* with half of it */
}

/* No allocation of a push or a pop that fails loses anything. */
static void test_swap_starved(void **state) {
  (void)state;
  bench b;
  swap_init(&b, true);
  for (int i = 0; i < 12; i++) OK(push_wide(&b, i));
  td_tensor host = wide_host(12), t;
  OK(td_device_transfer_wait(b.w.device, &host, b.w.device->memory, &t));
  td_tensor_release(&host);
  net_refeed(&b.w, b.elem, t);
  net_starve(&b.w, b.push);
  net_refeed(&b.w, b.elem, scalar_f(TD_FLOAT32, 0));
  for (int i = 13; i < MANY; i++) OK(push_wide(&b, i));
  net_starve(&b.w, b.pop);
  net_refeed(&b.w, b.elem, scalar_f(TD_FLOAT32, 0));
  swap_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),       cmocka_unit_test(test_limits),
      cmocka_unit_test(test_wrong),       cmocka_unit_test(test_life),
      cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_swapped),
      cmocka_unit_test(test_stays),       cmocka_unit_test(test_same_again),
      cmocka_unit_test(test_not_allowed), cmocka_unit_test(test_copies_fail),
      cmocka_unit_test(test_no_way_back), cmocka_unit_test(test_swap_starved),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
