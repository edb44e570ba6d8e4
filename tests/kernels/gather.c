/* gather.c - Gather and GatherV2 against their definition.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/arrays.h"

static td_tensor any_indices(uint64_t *r, td_shape s, int64_t n) {
  td_dtype types[] = {TD_INT16, TD_INT32, TD_INT64};
  td_tensor t;
  OK(td_tensor_new(NULL, types[below(r, 3)], &s, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_i(&t, i, n ? below(r, n) : 0);
  return t;
}

/* out[b, o, i, k] = params[b, o, indices[b, i], k]: by coordinates. */
static void check(const request *q, int axis, int batch) {
  const td_tensor *x = &q->in[0], *at = &q->in[1], *y = &q->out[0];
  int inner = at->shape.rank - batch; /* index axes in the result */
  for (int64_t i = 0; i < td_tensor_count(y); i++) {
    int64_t to[TD_MAX_RANK], from[TD_MAX_RANK], index[TD_MAX_RANK];
    coordinates(&y->shape, i, to);
    for (int k = 0; k < batch; k++) index[k] = to[k];
    for (int k = 0; k < inner; k++) index[batch + k] = to[axis + k];
    for (int k = 0; k < axis; k++) from[k] = to[k];
    from[axis] = td_tensor_get_i(at, place(&at->shape, index));
    for (int k = axis + 1; k < x->shape.rank; k++) from[k] = to[k - 1 + inner];
    assert_true(same_element(y, i, x, place(&x->shape, from)));
  }
}

static void gather(uint64_t *r, td_shape params, td_shape indices) {
  int axis = (int)below(r, params.rank);
  int batch = (int)below(r, axis < indices.rank ? axis + 1 : indices.rank + 1);
  request q = {.op = "GatherV2"};
  if (below(r, 2)) batch = 0;
  for (int k = 0; k < batch; k++) indices.dim[k] = params.dim[k];
  if (params.dim[axis] == 0) params.dim[axis] = 1;
  request_in(&q, any_tensor(r, any_dtype(r), params));
  request_in(&q, any_indices(r, indices, params.dim[axis]));
  request_in(&q, scalar32(below(r, 2) ? axis : axis - params.rank));
  request_int(&q, "batch_dims", batch);
  OK(ask(&q, r));
  check(&q, axis, batch);
  request_end(&q);
}

static void test_random_shapes(void **state) {
  uint64_t r = 1;
  (void)state;
  for (int i = 0; i < 600; i++)
    gather(&r, any_shape(&r, 1, 5), any_shape(&r, 0, 4));
  for (int i = 0; i < 6; i++)
    gather(&r, td_shape_of(3, (int64_t[]){30, 40, 50}), td_shape_vector(200));
}

/* Of several bad indices the first is named, whatever the threads. */
static void test_first_bad_index(void **state) {
  uint64_t r = 2;
  td_shape many = td_shape_vector(200000);
  request q = {.op = "Gather"};
  (void)state;
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_vector(10)));
  request_in(&q, any_indices(&r, many, 10));
  td_tensor_set_i(&q.in[1], 70001, -1);
  td_tensor_set_i(&q.in[1], 70002, 11);
  td_tensor_set_i(&q.in[1], 150000, 10);
  for (int i = 0; i < 20; i++)
    FAILS(ask(&q, &r), TD_INVALID_ARGUMENT,
          "indices[70001] is -1, which is not in [0, 10)");
  request_end(&q);
}

static void refuse(td_shape params, td_shape indices, int axis, int batch,
                   td_code code, const char *part) {
  uint64_t r = 3;
  request q = {.op = "GatherV2"};
  request_in(&q, any_tensor(&r, TD_FLOAT32, params));
  request_in(&q, any_indices(&r, indices, 1));
  request_in(&q, scalar32(axis));
  request_int(&q, "batch_dims", batch);
  FAILS(ask(&q, &r), code, part);
  request_end(&q);
}

static void test_bad_shapes(void **state) {
  td_shape m = td_shape_matrix(2, 3), v = td_shape_vector(3);
  td_code bad = TD_INVALID_ARGUMENT;
  td_shape deep = td_shape_ranked(TD_MAX_RANK);
  (void)state;
  for (int k = 0; k < deep.rank; k++) deep.dim[k] = 1;
  refuse(td_shape_scalar(), v, 0, 0, bad, "rank 1 or more");
  refuse(m, v, 2, 0, bad, "axis must be in [-2, 2)");
  refuse(m, v, 0, 1, bad, "batch_dims must be at most");
  refuse(m, v, 1, -2, bad, "batch_dims must be at most");
  refuse(m, v, 1, 1, bad, "must agree in the first 1");
  refuse(deep, m, 0, 0, TD_UNIMPLEMENTED, "17 dimensions: at most 16");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_shapes),
      cmocka_unit_test(test_first_bad_index),
      cmocka_unit_test(test_bad_shapes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
