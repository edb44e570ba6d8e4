/* cross_entropy.c - softmax cross entropies against their definition in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>

#include "tests/kernels/arrays.h"

static const td_dtype floats[] = {TD_FLOAT16, TD_BFLOAT16, TD_FLOAT32,
                                  TD_FLOAT64};
static const double errors[] = {2e-3, 1.6e-2, 2e-6, 1e-14};

static td_tensor spread(uint64_t *r, td_dtype dtype, td_shape s, double low,
                        double high) {
  td_tensor t;
  OK(td_tensor_new(NULL, dtype, &s, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_f(&t, i, low + (high - low) * (double)below(r, 1000) / 999);
  return t;
}

/* Element (row, i) of a matrix, or of what is repeated to one. */
static double at(const td_tensor *t, int64_t row, int64_t i) {
  int last = t->shape.rank - 1;
  if (last < 1 || t->shape.dim[0] == 1) row = 0;
  if (last < 0 || t->shape.dim[last] == 1) i = 0;
  return td_tensor_get_f(t, row * (last < 0 ? 1 : t->shape.dim[last]) + i);
}

static double label_at(const td_tensor *t, int64_t row, int64_t i) {
  if (td_dtype_is_float(t->dtype)) return at(t, row, i);
  return td_tensor_get_i(t, row) == i;
}

static void near(double got, double want, double error) {
  if (!(fabs(got - want) <= error * fmax(1, fabs(want))))
    fail_msg("%.9g, not %.9g", got, want);
}

static void check_row(const request *q, int64_t row, int64_t n, double error) {
  double max = -INFINITY, sum = 0, loss = 0;
  for (int64_t i = 0; i < n; i++) max = fmax(max, at(&q->in[0], row, i));
  for (int64_t i = 0; i < n; i++) sum += exp(at(&q->in[0], row, i) - max);
  for (int64_t i = 0; i < n; i++) {
    double z = at(&q->in[0], row, i) - max, l = label_at(&q->in[1], row, i);
    loss += l * (log(sum) - z);
    near(at(&q->out[1], row, i), exp(z) / sum - l, error);
  }
  near(td_tensor_get_f(&q->out[0], row), loss, error * 4);
}

static void dense(uint64_t *r, int t, td_shape features, td_shape labels) {
  request q = {.op = "SoftmaxCrossEntropyWithLogits"};
  request_in(&q, spread(r, floats[t], features, -8, 8));
  request_in(&q, spread(r, floats[t], labels, 0, 0.01));
  OK(ask(&q, r));
  td_shape s = q.out[1].shape;
  assert_int_equal(q.out[0].shape.dim[0], s.dim[0]);
  for (int64_t row = 0; row < s.dim[0]; row++)
    check_row(&q, row, s.dim[1], errors[t]);
  request_end(&q);
}

static void test_dense(void **state) {
  uint64_t r = 1;
  (void)state;
  for (int t = 0; t < 4; t++) {
    static const int64_t classes[] = {1, 10, 16, 511, 513, 1000};
    for (size_t k = 0; k < TD_COUNT(classes); k++) {
      td_shape full = td_shape_matrix(5, classes[k]);
      dense(&r, t, full, full);
      dense(&r, t, full, td_shape_matrix(1, classes[k]));
      dense(&r, t, td_shape_vector(classes[k]), full);
      dense(&r, t, full, td_shape_matrix(5, 1));
      dense(&r, t, full, td_shape_scalar());
    }
    dense(&r, t, td_shape_matrix(0, 4), td_shape_matrix(0, 4));
    dense(&r, t, td_shape_matrix(3, 0), td_shape_matrix(3, 0));
  }
  dense(&r, 2, td_shape_matrix(3000, 40), td_shape_matrix(3000, 40));
}

static td_tensor classes_of(uint64_t *r, int64_t rows, int64_t n) {
  td_shape s = td_shape_vector(rows);
  td_tensor t;
  OK(td_tensor_new(NULL, below(r, 2) ? TD_INT32 : TD_INT64, &s, &t));
  for (int64_t i = 0; i < rows; i++) td_tensor_set_i(&t, i, below(r, n));
  return t;
}

static void test_sparse(void **state) {
  uint64_t r = 2;
  (void)state;
  for (int t = 0; t < 4; t++)
    for (int64_t n = 1; n < 1200; n = n * 3 + 1) {
      request q = {.op = "SparseSoftmaxCrossEntropyWithLogits"};
      request_in(&q, spread(&r, floats[t], td_shape_matrix(7, n), -8, 8));
      request_in(&q, classes_of(&r, 7, n));
      OK(ask(&q, &r));
      for (int64_t row = 0; row < 7; row++) check_row(&q, row, n, errors[t]);
      request_end(&q);
    }
}

static void refuse(td_shape features, td_shape labels, int64_t label,
                   const char *part) {
  uint64_t r = 3;
  request q = {.op = "SparseSoftmaxCrossEntropyWithLogits"};
  request_in(&q, spread(&r, TD_FLOAT32, features, -1, 1));
  td_tensor t;
  OK(td_tensor_new(NULL, TD_INT32, &labels, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_i(&t, i, i == 1 ? label : 0);
  request_in(&q, t);
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, part);
  request_end(&q);
}

static void test_bad_input(void **state) {
  td_shape m = td_shape_matrix(3, 4), v = td_shape_vector(3);
  uint64_t r = 4;
  (void)state;
  refuse(m, v, 4, "labels[1] is 4, which is not in [0, 4)");
  refuse(m, v, -1, "labels[1] is -1");
  refuse(m, td_shape_vector(2), 0, "not {3, 4} and {2}");
  refuse(m, m, 0, "labels a vector");
  refuse(v, v, 0, "must be a matrix");
  refuse(td_shape_matrix(3, 0), v, 0, "at least one class");
  request q = {.op = "SoftmaxCrossEntropyWithLogits"};
  request_in(&q, spread(&r, TD_FLOAT32, m, -1, 1));
  request_in(&q, spread(&r, TD_FLOAT32, td_shape_matrix(3, 5), -1, 1));
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "not {3, 4} and {3, 5}");
  request_end(&q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dense),
      cmocka_unit_test(test_sparse),
      cmocka_unit_test(test_bad_input),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
