/* step_array.c - arrays of tensors: once only, growth, zeros, sums by many
 * threads, twins, life.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "kernels/step_array.h"
#include "tests/kernels/net.h"

/* A kernel's context, as far as an array looks at it. */
typedef struct bench {
  net w;
  td_kernel kernel;
  td_kernel_ctx ctx;
} bench;

static void bench_init(bench *b) {
  net_init(&b->w, 2);
  td_edge in[] = {net_feed(&b->w, scalar_f(TD_FLOAT32, 0)),
                  net_feed(&b->w, scalar_f(TD_FLOAT32, 0))};
  td_edge add = net_node(&b->w, "AddV2", in, 2, NULL, 0);
  OK(td_kernel_init(&b->kernel, add.node, b->w.device, NULL));
  b->ctx = (td_kernel_ctx){.kernel = &b->kernel, .step = &b->w.step};
}

static void bench_deinit(bench *b) {
  td_kernel_deinit(&b->kernel);
  net_deinit(&b->w);
}

static td_step_array *array_of(td_step_array_spec spec, int64_t size) {
  td_step_array *a;
  spec.name = "a";
  spec.dtype = TD_FLOAT32;
  OK(td_step_array_new(&spec, size, &a));
  return a;
}

static void drop(td_step_array *a) {
  td_object_release(td_step_array_object(a));
}

static td_tensor pair(double x, double y) {
  return tensor_f(TD_FLOAT32, td_shape_vector(2), (double[]){x, y});
}

static td_status *put(bench *b, td_step_array *a, int64_t i, td_tensor t) {
  td_status *s = td_step_array_write(&b->ctx, a, i, &t, NULL);
  td_tensor_release(&t);
  return s;
}

/* Reads element i; the tensor is the caller's. */
static td_tensor get(bench *b, td_step_array *a, int64_t i) {
  td_tensor t;
  OK(td_step_array_read(&b->ctx, a, i, &t));
  return t;
}

static void expect(bench *b, td_step_array *a, int64_t i, double x, double y) {
  td_tensor t = get(b, a, i);
  assert_int_equal(td_tensor_count(&t), 2);
  assert_true(td_tensor_get_f(&t, 0) == x && td_tensor_get_f(&t, 1) == y);
  td_tensor_release(&t);
}

static td_status *reading(bench *b, td_step_array *a, int64_t i) {
  td_tensor t;
  return td_step_array_read(&b->ctx, a, i, &t);
}

static const td_step_array_spec plain = {.each = {.rank = -1}};

static void test_once(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  td_step_array_spec clearing = plain;
  clearing.clears = true;
  td_step_array *a = array_of(plain, 2), *c = array_of(clearing, 2);
  OK(put(&b, a, 1, pair(1, 2)));
  FAILS(put(&b, a, 1, pair(3, 4)), TD_INVALID_ARGUMENT, "was written before");
  expect(&b, a, 1, 1, 2);
  expect(&b, a, 1, 1, 2);
  OK(put(&b, c, 0, pair(1, 2)));
  td_tensor t = get(&b, c, 0);
  assert_true(td_buffer_sole(t.buffer));
  td_tensor_release(&t);
  FAILS(reading(&b, c, 0), TD_INVALID_ARGUMENT, "was read before");
  FAILS(put(&b, c, 0, pair(1, 2)), TD_INVALID_ARGUMENT, "was read before");
  drop(a);
  drop(c);
  bench_deinit(&b);
}

static void test_bounds(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  td_step_array_spec growing = plain;
  growing.grows = true;
  td_step_array *a = array_of(plain, 2), *g = array_of(growing, 0);
  int64_t size;
  FAILS(put(&b, a, 2, pair(1, 2)), TD_INVALID_ARGUMENT, "would grow");
  FAILS(put(&b, g, -1, pair(1, 2)), TD_INVALID_ARGUMENT, "index -1");
  FAILS(reading(&b, g, 0), TD_INVALID_ARGUMENT, "of 0 elements");
  OK(put(&b, g, 4, pair(1, 2)));
  OK(td_step_array_size(g, &size));
  assert_int_equal(size, 5);
  FAILS(put(&b, g, INT32_MAX, pair(1, 2)), TD_RESOURCE_EXHAUSTED, "allowed");
  FAILS(td_step_array_fit(a, 3), TD_INVALID_ARGUMENT, "cannot take 3");
  OK(td_step_array_fit(g, 8));
  td_step_array_close(a);
  FAILS(put(&b, a, 0, pair(1, 2)), TD_INVALID_ARGUMENT, "was closed");
  drop(a);
  drop(g);
  bench_deinit(&b);
}

static void test_shapes(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  td_step_array_spec two = plain, same = plain;
  two.each = td_shape_vector(2);
  same.identical = true;
  td_step_array *a = array_of(two, 2), *s = array_of(same, 2);
  td_tensor t = get(&b, a, 0);
  assert_false(td_tensor_valid(&t)); /* zeros are the reader's to make */
  assert_true(td_shape_equal(&t.shape, &two.each));
  FAILS(put(&b, a, 0, scalar_f(TD_FLOAT32, 1)), TD_INVALID_ARGUMENT,
        "have shape {2}: element 0 cannot be {}");
  FAILS(reading(&b, s, 0), TD_INVALID_ARGUMENT, "which zeros");
  OK(put(&b, s, 0, pair(1, 2)));
  FAILS(put(&b, s, 1, scalar_f(TD_FLOAT32, 1)), TD_INVALID_ARGUMENT,
        "have shape {2}: element 1 cannot be {}");
  drop(a);
  drop(s);
  bench_deinit(&b);
}

/* Gradients: what is written again adds, and touches nobody else's tensor. */
static void test_twin(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  td_step_array *a = array_of(plain, 3), *t, *same, *other;
  td_shape none = td_shape_scalar();
  td_tensor first = pair(1, 2);
  OK(put(&b, a, 0, pair(9, 9)));
  OK(td_step_array_twin(a, "g", &none, &t));
  OK(td_step_array_twin(a, "g", &none, &same));
  OK(td_step_array_twin(a, "h", &none, &other));
  assert_ptr_equal(t, same);
  assert_ptr_not_equal(t, other);
  OK(td_step_array_write(&b.ctx, t, 1, &first, NULL));
  OK(put(&b, t, 1, pair(10, 20)));
  OK(put(&b, t, 1, pair(100, 200)));
  assert_true(td_tensor_get_f(&first, 0) == 1);
  FAILS(put(&b, t, 1, scalar_f(TD_FLOAT32, 1)), TD_INVALID_ARGUMENT,
        "cannot be added");
  td_tensor zero = get(&b, t, 0); /* shaped as the element of `a` */
  assert_false(td_tensor_valid(&zero));
  assert_int_equal(zero.shape.rank, 1);
  OK(put(&b, t, 5, pair(1, 1))); /* it grows, `a` no longer would */
  td_tensor_release(&first);
  drop(t);
  drop(same);
  drop(other);
  drop(a);
  bench_deinit(&b);
}

typedef struct adder {
  bench *b;
  td_step_array *a;
} adder;

enum { ADDERS = 4, ADDS = 2000 };

static void *add_many(void *arg) {
  adder *j = arg;
  for (int i = 0; i < ADDS; i++) OK(put(j->b, j->a, 0, pair(1, 2)));
  return NULL;
}

static void test_many_add(void **state) {
  (void)state;
  bench b;
  pthread_t threads[ADDERS];
  bench_init(&b);
  td_step_array_spec summing = plain;
  summing.sums = true;
  td_step_array *a = array_of(summing, 1);
  adder j = {&b, a};
  for (int i = 0; i < ADDERS; i++)
    pthread_create(&threads[i], NULL, add_many, &j);
  for (int i = 0; i < ADDERS; i++) pthread_join(threads[i], NULL);
  expect(&b, a, 0, ADDERS * ADDS, 2 * ADDERS * ADDS);
  drop(a);
  bench_deinit(&b);
}

static void test_no_memory(void **state) {
  (void)state;
  bench b;
  bench_init(&b);
  td_step_array_spec spec = plain;
  td_shape none = td_shape_scalar();
  td_step_array *a = array_of(plain, 2), *made;
  spec.name = "a";
  OK(put(&b, a, 0, pair(1, 2)));
  for (int n = 1, made_all = 0; made_all < 2; n++) {
    td_mem_fail(n, false);
    td_status *s = made_all ? td_step_array_twin(a, "g", &none, &made)
                            : td_step_array_new(&spec, 3, &made);
    td_mem_fail(0, false);
    if (!s) {
      drop(made);
      made_all++, n = 0;
      continue;
    }
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
  }
  drop(a);
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_once),     cmocka_unit_test(test_bounds),
      cmocka_unit_test(test_shapes),   cmocka_unit_test(test_twin),
      cmocka_unit_test(test_many_add), cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
