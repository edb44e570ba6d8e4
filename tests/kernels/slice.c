/* slice.c - Slice against a walk over coordinates.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/arrays.h"

/* ---- Slice --------------------------------------------------------------- */

static void slice(uint64_t *r, td_shape s) {
  int64_t begin[TD_MAX_RANK], size[TD_MAX_RANK];
  request q = {.op = "Slice"};
  for (int k = 0; k < s.rank; k++) {
    begin[k] = below(r, 3) ? 0 : below(r, s.dim[k] + 1);
    size[k] = below(r, 2) ? -1 : below(r, s.dim[k] - begin[k] + 1);
  }
  request_in(&q, any_tensor(r, any_dtype(r), s));
  request_in(&q, vector64(s.rank, begin));
  request_in(&q, vector64(s.rank, size));
  OK(ask(&q, r));
  const td_tensor *y = &q.out[0];
  for (int k = 0; k < s.rank; k++)
    assert_int_equal(y->shape.dim[k],
                     size[k] < 0 ? s.dim[k] - begin[k] : size[k]);
  for (int64_t i = 0; i < td_tensor_count(y); i++) {
    int64_t at[TD_MAX_RANK];
    coordinates(&y->shape, i, at);
    for (int k = 0; k < s.rank; k++) at[k] += begin[k];
    assert_true(same_element(y, i, &q.in[0], place(&s, at)));
  }
  request_end(&q);
}

static void test_slice(void **state) {
  uint64_t r = 1;
  (void)state;
  for (int i = 0; i < 800; i++) slice(&r, any_shape(&r, 0, TD_MAX_RANK));
  for (int i = 0; i < 20; i++)
    slice(&r, td_shape_of(3, (int64_t[]){30, 50, 70}));
}

static void refuse_slice(int n, const int64_t *begin, const int64_t *size,
                         const char *part) {
  uint64_t r = 2;
  request q = {.op = "Slice"};
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_matrix(2, 3)));
  request_in(&q, vector64(n, begin));
  request_in(&q, vector64(n, size));
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, part);
  request_end(&q);
}

static void test_bad_slice(void **state) {
  (void)state;
  refuse_slice(1, (int64_t[]){0}, (int64_t[]){1}, "for each of the 2");
  refuse_slice(2, (int64_t[]){0, 4}, (int64_t[]){1, 0}, "begin[1] must be");
  refuse_slice(2, (int64_t[]){-1, 0}, (int64_t[]){1, 0}, "begin[0] must be");
  refuse_slice(2, (int64_t[]){1, 0}, (int64_t[]){2, 0}, "size[0] must be");
  refuse_slice(2, (int64_t[]){0, 0}, (int64_t[]){2, -2}, "size[1] must be");
  refuse_slice(2, (int64_t[]){0, INT64_MAX}, (int64_t[]){2, INT64_MAX},
               "begin[1] must be");
}

/* Rows are taken as a view, a few bytes as a copy. */
static void test_views(void **state) {
  uint64_t r = 3;
  request q = {.op = "Slice"};
  (void)state;
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_matrix(8, 1024)));
  request_in(&q, vector64(2, (int64_t[]){3, 0}));
  request_in(&q, vector64(2, (int64_t[]){2, -1}));
  OK(ask(&q, &r));
  assert_ptr_equal(q.out[0].data, (float *)q.in[0].data + 3 * 1024);
  drop_outputs(&q);
  int64_t *size = q.in[2].data;
  size[1] = 5;
  OK(ask(&q, &r));
  assert_ptr_not_equal(q.out[0].buffer, q.in[0].buffer);
  request_end(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slice),
      cmocka_unit_test(test_bad_slice),
      cmocka_unit_test(test_views),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
