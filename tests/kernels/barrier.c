/* barrier.c - barriers: what makes an element whole, in what order they come,
 * closing, those who wait. The answers are those of real TensorFlow 2.21, but
 * that a batch goes in as a whole or not at all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/waiting.h"

/* A barrier of a float32 scalar and two int32, and nodes that use it. */
typedef struct bench {
  net w;
  td_edge handle, keys, values[2], want;
  td_edge insert[2], take, take_small, take_patient, close, close_now;
  td_edge ready, incomplete;
} bench;

static td_attr shape_list(const td_shape *v, int n) {
  return (td_attr){
      .kind = TD_ATTR_SHAPE, .is_list = true, .len = n, .shapes = v};
}

static td_edge take_node(bench *b, bool small, bool patient) {
  static td_dtype types[] = {TD_FLOAT32, TD_INT32};
  td_note attrs[] = {{"component_types", td_attr_types(types, 2)},
                     {"allow_small_batch", td_attr_bool(small)},
                     {"wait_for_incomplete", td_attr_bool(patient)}};
  return net_node(&b->w, "BarrierTakeMany", (td_edge[]){b->handle, b->want}, 2,
                  attrs, 3);
}

static td_edge insert_node(bench *b, int component) {
  td_note attrs[] = {{"component_index", td_attr_int(component)}};
  return net_node(&b->w, "BarrierInsertMany",
                  (td_edge[]){b->handle, b->keys, b->values[component]}, 3,
                  attrs, 1);
}

static void bench_init(bench *b) {
  static td_dtype types[] = {TD_FLOAT32, TD_INT32};
  td_shape shapes[] = {td_shape_scalar(), td_shape_vector(2)};
  td_note made[] = {{"component_types", td_attr_types(types, 2)},
                    {"shapes", shape_list(shapes, 2)}};
  td_note now[] = {{"cancel_pending_enqueues", td_attr_bool(true)}};
  td_tensor empty;
  net *w = &b->w;
  net_init(w, 1);
  td_shape none = td_shape_vector(0);
  OK(td_tensor_strings(&none, NULL, NULL, &empty));
  b->handle = net_node(w, "Barrier", NULL, 0, made, 2);
  b->keys = net_feed(w, empty);
  b->values[0] = net_feed(w, scalar_f(TD_FLOAT32, 0));
  b->values[1] = net_feed(w, ints(0, NULL));
  b->want = net_feed(w, ints(0, NULL));
  for (int i = 0; i < 2; i++) b->insert[i] = insert_node(b, i);
  b->take = take_node(b, false, false);
  b->take_small = take_node(b, true, false);
  b->take_patient = take_node(b, true, true);
  b->close = net_node(w, "BarrierClose", &b->handle, 1, NULL, 0);
  b->close_now = net_node(w, "BarrierClose", &b->handle, 1, now, 1);
  b->ready = net_node(w, "BarrierReadySize", &b->handle, 1, NULL, 0);
  b->incomplete = net_node(w, "BarrierIncompleteSize", &b->handle, 1, NULL, 0);
}

/* Each letter is a key; its values are its place in the alphabet. */
static void feed(bench *b, int component, const char *keys) {
  int n = (int)strlen(keys);
  const char *at[8];
  size_t len[8];
  td_tensor k, v;
  td_shape rows = td_shape_vector(n), pairs = td_shape_of(2, (int64_t[]){n, 2});
  for (int i = 0; i < n; i++) at[i] = &keys[i], len[i] = 1;
  OK(td_tensor_strings(&rows, at, len, &k));
  OK(td_tensor_new(NULL, component ? TD_INT32 : TD_FLOAT32,
                   component ? &pairs : &rows, &v));
  for (int i = 0; i < n * (component + 1); i++)
    td_tensor_set_i(&v, i, keys[i / (component + 1)] - 'a');
  net_refeed(&b->w, b->keys, k);
  net_refeed(&b->w, b->values[component], v);
}

static td_status *insert(bench *b, int component, const char *keys) {
  feed(b, component, keys);
  return net_do(&b->w, b->insert[component]);
}

static void want(bench *b, int n) {
  td_tensor t;
  OK(td_tensor_scalar_i(TD_INT32, n, &t));
  net_refeed(&b->w, b->want, t);
}

static void expect_sizes(bench *b, double ready, double incomplete) {
  net_expect(&b->w, b->ready, 1, &ready, 0);
  net_expect(&b->w, b->incomplete, 1, &incomplete, 0);
}

/* The elements, by key, with their batches: "a0b2". */
static void check_taken(const td_tensor *out, const char *elements) {
  int n = (int)strlen(elements) / 2;
  assert_int_equal(out[1].shape.dim[0], n);
  for (int i = 0; i < n; i++) {
    char key = elements[2 * i];
    size_t len;
    assert_int_equal(*td_tensor_str(&out[1], i, &len), key);
    assert_true(td_tensor_get_i(&out[0], i) ==
                INT64_MIN + (elements[2 * i + 1] - '0'));
    assert_int_equal(td_tensor_get_i(&out[2], i), key - 'a');
    assert_int_equal(td_tensor_get_i(&out[3], 2 * i + 1), key - 'a');
  }
}

static void expect_taken(bench *b, td_edge take, int n, const char *elements) {
  td_tensor out[4] = {{.dtype = TD_INVALID}};
  want(b, n);
  OK(net_run(&b->w, take, out));
  check_taken(out, elements);
  for (int i = 0; i < 4; i++) td_tensor_release(&out[i]);
}

static td_status *taking(bench *b, td_edge take, int n) {
  td_tensor out[4] = {{.dtype = TD_INVALID}};
  want(b, n);
  return net_run(&b->w, take, out);
}

static void test_order(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  OK(insert(&b, 0, "abc"));
  OK(insert(&b, 1, "ca"));
  expect_sizes(&b, 2, 1);
  expect_taken(&b, b.take, 2, "c0a0");
  OK(insert(&b, 0, "d"));
  OK(insert(&b, 0, "e"));
  OK(insert(&b, 1, "ed"));
  OK(insert(&b, 1, "b"));
  expect_taken(&b, b.take, 3, "b0d1e2"); /* by batch, not as they got whole */
  OK(insert(&b, 0, "a"));                /* a key that went is new again */
  OK(insert(&b, 1, "a"));
  expect_taken(&b, b.take, 1, "a3");
  expect_taken(&b, b.take, 0, "");
  OK(insert(&b, 0, ""));
  expect_sizes(&b, 0, 0);
  net_deinit(&b.w);
}

static void test_refused(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  OK(insert(&b, 0, "ab"));
  FAILS(insert(&b, 0, "cb"), TD_INVALID_ARGUMENT,
        "key b of barrier Barrier has a value for component 0 already");
  FAILS(insert(&b, 0, "xx"), TD_INVALID_ARGUMENT, "key x of barrier");
  expect_sizes(&b, 0, 2); /* no half batches */
  FAILS(taking(&b, b.take, -1), TD_INVALID_ARGUMENT, "negative, not -1");
  feed(&b, 0, "abc");
  feed(&b, 1, "a");
  net_refeed(&b.w, b.values[1], ints(2, (int32_t[]){1, 2}));
  FAILS(net_do(&b.w, b.insert[1]), TD_INVALID_ARGUMENT, "as many rows");
  feed(&b, 1, "ab");
  net_refeed(&b.w, b.values[1], ints(2, (int32_t[]){1, 2}));
  FAILS(net_do(&b.w, b.insert[1]), TD_INVALID_ARGUMENT,
        "is of shape {2} and cannot be of {}");
  td_edge in[] = {b.handle, b.keys, b.values[0]}, out;
  td_note third[] = {{"component_index", td_attr_int(2)}};
  FAILS(net_try(&b.w, "BarrierInsertMany", in, 3, third, 1, &out),
        TD_INVALID_ARGUMENT, "component_index is 2");
  td_note second[] = {{"component_index", td_attr_int(1)}};
  FAILS(net_try(&b.w, "BarrierInsertMany", in, 3, second, 1, &out),
        TD_INVALID_ARGUMENT, "is int32 and cannot be float32");
  net_deinit(&b.w);
}

static void test_attributes(void **state) {
  (void)state;
  net w;
  static td_dtype types[] = {TD_FLOAT32};
  td_shape open = td_shape_vector(-1), pair = td_shape_vector(2);
  td_note none[] = {{"component_types", td_attr_types(types, 1)}};
  td_note part[] = {none[0], {"shapes", shape_list(&open, 1)}};
  td_note limit[] = {
      none[0], {"shapes", shape_list(&pair, 1)}, {"capacity", td_attr_int(5)}};
  net_init(&w, 1);
  FAILS(net_do(&w, net_node(&w, "Barrier", NULL, 0, none, 1)),
        TD_INVALID_ARGUMENT, "of 1 components is given 0 shapes");
  FAILS(net_do(&w, net_node(&w, "Barrier", NULL, 0, part, 2)),
        TD_INVALID_ARGUMENT, "shape 0 of a barrier is {-1}");
  FAILS(net_do(&w, net_node(&w, "Barrier", NULL, 0, limit, 3)),
        TD_INVALID_ARGUMENT, "must be -1, not 5");
  net_deinit(&w);
}

static void test_close(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  OK(insert(&b, 0, "abcd"));
  OK(insert(&b, 1, "a"));
  OK(net_do(&b.w, b.close));
  FAILS(net_do(&b.w, b.close), TD_CANCELLED, "already closed");
  FAILS(insert(&b, 0, "e"), TD_CANCELLED, "closed: there is no key e");
  OK(insert(&b, 1, "c")); /* but what is incomplete can be completed */
  expect_sizes(&b, 2, 2);
  expect_taken(&b, b.take_small, 9, "a0c0");
  FAILS(taking(&b, b.take_small, 1), TD_OUT_OF_RANGE,
        "(requested 1, ready 0, incomplete 2)");
  FAILS(taking(&b, b.take, 3), TD_OUT_OF_RANGE, "insufficient elements");
  OK(net_do(&b.w, b.close_now));
  FAILS(insert(&b, 1, "b"), TD_CANCELLED, "is closed");
  expect_sizes(&b, 0, 0);
  FAILS(taking(&b, b.take, 1), TD_OUT_OF_RANGE, "requested 1, ready 0");
  net_deinit(&b.w);
}

static void test_waiting(void **state) {
  (void)state;
  bench b;
  waiting x, y;
  bench_init(&b);
  want(&b, 2);
  waiting_start(&x, &b.w, b.take_patient);
  want(&b, 3);
  waiting_start(&y, &b.w, b.take_patient);
  OK(insert(&b, 0, "abc"));
  OK(insert(&b, 1, "b"));
  waiting_why(&x, "barrier Barrier: 1 of 2 elements ready, 2 incomplete");
  assert_false(waiting_over(&x)); /* a small batch comes when it is closed */
  OK(insert(&b, 1, "a"));
  OK(waiting_end(&x));
  check_taken(x.out, "b0a0");
  waiting_drop(&x);
  OK(net_do(&b.w, b.close));
  assert_false(waiting_over(&y));
  waiting_why(&y, "0 of 3 elements ready, 1 incomplete, closed");
  OK(insert(&b, 1, "c"));
  OK(waiting_end(&y));
  check_taken(y.out, "c0");
  waiting_drop(&y);
  net_deinit(&b.w);
}

static void test_cancel_and_reset(void **state) {
  (void)state;
  bench b;
  waiting x, y;
  bench_init(&b);
  want(&b, 1);
  waiting_start(&x, &b.w, b.take);
  waiting_start(&y, &b.w, b.take);
  waiting_cancel(&x);
  FAILS(waiting_end(&x), TD_CANCELLED, "cancelled");
  td_resources_reset(b.w.own, NULL);
  FAILS(waiting_end(&y), TD_CANCELLED, "container of barrier Barrier");
  net_deinit(&b.w);
}

static void test_scarce_memory(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  feed(&b, 0, "abc");
  net_starve(&b.w, b.insert[0]);
  feed(&b, 1, "bc");
  net_starve(&b.w, b.insert[1]);
  expect_sizes(&b, 2, 1);
  for (int64_t n = 1;; n++) {
    td_tensor out[4] = {{.dtype = TD_INVALID}};
    want(&b, 2);
    td_mem_fail(n, false);
    td_status *s = net_run(&b.w, b.take, out);
    td_mem_fail(0, false);
    if (!s) check_taken(out, "b0c0");
    for (int i = 0; i < 4; i++) td_tensor_release(&out[i]);
    if (!s) break;
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
    expect_sizes(&b, 2, 1);
  }
  expect_sizes(&b, 0, 1);
  net_deinit(&b.w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_close),
      cmocka_unit_test(test_waiting),
      cmocka_unit_test(test_cancel_and_reset),
      cmocka_unit_test(test_scarce_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
