/* transpose.c - Transpose against a walk over coordinates.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/arrays.h"

static void any_permutation(uint64_t *r, int n, int64_t *perm) {
  for (int k = 0; k < n; k++) perm[k] = k;
  for (int k = n - 1; k > 0; k--) {
    int64_t other = below(r, k + 1), x = perm[k];
    perm[k] = perm[other];
    perm[other] = x;
  }
}

static void check(const td_tensor *x, const int64_t *perm, const td_tensor *y) {
  for (int k = 0; k < x->shape.rank; k++)
    assert_int_equal(y->shape.dim[k], x->shape.dim[perm[k]]);
  for (int64_t i = 0; i < td_tensor_count(y); i++) {
    int64_t to[TD_MAX_RANK], from[TD_MAX_RANK];
    coordinates(&y->shape, i, to);
    for (int k = 0; k < x->shape.rank; k++) from[perm[k]] = to[k];
    assert_true(same_element(y, i, x, place(&x->shape, from)));
  }
}

static void transpose(uint64_t *r, td_dtype dtype, td_shape s) {
  int64_t perm[TD_MAX_RANK];
  request q = {.op = "Transpose"};
  any_permutation(r, s.rank, perm);
  request_in(&q, any_tensor(r, dtype, s));
  request_in(&q, vector64(s.rank, perm));
  OK(ask(&q, r));
  check(&q.in[0], perm, &q.out[0]);
  request_end(&q);
}

static void test_random_shapes(void **state) {
  uint64_t r = 1;
  (void)state;
  for (int i = 0; i < 600; i++)
    transpose(&r, any_dtype(&r), any_shape(&r, 0, TD_MAX_RANK));
}

/* Many blocks, many pieces, edges that fill no block. */
static void test_large(void **state) {
  static const td_shape shapes[] = {
      {.dim = {700, 1301}, .rank = 2},   {.dim = {3, 70001}, .rank = 2},
      {.dim = {70001, 3}, .rank = 2},    {.dim = {5, 257, 131}, .rank = 3},
      {.dim = {33, 2, 4097}, .rank = 3}, {.dim = {2, 1, 90000}, .rank = 3}};
  uint64_t r = 2;
  (void)state;
  for (size_t i = 0; i < TD_COUNT(shapes); i++)
    for (size_t t = 0; t + 1 < TD_COUNT(dtypes); t++)
      transpose(&r, dtypes[t], shapes[i]);
}

static void refuse(const int64_t *perm, int n, const char *part) {
  uint64_t r = 3;
  request q = {.op = "Transpose"};
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_matrix(2, 3)));
  request_in(&q, vector64(n, perm));
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, part);
  request_end(&q);
}

static void test_bad_perm(void **state) {
  (void)state;
  refuse((int64_t[]){0}, 1, "one element for each");
  refuse((int64_t[]){0, 1, 2}, 3, "one element for each");
  refuse((int64_t[]){0, 2}, 2, "must be in [-2, 2)");
  refuse((int64_t[]){1, -1}, 2, "has 1 twice");
}

/* What keeps its order in memory shares it. */
static void test_shares(void **state) {
  uint64_t r = 4;
  request q = {.op = "Transpose"};
  (void)state;
  request_in(
      &q, any_tensor(&r, TD_FLOAT32, td_shape_of(4, (int64_t[]){1, 5, 1, 7})));
  request_in(&q, vector64(4, (int64_t[]){1, 0, 3, 2}));
  OK(ask(&q, &r));
  assert_ptr_equal(q.out[0].data, q.in[0].data);
  request_end(&q);
}

static void test_invert(void **state) {
  uint64_t r = 5;
  (void)state;
  for (int n = 0; n <= 8; n++) {
    int64_t perm[TD_MAX_RANK];
    request q = {.op = "InvertPermutation"};
    any_permutation(&r, n, perm);
    request_in(&q, vector64(n, perm));
    OK(ask(&q, &r));
    for (int k = 0; k < n; k++)
      assert_int_equal(td_tensor_get_i(&q.out[0], perm[k]), k);
    request_end(&q);
  }
  request q = {.op = "InvertPermutation"};
  request_in(&q, vector64(3, (int64_t[]){0, 2, 2}));
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "x[2] is 2");
  request_end(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_shapes), cmocka_unit_test(test_large),
      cmocka_unit_test(test_bad_perm),      cmocka_unit_test(test_shares),
      cmocka_unit_test(test_invert),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
