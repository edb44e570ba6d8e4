/* concat.c - Concat, Pack and their offsets against a walk over coordinates.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/arrays.h"

/* Index `at` along `axis` of the joined values: which value it is in, and
 * where; `along` says how many each has. */
static int find(const int64_t *along, int64_t *at) {
  int i = 0;
  while (*at >= along[i]) *at -= along[i++];
  return i;
}

static void concat(uint64_t *r, const char *op, td_shape s, int n) {
  int axis = (int)below(r, s.rank), last = op[6] != 0;
  int64_t along[MAX_IN], sum = 0;
  td_dtype dtype = any_dtype(r);
  td_tensor where = scalar32(below(r, 2) ? axis : axis - s.rank);
  request q = {.op = op};
  if (!last) request_in(&q, where);
  for (int i = 0; i < n; i++) {
    s.dim[axis] = along[i] = below(r, 5);
    sum += along[i];
    request_in(&q, any_tensor(r, dtype, s));
  }
  if (last) request_in(&q, where);
  request_int(&q, "N", n);
  OK(ask(&q, r));
  assert_int_equal(q.out[0].shape.dim[axis], sum);
  for (int64_t i = 0; i < td_tensor_count(&q.out[0]); i++) {
    int64_t at[TD_MAX_RANK];
    coordinates(&q.out[0].shape, i, at);
    const td_tensor *x = &q.in[!last + find(along, &at[axis])];
    assert_true(same_element(&q.out[0], i, x, place(&x->shape, at)));
  }
  request_end(&q);
}

static void test_concat(void **state) {
  uint64_t r = 1;
  (void)state;
  for (int i = 0; i < 500; i++)
    concat(&r, i % 4 ? "ConcatV2" : "Concat", any_shape(&r, 1, TD_MAX_RANK),
           2 + (int)below(&r, 4));
  for (int i = 0; i < 6; i++)
    concat(&r, "ConcatV2", td_shape_of(3, (int64_t[]){40, 50, 60}), 3);
}

static void test_bad_concat(void **state) {
  uint64_t r = 2;
  request q = {.op = "ConcatV2"};
  (void)state;
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_matrix(2, 3)));
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_matrix(2, 4)));
  request_in(&q, scalar32(0));
  request_int(&q, "N", 2);
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT,
        "value 1 is {2, 4}, those before it {2, 3}");
  *(int32_t *)q.in[2].data = 2;
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "axis must be in [-2, 2)");
  td_tensor_release(&q.in[1]);
  q.in[1] = any_tensor(&r, TD_FLOAT32, td_shape_vector(2));
  *(int32_t *)q.in[2].data = 0;
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "value 1 is {2}");
  td_tensor_release(&q.in[0]);
  q.in[0] = any_tensor(&r, TD_FLOAT32, td_shape_scalar());
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "");
  request_end(&q);
}

static void pack(uint64_t *r, td_shape s, int n) {
  int axis = (int)below(r, s.rank + 1);
  td_dtype dtype = any_dtype(r);
  request q = {.op = "Pack"};
  for (int i = 0; i < n; i++) request_in(&q, any_tensor(r, dtype, s));
  request_int(&q, "axis", below(r, 2) ? axis : axis - s.rank - 1);
  request_int(&q, "N", n);
  OK(ask(&q, r));
  assert_int_equal(q.out[0].shape.dim[axis], n);
  for (int64_t i = 0; i < td_tensor_count(&q.out[0]); i++) {
    int64_t at[TD_MAX_RANK];
    coordinates(&q.out[0].shape, i, at);
    const td_tensor *x = &q.in[at[axis]];
    memmove(at + axis, at + axis + 1, (size_t)(s.rank - axis) * sizeof *at);
    assert_true(same_element(&q.out[0], i, x, place(&s, at)));
  }
  request_end(&q);
}

static void test_pack(void **state) {
  uint64_t r = 3;
  (void)state;
  for (int i = 0; i < 400; i++)
    pack(&r, any_shape(&r, 0, TD_MAX_RANK - 1), 1 + (int)below(&r, 5));
  request q = {.op = "Pack"};
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_vector(2)));
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_vector(3)));
  request_int(&q, "N", 2);
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "values must have one shape");
  request_end(&q);
}

static void test_offset(void **state) {
  static const int64_t want[] = {0, 3, 8};
  uint64_t r = 4;
  request q = {.op = "ConcatOffset"};
  (void)state;
  request_in(&q, scalar32(-1));
  request_in(&q, ints(2, (int32_t[]){2, 3}));
  request_in(&q, ints(2, (int32_t[]){2, 5}));
  request_in(&q, ints(2, (int32_t[]){2, 1}));
  request_int(&q, "N", 3);
  OK(ask(&q, &r));
  for (int i = 0; i < 3; i++) {
    assert_int_equal(td_tensor_get_i(&q.out[i], 0), 0);
    assert_int_equal(td_tensor_get_i(&q.out[i], 1), want[i]);
  }
  drop_outputs(&q);
  ((int32_t *)q.in[3].data)[0] = 7;
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "size 0 of shape 2 is 7");
  request_end(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_concat),
      cmocka_unit_test(test_bad_concat),
      cmocka_unit_test(test_pack),
      cmocka_unit_test(test_offset),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
