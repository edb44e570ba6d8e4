/* rows_by_number.c - ops that read or write rows by number: GatherNd, ScatterNd,
 * UnsortedSegmentSum, Unique, Where, DynamicPartition, DynamicStitch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include "tests/kernels/arrays.h"

/* ---- GatherNd and ScatterNd ---------------------------------------------- */

static td_tensor vectors(uint64_t *r, td_shape s, int k, const td_shape *of) {
  td_tensor t;
  s.dim[s.rank++] = k;
  OK(td_tensor_new(NULL, TD_INT64, &s, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_i(&t, i, below(r, of->dim[i % k]));
  return t;
}

/* The row of k-dimensional slices that vector `i` names. */
static int64_t row_of(const td_tensor *indices, int64_t i, const td_shape *of) {
  int64_t k = indices->shape.dim[indices->shape.rank - 1], row = 0;
  for (int64_t j = 0; j < k; j++)
    row = row * of->dim[j] + td_tensor_get_i(indices, i * k + j);
  return row;
}

static td_shape positive(td_shape s) {
  for (int k = 0; k < s.rank; k++) s.dim[k] += s.dim[k] == 0;
  return s;
}

static void gather(uint64_t *r) {
  td_shape of = positive(any_shape(r, 1, 5));
  int k = 1 + (int)below(r, of.rank);
  request q = {.op = "GatherNd"};
  request_in(&q, any_tensor(r, any_dtype(r), of));
  request_in(&q, vectors(r, any_shape(r, 0, 3), k, &of));
  OK(ask(&q, r));
  int64_t each = 1;
  for (int i = k; i < of.rank; i++) each *= of.dim[i];
  for (int64_t i = 0; i < td_tensor_count(&q.out[0]); i++)
    assert_true(
        same_element(&q.out[0], i, &q.in[0],
                     row_of(&q.in[1], i / each, &of) * each + i % each));
  request_end(&q);
}

static void scatter(uint64_t *r, td_dtype dtype, td_shape of, int k,
                    td_shape rows) {
  td_shape updates = rows;
  request q = {.op = "ScatterNd"};
  int64_t each = 1;
  for (int i = k; i < of.rank; i++) {
    updates.dim[updates.rank++] = of.dim[i];
    each *= of.dim[i];
  }
  request_in(&q, vectors(r, rows, k, &of));
  request_in(&q, random_i(dtype, updates, draw(r), 5));
  request_in(&q, vector64(of.rank, of.dim));
  OK(ask(&q, r));
  double *want = test_calloc((size_t)td_shape_count(&of), sizeof *want);
  for (int64_t i = 0; i < td_shape_count(&updates); i++)
    want[row_of(&q.in[0], i / each, &of) * each + i % each] +=
        td_tensor_get_f(&q.in[1], i);
  for (int64_t i = 0; i < td_shape_count(&of); i++)
    assert_true(td_tensor_get_f(&q.out[0], i) ==
                (dtype == TD_BOOL ? (double)(want[i] > 0) : want[i]));
  test_free(want);
  request_end(&q);
}

static void test_slices(void **state) {
  static const td_dtype sums[] = {TD_FLOAT16, TD_BFLOAT16, TD_FLOAT32,
                                  TD_FLOAT64, TD_INT8,     TD_INT64,
                                  TD_BOOL,    TD_COMPLEX64};
  uint64_t r = 1;
  (void)state;
  for (int i = 0; i < 400; i++) {
    td_shape of = positive(any_shape(&r, 1, 5));
    gather(&r);
    scatter(&r, sums[i % 8], of, 1 + (int)below(&r, of.rank),
            any_shape(&r, 0, 2));
  }
  scatter(&r, TD_FLOAT32, td_shape_matrix(50, 100), 1, td_shape_vector(3000));
  scatter(&r, TD_BFLOAT16, td_shape_matrix(50, 700), 1, td_shape_vector(200));
}

static void test_policies(void **state) {
  uint64_t r = 2;
  td_shape s = td_shape_matrix(2, 1);
  request q = {.op = "GatherNd"};
  (void)state;
  request_in(&q, ints(3, (int32_t[]){7, 8, 9}));
  OK(td_tensor_from(TD_INT32, &s, (int32_t[]){2, 3}, &q.in[1]));
  q.n_in = 2;
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT,
        "indices[1] = {3} is not in a tensor of shape {3}");
  q.attrs[q.n_attrs++] =
      (td_note){"bad_indices_policy", td_attr_string("IGNORE")};
  OK(ask(&q, &r));
  assert_int_equal(td_tensor_get_i(&q.out[0], 0), 9);
  assert_int_equal(td_tensor_get_i(&q.out[0], 1), 0);
  drop_outputs(&q);
  q.attrs[0].value = td_attr_string("SOMETIMES");
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "not \"SOMETIMES\"");
  request_end(&q);
}

/* ---- UnsortedSegmentSum -------------------------------------------------- */

/* Sums of halves are rounded once; those of integers wrap. */
static void test_segments(void **state) {
  uint64_t r = 3;
  td_shape s = td_shape_matrix(3000, 20);
  request q = {.op = "UnsortedSegmentSum"};
  float want[7 * 20] = {0};
  (void)state;
  request_in(&q, random_i(TD_FLOAT16, s, 5, 7));
  request_in(&q, random_i(TD_INT32, td_shape_vector(3000), 6, 8));
  request_in(&q, scalar32(7));
  for (int64_t i = 0; i < 3000; i++) {
    int64_t id = td_tensor_get_i(&q.in[1], i) - 1;
    td_tensor_set_i(&q.in[1], i, id);
    for (int64_t k = 0; k < 20 && id >= 0; k++)
      want[id * 20 + k] += (float)td_tensor_get_f(&q.in[0], i * 20 + k);
  }
  OK(ask(&q, &r));
  for (int64_t i = 0; i < 7 * 20; i++)
    assert_int_equal(((uint16_t *)q.out[0].data)[i], td_float_to_half(want[i]));
  drop_outputs(&q);
  td_tensor_set_i(&q.in[1], 9, 7);
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "segment_ids[9] is 7");
  request_end(&q);
}

/* ---- Unique, Where ------------------------------------------------------- */

static void unique(uint64_t *r, td_dtype dtype, int64_t n) {
  request q = {.op = "UniqueWithCounts"};
  td_tensor few = any_tensor(r, dtype, td_shape_vector(20));
  request gather_few = {.op = "Gather"};
  request_in(&gather_few, few);
  request_in(&gather_few, random_i(TD_INT32, td_shape_vector(n), draw(r), 20));
  OK(ask(&gather_few, r));
  td_tensor_retain(&gather_few.out[0], &q.in[0]);
  q.n_in = 1;
  OK(ask(&q, r));
  int64_t seen = 0, total = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = td_tensor_get_i(&q.out[1], i);
    assert_true(same_element(&q.in[0], i, &q.out[0], at));
    assert_true(at <= seen); /* in order of first occurrence */
    seen += at == seen;
  }
  assert_int_equal(seen, td_tensor_count(&q.out[0]));
  for (int64_t i = 0; i < seen; i++) total += td_tensor_get_i(&q.out[2], i);
  assert_int_equal(total, n);
  for (int64_t i = 0; i < seen; i++)
    for (int64_t j = 0; j < i; j++)
      assert_false(same_element(&q.out[0], i, &q.out[0], j));
  request_end(&q);
  request_end(&gather_few);
}

static void test_unique(void **state) {
  uint64_t r = 4;
  (void)state;
  for (int i = 0; i < 60; i++)
    unique(&r, i % 2 ? TD_STRING : TD_UINT8, below(&r, 300));
}

static void test_where(void **state) {
  uint64_t r = 5;
  (void)state;
  for (int i = 0; i < 100; i++) {
    td_shape s = any_shape(&r, 1, 6);
    if (i == 0) s = td_shape_matrix(700, 200);
    request q = {.op = "Where"};
    request_in(&q, random_i(i % 2 ? TD_BOOL : TD_FLOAT16, s, draw(&r), 2));
    OK(ask(&q, &r));
    int64_t row = 0;
    for (int64_t k = 0; k < td_shape_count(&s); k++) {
      int64_t at[TD_MAX_RANK];
      if (td_tensor_get_f(&q.in[0], k) == 0) continue;
      coordinates(&s, k, at);
      assert_memory_equal((int64_t *)q.out[0].data + row++ * s.rank, at,
                          (size_t)s.rank * sizeof *at);
    }
    assert_int_equal(q.out[0].shape.dim[0], row);
    request_end(&q);
  }
}

/* ---- DynamicPartition, DynamicStitch ------------------------------------- */

/* Dealt out and put together again, every row is where it was. */
static void test_partition(void **state) {
  uint64_t r = 6;
  (void)state;
  for (int i = 0; i < 100; i++) {
    td_shape s = any_shape(&r, 1, 4), rows = td_shape_vector(s.dim[0]);
    td_tensor numbers = random_i(TD_INT32, rows, draw(&r), 3);
    request data = {.op = "DynamicPartition"};
    request at = {.op = "DynamicPartition"}, back = {.op = "DynamicStitch"};
    request_in(&data, any_tensor(&r, any_dtype(&r), s));
    request_in(&data, numbers);
    request_int(&data, "num_partitions", 3);
    OK(ask(&data, &r));
    td_tensor iota = random_i(TD_INT32, rows, 1, 1);
    for (int64_t k = 0; k < s.dim[0]; k++) td_tensor_set_i(&iota, k, k);
    request_in(&at, iota);
    td_tensor_retain(&numbers, &at.in[at.n_in++]);
    request_int(&at, "num_partitions", 3);
    OK(ask(&at, &r));
    for (int k = 0; k < 3; k++)
      td_tensor_retain(&at.out[k], &back.in[back.n_in++]);
    for (int k = 0; k < 3; k++)
      td_tensor_retain(&data.out[k], &back.in[back.n_in++]);
    request_int(&back, "N", 3);
    OK(ask(&back, &r));
    assert_true(td_tensor_same(&back.out[0], &data.in[0]));
    request_end(&back);
    request_end(&at);
    request_end(&data);
  }
}

static void test_bad_partition(void **state) {
  uint64_t r = 7;
  request q = {.op = "DynamicPartition"};
  (void)state;
  request_in(&q, any_tensor(&r, TD_FLOAT32, td_shape_vector(2)));
  request_in(&q, ints(2, (int32_t[]){0, 2}));
  request_int(&q, "num_partitions", 2);
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "partitions[1] is 2");
  request_end(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slices),        cmocka_unit_test(test_policies),
      cmocka_unit_test(test_segments),      cmocka_unit_test(test_unique),
      cmocka_unit_test(test_where),         cmocka_unit_test(test_partition),
      cmocka_unit_test(test_bad_partition),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
