/* topk.c - TopK against a full sort, InTopK against counting.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#include "tests/kernels/arrays.h"

static const td_tensor *sorted; /* what `compare` looks into */
static int64_t sorted_row;

/* Largest first, NaN last, then by index. */
static int compare(const void *a, const void *b) {
  int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
  double x = td_tensor_get_f(sorted, sorted_row + i);
  double y = td_tensor_get_f(sorted, sorted_row + j);
  if (isnan(x) != isnan(y)) return isnan(x) ? 1 : -1;
  if (x != y && !isnan(x)) return x > y ? -1 : 1;
  return i < j ? -1 : 1;
}

static void top(uint64_t *r, td_dtype dtype, int64_t n, int64_t k) {
  int64_t order[200];
  request q = {.op = "TopKV2"};
  request_in(&q, random_i(dtype, td_shape_matrix(3, n), draw(r), 50));
  if (td_dtype_is_float(dtype) && n > 2) {
    td_tensor_set_f(&q.in[0], below(r, 3 * n), (double)NAN);
    td_tensor_set_f(&q.in[0], below(r, 3 * n), (double)-INFINITY);
    td_tensor_set_f(&q.in[0], below(r, 3 * n), -0.0);
  }
  request_in(&q, scalar32(k));
  OK(ask(&q, r));
  for (int64_t row = 0; row < 3; row++) {
    for (int64_t i = 0; i < n; i++) order[i] = i;
    sorted = &q.in[0];
    sorted_row = row * n;
    qsort(order, (size_t)n, sizeof *order, compare);
    for (int64_t i = 0; i < k; i++) {
      assert_int_equal(td_tensor_get_i(&q.out[1], row * k + i), order[i]);
      assert_true(
          same_element(&q.out[0], row * k + i, sorted, sorted_row + order[i]));
    }
  }
  request_end(&q);
}

static void test_top(void **state) {
  static const td_dtype all[] = {
      TD_FLOAT16, TD_BFLOAT16, TD_FLOAT32, TD_FLOAT64, TD_INT8,  TD_UINT8,
      TD_INT16,   TD_UINT16,   TD_INT32,   TD_UINT32,  TD_INT64, TD_UINT64};
  uint64_t r = 1;
  (void)state;
  for (size_t t = 0; t < TD_COUNT(all); t++)
    for (int i = 0; i < 30; i++) {
      int64_t n = 1 + below(&r, i < 20 ? 12 : 200);
      top(&r, all[t], n, below(&r, n + 1));
    }
}

static void test_extremes(void **state) {
  static const uint64_t x[] = {1, UINT64_MAX, INT64_MAX, 0};
  uint64_t r = 2;
  td_shape s = td_shape_vector(4);
  request q = {.op = "TopKV2"};
  (void)state;
  OK(td_tensor_from(TD_UINT64, &s, x, &q.in[0]));
  q.n_in = 1;
  request_in(&q, scalar32(4));
  OK(ask(&q, &r));
  assert_memory_equal(q.out[1].data, ((int32_t[]){1, 2, 0, 3}), 16);
  drop_outputs(&q);
  td_tensor_set_i(&q.in[1], 0, 5);
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "k must be in [0, 4]");
  td_tensor_set_i(&q.in[1], 0, -1);
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "k must not be negative");
  request_end(&q);
}

static void test_in_top(void **state) {
  static const float x[] = {1, 2, 2, 3, 1, 2, 2, 3, 1,   2,
                            2, 3, 1, 2, 2, 3, 1, 2, NAN, 3};
  static const uint8_t want[] = {true, false, true, false, false};
  uint64_t r = 3;
  td_shape s = td_shape_matrix(5, 4);
  request q = {.op = "InTopKV2"};
  (void)state;
  OK(td_tensor_from(TD_FLOAT32, &s, x, &q.in[0]));
  q.n_in = 1;
  request_in(&q, ints(5, (int32_t[]){2, 0, 3, 4, 3}));
  request_in(&q, scalar32(2));
  OK(ask(&q, &r));
  assert_memory_equal(q.out[0].data, want, sizeof want);
  drop_outputs(&q);
  td_tensor_release(&q.in[1]);
  q.in[1] = ints(4, (int32_t[]){2, 0, 3, 4});
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "");
  request_end(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_top),
      cmocka_unit_test(test_extremes),
      cmocka_unit_test(test_in_top),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
