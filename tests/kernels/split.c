/* split.c - Split, SplitV and Unpack against a walk over coordinates.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/arrays.h"

/* Output `part` is [first, ...) along `axis` of `x`; with `flat` the axis has
 * gone. */
static void check_part(const td_tensor *part, const td_tensor *x, int axis,
                       int64_t first, bool flat) {
  for (int64_t i = 0; i < td_tensor_count(part); i++) {
    int64_t at[TD_MAX_RANK + 1];
    coordinates(&part->shape, i, at);
    if (flat) {
      memmove(at + axis + 1, at + axis,
              (size_t)(TD_MAX_RANK - axis) * sizeof *at);
      at[axis] = 0;
    }
    at[axis] += first;
    assert_true(same_element(part, i, x, place(&x->shape, at)));
  }
}

static void split(uint64_t *r, td_shape s) {
  int axis = (int)below(r, s.rank), n = 1 + (int)below(r, 4);
  request q = {.op = "Split"};
  s.dim[axis] *= n;
  request_in(&q, scalar32(below(r, 2) ? axis : axis - s.rank));
  request_in(&q, any_tensor(r, any_dtype(r), s));
  request_int(&q, "num_split", n);
  OK(ask(&q, r));
  for (int i = 0; i < n; i++) {
    assert_int_equal(q.out[i].shape.dim[axis], s.dim[axis] / n);
    check_part(&q.out[i], &q.in[1], axis, i * (s.dim[axis] / n), false);
  }
  request_end(&q);
}

static void splitv(uint64_t *r, td_shape s) {
  int axis = (int)below(r, s.rank), n = 1 + (int)below(r, 4);
  int64_t sizes[4], asked[4], first = 0;
  request q = {.op = "SplitV"};
  s.dim[axis] = 0;
  for (int i = 0; i < n; i++) {
    sizes[i] = asked[i] = below(r, 5);
    s.dim[axis] += sizes[i];
  }
  if (below(r, 2)) asked[below(r, n)] = -1;
  request_in(&q, any_tensor(r, any_dtype(r), s));
  request_in(&q, vector64(n, asked));
  request_in(&q, scalar32(below(r, 2) ? axis : axis - s.rank));
  request_int(&q, "num_split", n);
  OK(ask(&q, r));
  for (int i = 0; i < n; i++) {
    assert_int_equal(q.out[i].shape.dim[axis], sizes[i]);
    check_part(&q.out[i], &q.in[0], axis, first, false);
    first += sizes[i];
  }
  request_end(&q);
}

static void unpack(uint64_t *r, td_shape s) {
  int axis = (int)below(r, s.rank);
  request q = {.op = "Unpack"};
  request_in(&q, any_tensor(r, any_dtype(r), s));
  request_int(&q, "num", s.dim[axis]);
  request_int(&q, "axis", below(r, 2) ? axis : axis - s.rank);
  OK(ask(&q, r));
  assert_int_equal(q.n_out, s.dim[axis]);
  for (int i = 0; i < q.n_out; i++) {
    assert_int_equal(q.out[i].shape.rank, s.rank - 1);
    check_part(&q.out[i], &q.in[0], axis, i, true);
  }
  request_end(&q);
}

static void test_random_shapes(void **state) {
  uint64_t r = 1;
  (void)state;
  for (int i = 0; i < 300; i++) {
    split(&r, any_shape(&r, 1, TD_MAX_RANK));
    splitv(&r, any_shape(&r, 1, TD_MAX_RANK));
    unpack(&r, any_shape(&r, 1, TD_MAX_RANK));
  }
  split(&r, td_shape_matrix(300, 400));
  splitv(&r, td_shape_matrix(3000, 40));
}

static void refuse_sizes(const int64_t *sizes, const char *part) {
  uint64_t r = 2;
  request q = {.op = "SplitV"};
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_vector(6)));
  request_in(&q, vector64(3, sizes));
  request_in(&q, scalar32(0));
  request_int(&q, "num_split", 3);
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, part);
  request_end(&q);
}

static void test_bad_sizes(void **state) {
  (void)state;
  refuse_sizes((int64_t[]){1, 2, 2}, "less than the 6 elements");
  refuse_sizes((int64_t[]){1, 2, 4}, "more than the 6 elements");
  refuse_sizes((int64_t[]){1, 9, -1}, "more than the 6 elements");
  refuse_sizes((int64_t[]){-1, -1, 2}, "size_splits[1] is -1");
  refuse_sizes((int64_t[]){-2, 6, 2}, "size_splits[0] is -2");
  refuse_sizes((int64_t[]){INT64_MAX, INT64_MAX, 0}, "over 2^63-1");
}

static void test_bad_split(void **state) {
  uint64_t r = 3;
  request q = {.op = "Split"};
  (void)state;
  request_in(&q, scalar32(0));
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_vector(6)));
  request_int(&q, "num_split", 4);
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "num_split must divide");
  request_end(&q);
  q = (request){.op = "Unpack"};
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_vector(6)));
  request_int(&q, "num", 4);
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "dimension 0 has 6 elements");
  request_end(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_shapes),
      cmocka_unit_test(test_bad_sizes),
      cmocka_unit_test(test_bad_split),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
