/* bias.c - a vector along the channels, in both layouts, and its gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <string.h>

#include "tests/kernels/call.h"

typedef struct row {
  int rank;
  int64_t dim[5];
  bool nchw;
} row;

static const row rows[] = {
    {2, {3, 4}, false},          {2, {3, 4}, true},
    {4, {2, 5, 6, 7}, false},    {4, {2, 5, 6, 7}, true},
    {3, {2, 3, 70}, true},       {5, {2, 3, 1, 2, 2}, true},
    {2, {0, 4}, false},          {4, {1, 1, 1, 1}, false},
    {4, {8, 30, 30, 64}, false}, {4, {2, 0, 3, 3}, true},
};
static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_BFLOAT16, TD_INT32};

static td_note layout(const row *r) {
  return (td_note){"data_format", td_attr_string(r->nchw ? "NCHW" : "NHWC")};
}

/* Channel of element i. */
static int64_t channel(const row *r, int64_t i) {
  int axis = r->nchw ? 1 : r->rank - 1;
  for (int k = r->rank - 1; k > axis; k--) i /= r->dim[k];
  return i % r->dim[axis];
}

static void check_add(const row *r, td_dtype t) {
  td_shape s = td_shape_of(r->rank, r->dim);
  td_shape v = td_shape_vector(r->dim[r->nchw ? 1 : r->rank - 1]);
  td_note note = layout(r);
  td_tensor in[2], y;
  assert_null(td_tensor_new(NULL, t, &s, &in[0]));
  assert_null(td_tensor_new(NULL, t, &v, &in[1]));
  for (int k = 0; k < 2; k++)
    for (int64_t i = 0; i < td_tensor_count(&in[k]); i++)
      td_tensor_set_i(&in[k], i, i % 50);
  assert_null(call("BiasAdd", 2, in, 2, &note, 1, &y));
  assert_true(td_shape_equal(&y.shape, &s));
  for (int64_t i = 0; i < td_tensor_count(&y); i++)
    assert_int_equal(td_tensor_get_i(&y, i), i % 50 + channel(r, i) % 50);
  td_tensor_release(&y);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static void check_grad(const row *r, td_dtype t) {
  static int64_t sums[100];
  td_shape s = td_shape_of(r->rank, r->dim);
  td_note note = layout(r);
  td_tensor dy, db;
  assert_null(td_tensor_new(NULL, t, &s, &dy));
  memset(sums, 0, sizeof sums);
  for (int64_t i = 0; i < td_tensor_count(&dy); i++) {
    td_tensor_set_i(&dy, i, i % 7 == 0);
    sums[channel(r, i)] += i % 7 == 0;
  }
  assert_null(call("BiasAddGrad", 2, &dy, 1, &note, 1, &db));
  assert_int_equal(db.shape.rank, 1);
  assert_int_equal(db.shape.dim[0], r->dim[r->nchw ? 1 : r->rank - 1]);
  for (int64_t i = 0; i < db.shape.dim[0]; i++) {
    double want = (double)sums[i];
    if (t == TD_BFLOAT16)
      want = td_float_from_bfloat16(td_float_to_bfloat16((float)want));
    assert_true(td_tensor_get_f(&db, i) == want);
  }
  td_tensor_release(&db);
  td_tensor_release(&dy);
}

static void test_values(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    for (size_t t = 0; t < TD_COUNT(types); t++) {
      check_add(&rows[i], types[t]);
      check_grad(&rows[i], types[t]);
    }
}

static void check_refused(const char *op, int rank, int bias_rank,
                          int64_t channels, const char *message) {
  const int64_t dim[] = {2, 3}, bias_dim[] = {channels, 1};
  td_shape s = td_shape_of(rank, dim), b = td_shape_of(bias_rank, bias_dim);
  td_tensor in[2], y;
  assert_null(td_tensor_new(NULL, TD_INT32, &s, &in[0]));
  assert_null(td_tensor_new(NULL, TD_INT32, &b, &in[1]));
  int n = strcmp(op, "BiasAdd") ? 1 : 2;
  td_status *e = call(op, 1, in, n, NULL, 0, &y);
  assert_int_equal(td_status_code(e), TD_INVALID_ARGUMENT);
  if (!strstr(td_status_message(e), message))
    fail_msg("\"%s\"", td_status_message(e));
  td_status_release(e);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static void test_refused(void **state) {
  (void)state;
  check_refused("BiasAdd", 1, 1, 2, "rank 2 or more, not {2}");
  check_refused("BiasAdd", 2, 1, 2, "dimension 1 of {2, 3}, not {2}");
  check_refused("BiasAdd", 2, 1, 1, "not {1}");
  check_refused("BiasAdd", 2, 2, 3, "not {3, 1}");
  check_refused("BiasAddGrad", 1, 1, 1, "rank 2 or more");
  check_refused("BiasAddGrad", 0, 1, 1, "rank 2 or more");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
