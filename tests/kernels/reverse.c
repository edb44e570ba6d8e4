/* reverse.c - ReverseV2 against a walk over coordinates.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/arrays.h"

static void reverse(uint64_t *r, td_shape s) {
  int64_t axes[TD_MAX_RANK];
  bool back[TD_MAX_RANK] = {false};
  int n = 0;
  request q = {.op = "ReverseV2"};
  for (int k = s.rank - 1; k >= 0; k--) {
    back[k] = below(r, 2);
    if (back[k]) axes[n++] = below(r, 2) ? k : k - s.rank;
  }
  request_in(&q, any_tensor(r, any_dtype(r), s));
  request_in(&q, vector64(n, axes));
  OK(ask(&q, r));
  for (int64_t i = 0; i < td_tensor_count(&q.out[0]); i++) {
    int64_t at[TD_MAX_RANK];
    coordinates(&s, i, at);
    for (int k = 0; k < s.rank; k++)
      if (back[k]) at[k] = s.dim[k] - 1 - at[k];
    assert_true(same_element(&q.out[0], i, &q.in[0], place(&s, at)));
  }
  request_end(&q);
}

static void test_reverse(void **state) {
  uint64_t r = 4;
  (void)state;
  for (int i = 0; i < 400; i++) reverse(&r, any_shape(&r, 0, TD_MAX_RANK));
  for (int i = 0; i < 8; i++)
    reverse(&r, td_shape_of(3, (int64_t[]){50, 60, 70}));
}

static void test_bad_reverse(void **state) {
  uint64_t r = 5;
  request q = {.op = "ReverseV2"};
  (void)state;
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_matrix(2, 3)));
  request_in(&q, vector64(2, (int64_t[]){1, -1}));
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "axis 1 is given twice");
  ((int64_t *)q.in[1].data)[0] = 2;
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "must be in [-2, 2)");
  request_end(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reverse),
      cmocka_unit_test(test_bad_reverse),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
