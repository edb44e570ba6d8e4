/* fill.c - Fill, OneHot, Tile, BroadcastTo, Pad, Diag by coordinates.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/arrays.h"

static td_shape repeat_shape(uint64_t *r, td_shape s, int64_t *times) {
  for (int k = 0; k < s.rank; k++) {
    times[k] = below(r, s.rank > 4 ? 3 : 4);
    s.dim[k] *= times[k];
  }
  return s;
}

static void tile(uint64_t *r, td_shape s) {
  int64_t times[TD_MAX_RANK];
  td_shape want = repeat_shape(r, s, times);
  request q = {.op = "Tile"};
  request_in(&q, any_tensor(r, any_dtype(r), s));
  request_in(&q, vector64(s.rank, times));
  OK(ask(&q, r));
  assert_true(td_shape_equal(&q.out[0].shape, &want));
  for (int64_t i = 0; i < td_shape_count(&want); i++) {
    int64_t at[TD_MAX_RANK];
    coordinates(&want, i, at);
    for (int k = 0; k < s.rank; k++) at[k] %= s.dim[k];
    assert_true(same_element(&q.out[0], i, &q.in[0], place(&s, at)));
  }
  request_end(&q);
}

static void broadcast(uint64_t *r, td_shape want) {
  int skip = (int)below(r, want.rank + 1);
  td_shape s = td_shape_of(want.rank - skip, want.dim + skip);
  request q = {.op = "BroadcastTo"};
  for (int k = 0; k < s.rank; k++)
    if (below(r, 2)) s.dim[k] = 1;
  request_in(&q, any_tensor(r, any_dtype(r), s));
  request_in(&q, vector64(want.rank, want.dim));
  OK(ask(&q, r));
  assert_true(td_shape_equal(&q.out[0].shape, &want));
  for (int64_t i = 0; i < td_shape_count(&want); i++) {
    int64_t at[TD_MAX_RANK];
    coordinates(&want, i, at);
    for (int k = 0; k < s.rank; k++) at[skip + k] %= s.dim[k];
    assert_true(same_element(&q.out[0], i, &q.in[0], place(&s, at + skip)));
  }
  request_end(&q);
}

static td_tensor paddings(uint64_t *r, int rank, int64_t *before,
                          td_shape *out) {
  td_shape s = td_shape_matrix(rank, 2);
  td_tensor t;
  OK(td_tensor_new(NULL, TD_INT32, &s, &t));
  for (int k = 0; k < rank; k++) {
    int64_t after = below(r, 3);
    before[k] = below(r, 3);
    td_tensor_set_i(&t, 2 * k, before[k]);
    td_tensor_set_i(&t, 2 * k + 1, after);
    out->dim[k] += before[k] + after;
  }
  return t;
}

static void pad(uint64_t *r, td_shape s, bool value) {
  int64_t before[TD_MAX_RANK];
  td_shape want = s;
  td_dtype dtype = any_dtype(r);
  request q = {.op = value ? "PadV2" : "Pad"};
  request_in(&q, any_tensor(r, dtype, s));
  request_in(&q, paddings(r, s.rank, before, &want));
  if (value) request_in(&q, any_tensor(r, dtype, td_shape_scalar()));
  OK(ask(&q, r));
  assert_true(td_shape_equal(&q.out[0].shape, &want));
  for (int64_t i = 0; i < td_shape_count(&want); i++) {
    int64_t at[TD_MAX_RANK];
    bool inside = true;
    coordinates(&want, i, at);
    for (int k = 0; k < s.rank; k++) {
      at[k] -= before[k];
      inside = inside && at[k] >= 0 && at[k] < s.dim[k];
    }
    if (inside)
      assert_true(same_element(&q.out[0], i, &q.in[0], place(&s, at)));
    else if (value)
      assert_true(same_element(&q.out[0], i, &q.in[2], 0));
    else
      assert_true(zero_element(&q.out[0], i));
  }
  request_end(&q);
}

static void test_random_shapes(void **state) {
  uint64_t r = 1;
  (void)state;
  for (int i = 0; i < 300; i++) {
    tile(&r, any_shape(&r, 0, TD_MAX_RANK));
    broadcast(&r, any_shape(&r, 0, TD_MAX_RANK));
    pad(&r, any_shape(&r, 0, 6), i % 2);
  }
  tile(&r, td_shape_of(3, (int64_t[]){20, 30, 40}));
  pad(&r, td_shape_of(3, (int64_t[]){40, 50, 60}), true);
}

static void one_hot(uint64_t *r, td_shape s, int64_t depth) {
  int axis = (int)below(r, s.rank + 1);
  td_dtype dtype = any_dtype(r);
  request q = {.op = "OneHot"};
  request_in(&q, random_i(TD_INT64, s, draw(r), 6));
  for (int64_t i = 0; i < td_shape_count(&s); i++)
    td_tensor_set_i(&q.in[0], i, td_tensor_get_i(&q.in[0], i) - 1);
  request_in(&q, scalar32(depth));
  request_in(&q, any_tensor(r, dtype, td_shape_scalar()));
  request_in(&q, any_tensor(r, dtype, td_shape_scalar()));
  request_int(&q, "axis", axis == s.rank && below(r, 2) ? -1 : axis);
  OK(ask(&q, r));
  assert_int_equal(q.out[0].shape.dim[axis], depth);
  for (int64_t i = 0; i < td_tensor_count(&q.out[0]); i++) {
    int64_t at[TD_MAX_RANK];
    coordinates(&q.out[0].shape, i, at);
    int64_t layer = at[axis];
    memmove(at + axis, at + axis + 1, (size_t)(s.rank - axis) * sizeof *at);
    bool on = td_tensor_get_i(&q.in[0], place(&s, at)) == layer;
    assert_true(same_element(&q.out[0], i, &q.in[on ? 2 : 3], 0));
  }
  request_end(&q);
}

static void test_one_hot(void **state) {
  uint64_t r = 2;
  (void)state;
  for (int i = 0; i < 300; i++)
    one_hot(&r, any_shape(&r, 0, TD_MAX_RANK - 1), below(&r, 6));
  one_hot(&r, td_shape_vector(300), 2000);
  one_hot(&r, td_shape_matrix(2, 3), 40000);
}

static void test_fill(void **state) {
  uint64_t r = 3;
  (void)state;
  for (int i = 0; i < 100; i++) {
    td_shape s = any_shape(&r, 0, TD_MAX_RANK);
    request q = {.op = "Fill"};
    request_in(&q, vector64(s.rank, s.dim));
    request_in(&q, any_tensor(&r, any_dtype(&r), td_shape_scalar()));
    OK(ask(&q, &r));
    assert_true(td_shape_equal(&q.out[0].shape, &s));
    for (int64_t k = 0; k < td_shape_count(&s); k++)
      assert_true(same_element(&q.out[0], k, &q.in[1], 0));
    request_end(&q);
  }
}

static void test_diag(void **state) {
  uint64_t r = 4;
  (void)state;
  for (int i = 0; i < 60; i++) {
    td_shape s = any_shape(&r, 1, 4);
    request q = {.op = "Diag"}, back = {.op = "DiagPart"};
    request_in(&q, any_tensor(&r, TD_FLOAT64, s));
    OK(ask(&q, &r));
    for (int64_t k = 0; k < td_tensor_count(&q.out[0]); k++) {
      int64_t at[TD_MAX_RANK];
      coordinates(&q.out[0].shape, k, at);
      if (memcmp(at, at + s.rank, (size_t)s.rank * sizeof *at) == 0)
        assert_true(same_element(&q.out[0], k, &q.in[0], place(&s, at)));
      else
        assert_true(zero_element(&q.out[0], k));
    }
    td_tensor_retain(&q.out[0], &back.in[0]);
    back.n_in = 1;
    OK(ask(&back, &r));
    assert_true(td_tensor_same(&back.out[0], &q.in[0]));
    request_end(&q);
    request_end(&back);
  }
}

/* Sizes whose product cannot be are refused before memory is taken. */
static void test_too_large(void **state) {
  static const int64_t huge[] = {INT64_MAX / 2, 4};
  uint64_t r = 5;
  request q = {.op = "Fill"};
  (void)state;
  request_in(&q, vector64(2, huge));
  request_in(&q, scalar32(1));
  FAILS(call_request(&q, &r), TD_INVALID_ARGUMENT, "2^63-1");
  request_end(&q);
  q = (request){.op = "Tile"};
  request_in(&q, any_tensor(&r, TD_UINT8, td_shape_matrix(3, 3)));
  request_in(&q, vector64(2, huge));
  FAILS(call_request(&q, &r), TD_INVALID_ARGUMENT, "2^63-1");
  request_end(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_shapes), cmocka_unit_test(test_one_hot),
      cmocka_unit_test(test_fill),          cmocka_unit_test(test_diag),
      cmocka_unit_test(test_too_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
