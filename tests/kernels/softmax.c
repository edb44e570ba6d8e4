/* softmax.c - softmax and log-softmax: errors, instruction sets, odd rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>

#include "kernels/softmax.h"
#include "tests/kernels/arrays.h"

enum { LONG = 1031 };

static const int64_t lengths[] = {1, 2, 15, 16, 17, 255, 256, 257, 700, LONG};

static const td_dtype floats[] = {TD_FLOAT16, TD_BFLOAT16, TD_FLOAT32,
                                  TD_FLOAT64};
/* Half a unit in the last place near 1, and what sums add. */
static const double errors[] = {5e-4, 4e-3, 3e-7, 1e-15};

static td_tensor logits(uint64_t *r, td_dtype dtype, td_shape s) {
  td_tensor t;
  OK(td_tensor_new(NULL, dtype, &s, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_f(&t, i, (double)below(r, 20001) / 1000 - 10);
  return t;
}

static void check_row(const request *q, int64_t row, int64_t n, bool log_form,
                      double error) {
  double max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++)
    max = fmax(max, td_tensor_get_f(&q->in[0], row * n + i));
  for (int64_t i = 0; i < n; i++)
    sum += exp(td_tensor_get_f(&q->in[0], row * n + i) - max);
  for (int64_t i = 0; i < n; i++) {
    double z = td_tensor_get_f(&q->in[0], row * n + i) - max;
    double want = log_form ? z - log(sum) : exp(z) / sum;
    double got = td_tensor_get_f(&q->out[0], row * n + i);
    if (!(fabs(got - want) <= error * fmax(1, fabs(want))))
      fail_msg("element %lld of %lld is %.9g, not %.9g", (long long)i,
               (long long)n, got, want);
  }
}

static void test_rows(void **state) {
  uint64_t r = 1;
  (void)state;
  for (size_t t = 0; t < TD_COUNT(floats); t++)
    for (size_t l = 0; l < TD_COUNT(lengths); l++)
      for (int form = 0; form < 2; form++) {
        request q = {.op = form ? "LogSoftmax" : "Softmax"};
        td_shape s = td_shape_of(3, (int64_t[]){2, 3, lengths[l]});
        request_in(&q, logits(&r, floats[t], s));
        OK(ask(&q, &r));
        for (int64_t row = 0; row < 6; row++)
          check_row(&q, row, lengths[l], form == 1, errors[t]);
        request_end(&q);
      }
}

/* Large logits do not overflow, -inf is no mass, empty is empty. */
static void test_odd_rows(void **state) {
  static const float x[] = {1e30f, 1e30f, -INFINITY, 0};
  uint64_t r = 2;
  td_shape s = td_shape_vector(4);
  td_shape no_rows = td_shape_matrix(0, 4), no_classes = td_shape_matrix(4, 0);
  request q = {.op = "Softmax"};
  (void)state;
  OK(td_tensor_from(TD_FLOAT32, &s, x, &q.in[0]));
  q.n_in = 1;
  OK(ask(&q, &r));
  float *y = q.out[0].data;
  assert_true(y[0] == 0.5f && y[1] == 0.5f && y[2] == 0 && y[3] == 0);
  request_end(&q);
  q = (request){.op = "Softmax"};
  request_in(&q, logits(&r, TD_FLOAT32, no_rows));
  OK(ask(&q, &r));
  assert_true(td_shape_equal(&q.out[0].shape, &no_rows));
  request_end(&q);
  q = (request){.op = "LogSoftmax"};
  request_in(&q, logits(&r, TD_FLOAT32, no_classes));
  OK(ask(&q, &r));
  assert_true(td_shape_equal(&q.out[0].shape, &no_classes));
  request_end(&q);
  q = (request){.op = "Softmax"};
  request_in(&q, logits(&r, TD_FLOAT32, td_shape_scalar()));
  FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "rank 1 or more");
  request_end(&q);
}

/* ---- instruction sets ---------------------------------------------------- */

typedef struct result {
  float max, sum, loss, soft[LONG], logs[LONG], back[LONG];
} result;

static void compute(td_isa isa, int64_t n, const float *x, const float *label,
                    result *out) {
  const td_softmax_table *t = td_softmax_table_of(isa);
  *out = (result){0};
  out->max = t->max(n, x, -INFINITY);
  out->sum = t->sum(n, x, out->max);
  float scale = 1 / out->sum, log_sum = logf(out->sum);
  t->exp(n, x, out->max, scale, out->soft);
  t->log(n, x, out->max, log_sum, out->logs);
  out->loss = t->xent(n, x, label, out->max, scale, log_sum, out->back);
}

/* The same bits from every instruction set. */
static void test_agreement(void **state) {
  static float x[LONG], label[LONG];
  static result a, b;
  uint64_t r = 3;
  (void)state;
  for (size_t l = 0; l < TD_COUNT(lengths); l++) {
    for (int64_t i = 0; i < lengths[l]; i++) {
      x[i] = (float)below(&r, 20001) / 500 - 20;
      label[i] = (float)below(&r, 1000) / 1000;
    }
    compute(TD_SCALAR, lengths[l], x, label, &a);
    for (int isa = 1; isa <= (int)td_cpu_best(); isa++) {
      compute((td_isa)isa, lengths[l], x, label, &b);
      assert_memory_equal(&a, &b, sizeof a);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_odd_rows),
      cmocka_unit_test(test_agreement),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
