/* batch_norm.c - batch normalisation against sums in double, in every layout,
 * and instruction sets.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>

#include "kernels/batch_norm.h"
#include "tests/kernels/arrays.h"

/* Few channels and many, lines that do not come out even, several pieces. */
static const int64_t shapes[][4] = {{1, 1, 1, 1},    {2, 3, 5, 3},
                                    {3, 7, 9, 33},   {1, 40, 41, 7},
                                    {2, 50, 60, 40}, {1, 2, 3, 700}};

static td_tensor numbers(uint64_t *r, td_shape s) {
  td_tensor t;
  OK(td_tensor_new(NULL, TD_FLOAT32, &s, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_f(&t, i, (double)below(r, 2001) / 100 - 7);
  return t;
}

static int64_t channel_of(const td_shape *s, bool first, int64_t i) {
  int64_t at[4];
  coordinates(s, i, at);
  return at[first ? 1 : 3];
}

static request forward(uint64_t *r, const int64_t *dims, bool first,
                       bool training) {
  request q = {.op = "FusedBatchNormV3"};
  td_shape s = td_shape_of(4, dims);
  td_shape each = td_shape_vector(dims[first ? 1 : 3]);
  request_in(&q, numbers(r, s));
  for (int i = 0; i < 4; i++) {
    request_in(&q, numbers(r, each));
    for (int64_t k = 0; i == 3 && k < each.dim[0]; k++)
      td_tensor_set_f(&q.in[4], k, 0.5 + (double)k);
  }
  const char *format = first ? "NCHW" : "NHWC";
  q.attrs[q.n_attrs++] = (td_note){"data_format", td_attr_string(format)};
  q.attrs[q.n_attrs++] = (td_note){"is_training", td_attr_bool(training)};
  q.attrs[q.n_attrs++] = (td_note){"epsilon", td_attr_float(0.25f)};
  OK(ask(&q, r));
  return q;
}

/* Mean and biased variance of a channel, in training those of the batch. */
static void moments(const request *q, bool first, bool training, int64_t c,
                    double m[2]) {
  double n = 0;
  const td_tensor *x = &q->in[0];
  m[0] = td_tensor_get_f(&q->in[3], c);
  m[1] = td_tensor_get_f(&q->in[4], c);
  if (!training) return;
  m[0] = m[1] = 0;
  for (int64_t i = 0; i < td_tensor_count(x); i++)
    if (channel_of(&x->shape, first, i) == c) {
      double v = td_tensor_get_f(x, i);
      m[0] += v;
      m[1] += v * v;
      n++;
    }
  m[0] /= n;
  m[1] = m[1] / n - m[0] * m[0];
}

static void check_forward(const request *q, bool first, bool training) {
  const td_tensor *x = &q->in[0], *y = &q->out[0];
  int64_t channels = q->in[1].shape.dim[0];
  for (int64_t c = 0; c < channels; c++) {
    double m[2], scale = td_tensor_get_f(&q->in[1], c);
    double offset = td_tensor_get_f(&q->in[2], c);
    moments(q, first, training, c, m);
    assert_true(fabs(td_tensor_get_f(&q->out[1], c) - m[0]) < 1e-4);
    for (int64_t i = 0; i < td_tensor_count(x); i++) {
      if (channel_of(&x->shape, first, i) != c) continue;
      double want = td_tensor_get_f(x, i) - m[0];
      want = want / sqrt(m[1] + 0.25) * scale + offset;
      double got = td_tensor_get_f(y, i);
      if (!(fabs(got - want) <= 1e-4 * fmax(1, fabs(want))))
        fail_msg("element %lld is %.9g, not %.9g", (long long)i, got, want);
    }
  }
}

static void test_forward(void **state) {
  uint64_t r = 1;
  (void)state;
  for (size_t i = 0; i < TD_COUNT(shapes); i++)
    for (int k = 0; k < 4; k++) {
      bool first = k & 1, training = k & 2;
      request q = forward(&r, shapes[i], first, training);
      if (td_tensor_count(&q.in[0]) < 100000)
        check_forward(&q, first, training);
      request_end(&q);
    }
}

/* Of a training step: dx sums to 0 in each channel, doffset is the sum of dy.
 */
static void check_gradient(const request *g, bool first) {
  const td_tensor *dy = &g->in[0], *x = &g->in[1], *dx = &g->out[0];
  int64_t channels = g->in[2].shape.dim[0], n = td_tensor_count(x);
  for (int64_t c = 0; c < channels; c++) {
    double sum = 0, given = 0;
    double size = 1e-9;
    for (int64_t i = 0; i < n; i++) {
      if (channel_of(&x->shape, first, i) != c) continue;
      double v = td_tensor_get_f(dx, i);
      size += fabs(v);
      sum += v;
      given += td_tensor_get_f(dy, i);
    }
    double offset = td_tensor_get_f(&g->out[2], c);
    assert_true(fabs(sum) <= 1e-4 * size);
    assert_true(fabs(offset - given) <= 1e-4 * (1 + fabs(given)));
  }
}

static void test_gradient(void **state) {
  uint64_t r = 2;
  (void)state;
  for (size_t i = 0; i < TD_COUNT(shapes); i++)
    for (int first = 0; first < 2; first++) {
      request q = forward(&r, shapes[i], first, true);
      request g = {.op = "FusedBatchNormGradV3"};
      request_in(&g, numbers(&r, q.in[0].shape));
      const td_tensor *from[] = {&q.in[0], &q.in[1], &q.out[3], &q.out[4],
                                 &q.out[5]};
      for (int k = 0; k < 5; k++) td_tensor_retain(from[k], &g.in[g.n_in++]);
      g.n_attrs = 3;
      memcpy(g.attrs, q.attrs, sizeof g.attrs);
      OK(ask(&g, &r));
      check_gradient(&g, first);
      request_end(&g);
      request_end(&q);
    }
}

/* ---- instruction sets ---------------------------------------------------- */

enum { LINES = 7, WIDTH = 131 };

typedef struct results {
  float sum[WIDTH], square[WIDTH], dot[2][WIDTH];
  float y[LINES * WIDTH], dx[LINES * WIDTH];
} results;

static void compute(td_isa isa, int64_t n, const float *x, const float *dy,
                    results *o) {
  const td_batch_norm_loops *f = td_batch_norm_loops_of(isa);
  *o = (results){0};
  f->sum(LINES, n, x, o->sum);
  f->squares(LINES, n, x, o->sum, o->square);
  f->dots(LINES, n, dy, x, o->sum, o->dot[0], o->dot[1]);
  f->apply(LINES, n, x, o->sum, o->dot[0], dy, o->y);
  f->back(LINES, n, dy, x, o->sum, dy, x, o->dot[0], o->dx);
}

static void test_agreement(void **state) {
  static const int64_t widths[] = {1, 15, 16, 64, 65, WIDTH};
  static float x[LINES * WIDTH], dy[LINES * WIDTH];
  static results a, b;
  uint64_t r = 3;
  (void)state;
  for (size_t i = 0; i < TD_COUNT(x); i++) {
    x[i] = (float)below(&r, 2001) / 77 - 9;
    dy[i] = (float)below(&r, 2001) / 77 - 9;
  }
  for (size_t l = 0; l < TD_COUNT(widths); l++) {
    compute(TD_SCALAR, widths[l], x, dy, &a);
    for (int isa = 1; isa <= (int)td_cpu_best(); isa++) {
      compute((td_isa)isa, widths[l], x, dy, &b);
      assert_memory_equal(&a, &b, sizeof a);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forward),
      cmocka_unit_test(test_gradient),
      cmocka_unit_test(test_agreement),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
