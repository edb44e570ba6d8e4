/* pooling.c - windows against a walk over every cell, instruction sets, and
 * places that are none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>

#include "kernels/pooling.h"
#include "tests/kernels/arrays.h"

/* ---- results ------------------------------------------------------------- */

typedef struct shape_case {
  int64_t in[4], k[2], s[2];
  const char *padding;
} shape_case;

/* One channel, widths of all vector loops and their tails, images cut by
 * channels, windows larger than the image, steps larger than the window. */
static const shape_case cases[] = {
    {{2, 7, 9, 1}, {3, 2}, {2, 3}, "SAME"},
    {{1, 6, 5, 33}, {2, 3}, {1, 2}, "VALID"},
    {{3, 5, 5, 70}, {3, 3}, {2, 2}, "SAME"},
    {{1, 4, 4, 300}, {2, 2}, {2, 2}, "VALID"},
    {{9, 3, 4, 40}, {5, 7}, {1, 1}, "SAME"},
    {{2, 9, 8, 5}, {1, 2}, {4, 3}, "SAME"},
    {{1, 40, 50, 64}, {3, 3}, {1, 1}, "SAME"},
    {{2, 3, 130, 12}, {2, 3}, {1, 1}, "SAME"},
};

static const td_dtype kinds[] = {TD_FLOAT16, TD_BFLOAT16, TD_FLOAT32,
                                 TD_FLOAT64};

static td_tensor numbers(uint64_t *r, td_dtype dtype, td_shape s) {
  td_tensor t;
  OK(td_tensor_new(NULL, dtype, &s, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_f(&t, i, (double)below(r, 101) / 16 - 3);
  return t;
}

static void windows(request *q, const shape_case *k, int64_t sizes[8]) {
  int64_t all[8] = {1, k->k[0], k->k[1], 1, 1, k->s[0], k->s[1], 1};
  memcpy(sizes, all, sizeof all);
  q->attrs[q->n_attrs++] = (td_note){"ksize", td_attr_ints(sizes, 4)};
  q->attrs[q->n_attrs++] = (td_note){"strides", td_attr_ints(sizes + 4, 4)};
  q->attrs[q->n_attrs++] = (td_note){"padding", td_attr_string(k->padding)};
}

/* Cells under output (h, w) by the rule for SAME and VALID. */
static void range_of(const shape_case *k, int axis, int64_t i, int64_t *begin,
                     int64_t *end) {
  int64_t in = k->in[1 + axis], out = (in + k->s[axis] - 1) / k->s[axis];
  int64_t pad = (out - 1) * k->s[axis] + k->k[axis] - in;
  if (k->padding[0] == 'V' || pad < 0) pad = 0;
  *begin = i * k->s[axis] - pad / 2;
  *end = *begin + k->k[axis] < in ? *begin + k->k[axis] : in;
  if (*begin < 0) *begin = 0;
}

static double expected(const shape_case *k, const td_tensor *x,
                       const int64_t *at, bool mean) {
  int64_t h[2], w[2], cells = 0;
  double sum = 0, max = -INFINITY;
  range_of(k, 0, at[1], &h[0], &h[1]);
  range_of(k, 1, at[2], &w[0], &w[1]);
  for (int64_t i = h[0]; i < h[1]; i++)
    for (int64_t j = w[0]; j < w[1]; j++, cells++) {
      double v =
          td_tensor_get_f(x, place(&x->shape, (int64_t[]){at[0], i, j, at[3]}));
      max = fmax(max, v);
      sum += v;
    }
  return mean ? sum / (double)cells : max;
}

static void check_case(const shape_case *k, td_dtype dtype, bool mean,
                       uint64_t *r) {
  double error = dtype == TD_FLOAT16    ? 1e-3
                 : dtype == TD_BFLOAT16 ? 8e-3
                                        : 1e-6;
  int64_t sizes[8], at[4];
  request q = {.op = mean ? "AvgPool" : "MaxPool"};
  windows(&q, k, sizes);
  request_in(&q, numbers(r, dtype, td_shape_of(4, k->in)));
  OK(ask(&q, r));
  const td_tensor *y = &q.out[0];
  for (int64_t i = 0; i < td_tensor_count(y); i++) {
    coordinates(&y->shape, i, at);
    double want = expected(k, &q.in[0], at, mean), got = td_tensor_get_f(y, i);
    if (!(fabs(got - want) <= (mean ? error * fmax(1, fabs(want)) : 0)))
      fail_msg("%s: element %lld is %.9g, not %.9g", q.op, (long long)i, got,
               want);
  }
  request_end(&q);
}

static void test_results(void **state) {
  uint64_t r = 1;
  (void)state;
  for (size_t i = 0; i < TD_COUNT(cases); i++)
    for (size_t t = 0; t < TD_COUNT(kinds); t++)
      for (int mean = 0; mean < 2; mean++)
        check_case(&cases[i], kinds[t], mean, &r);
}

/* Every dy goes to one cell, which is as large as the maximum; all of it stays
 * in the image. */
static void check_gradient(const shape_case *k, bool mean, uint64_t *r) {
  int64_t sizes[8];
  request q = {.op = "MaxPool"},
          g = {.op = mean ? "AvgPoolGrad" : "MaxPoolGrad"};
  windows(&q, k, sizes);
  windows(&g, k, sizes);
  request_in(&q, numbers(r, TD_FLOAT64, td_shape_of(4, k->in)));
  OK(ask(&q, r));
  if (mean) {
    int32_t shape[4];
    td_shape four = td_shape_vector(4);
    for (int i = 0; i < 4; i++) shape[i] = (int32_t)k->in[i];
    OK(td_tensor_from(TD_INT32, &four, shape, &g.in[g.n_in++]));
  } else {
    td_tensor_retain(&q.in[0], &g.in[g.n_in++]);
    td_tensor_retain(&q.out[0], &g.in[g.n_in++]);
  }
  request_in(&g, numbers(r, TD_FLOAT64, q.out[0].shape));
  OK(ask(&g, r));
  double given = 0, got = 0;
  const td_tensor *dy = &g.in[g.n_in - 1];
  for (int64_t i = 0; i < td_tensor_count(dy); i++)
    given += td_tensor_get_f(dy, i);
  for (int64_t i = 0; i < td_tensor_count(&g.out[0]); i++)
    got += td_tensor_get_f(&g.out[0], i);
  assert_true(fabs(given - got) < 1e-8);
  request_end(&g);
  request_end(&q);
}

static void test_gradients(void **state) {
  uint64_t r = 2;
  (void)state;
  for (size_t i = 0; i < TD_COUNT(cases); i++)
    for (int mean = 0; mean < 2; mean++) check_gradient(&cases[i], mean, &r);
}

/* ---- layouts --------------------------------------------------------------
 */

/* x with its channels before or behind its rows and columns. */
static td_tensor turned(const td_tensor *x, bool first) {
  const int64_t *d = x->shape.dim;
  td_shape s = td_shape_of(4, first ? (int64_t[]){d[0], d[3], d[1], d[2]}
                                    : (int64_t[]){d[0], d[2], d[3], d[1]});
  int64_t at[4];
  td_tensor t;
  OK(td_tensor_new(NULL, x->dtype, &s, &t));
  for (int64_t i = 0; i < td_tensor_count(x); i++) {
    coordinates(&x->shape, i, at);
    int64_t to[2][4] = {{at[0], at[2], at[3], at[1]},
                        {at[0], at[3], at[1], at[2]}};
    td_tensor_set_f(&t, place(&s, to[first]), td_tensor_get_f(x, i));
  }
  return t;
}

/* The gradient's first operand is x, or for a mean the shape of x. */
static td_tensor original(const td_tensor *x, bool mean) {
  td_shape four = td_shape_vector(4);
  int32_t sizes[4];
  td_tensor t;
  if (!mean) {
    td_tensor_retain(x, &t);
    return t;
  }
  for (int i = 0; i < 4; i++) sizes[i] = (int32_t)x->shape.dim[i];
  OK(td_tensor_from(TD_INT32, &four, sizes, &t));
  return t;
}

/* y pooled of x, and dx of dy, or of any; `first`: NCHW. */
static void pool(const shape_case *k, bool mean, bool first, const td_tensor *x,
                 const td_tensor *dy, td_tensor *y, td_tensor *dx,
                 uint64_t *r) {
  int64_t sizes[2][8];
  request q = {.op = mean ? "AvgPool" : "MaxPool"};
  request g = {.op = mean ? "AvgPoolGrad" : "MaxPoolGrad"};
  request *both[] = {&q, &g};
  for (int i = 0; i < 2; i++) {
    windows(both[i], k, sizes[i]);
    if (!first) continue;
    int64_t all[8] = {1, 1, k->k[0], k->k[1], 1, 1, k->s[0], k->s[1]};
    memcpy(sizes[i], all, sizeof all);
    both[i]->attrs[both[i]->n_attrs++] =
        (td_note){"data_format", td_attr_string("NCHW")};
  }
  td_tensor_retain(x, &q.in[q.n_in++]);
  OK(ask(&q, r));
  td_tensor_retain(&q.out[0], y);
  request_in(&g, original(x, mean));
  if (!mean) td_tensor_retain(y, &g.in[g.n_in++]);
  if (dy)
    td_tensor_retain(dy, &g.in[g.n_in++]);
  else
    request_in(&g, numbers(r, x->dtype, y->shape));
  OK(ask(&g, r));
  td_tensor_retain(&g.out[0], dx);
  request_end(&g);
  request_end(&q);
}

static void check_same(const td_tensor *a, const td_tensor *b) {
  td_tensor back = turned(b, false);
  assert_true(td_shape_equal(&back.shape, &a->shape));
  assert_memory_equal(back.data, a->data, td_tensor_bytes(a));
  td_tensor_release(&back);
}

/* Both layouts give the same bits. */
static void check_layouts(const shape_case *k, td_dtype dtype, bool mean,
                          uint64_t *r) {
  td_tensor y[3], dx[3];
  td_tensor x = numbers(r, dtype, td_shape_of(4, k->in));
  pool(k, mean, false, &x, NULL, &y[0], &dx[0], r);
  td_tensor dy = numbers(r, dtype, y[0].shape);
  pool(k, mean, false, &x, &dy, &y[1], &dx[1], r);
  td_tensor x_first = turned(&x, true), dy_first = turned(&dy, true);
  pool(k, mean, true, &x_first, &dy_first, &y[2], &dx[2], r);
  check_same(&y[1], &y[2]);
  check_same(&dx[1], &dx[2]);
  for (int i = 0; i < 3; i++) {
    td_tensor_release(&y[i]);
    td_tensor_release(&dx[i]);
  }
  td_tensor *held[] = {&x, &dy, &x_first, &dy_first};
  for (size_t i = 0; i < TD_COUNT(held); i++) td_tensor_release(held[i]);
}

/* Where channels lie outside, rows of windows are done many at once, or the
 * channels of short ones. */
static void test_layouts(void **state) {
  static const shape_case rows[] = {
      {{2, 5, 40, 3}, {3, 3}, {2, 2}, "SAME"},
      {{1, 4, 81, 2}, {3, 3}, {1, 1}, "SAME"},
      {{2, 6, 130, 2}, {2, 2}, {2, 2}, "VALID"},
      {{1, 3, 70, 2}, {2, 5}, {1, 3}, "SAME"},
      {{1, 3, 600, 2}, {1, 2}, {1, 1}, "VALID"},
      {{1, 4, 9, 2}, {2, 20}, {1, 2}, "SAME"},
  };
  static const td_dtype some[] = {TD_BFLOAT16, TD_FLOAT32, TD_FLOAT64, TD_INT8,
                                  TD_INT64};
  uint64_t r = 5;
  (void)state;
  for (size_t t = 0; t < TD_COUNT(some); t++)
    for (int mean = 0; mean < 1 + td_dtype_is_float(some[t]); mean++) {
      for (size_t i = 0; i < TD_COUNT(rows); i++)
        check_layouts(&rows[i], some[t], mean, &r);
      for (size_t i = 0; i < TD_COUNT(cases); i++)
        check_layouts(&cases[i], some[t], mean, &r);
    }
}

/* ---- instruction sets ---------------------------------------------------- */

enum { CELLS = 12, WIDTH = 131 };

typedef struct results {
  float max[WIDTH], best[WIDTH], mean[WIDTH], taken[WIDTH];
  int32_t where[WIDTH];
  float given[CELLS * WIDTH], equal[CELLS * WIDTH], spread[CELLS * WIDTH];
} results;

/* The cells are those of channels, or of windows `lane` elements apart. */
static void compute(td_isa isa, int64_t n, int64_t lane, const float *x,
                    const float *dy, results *out) {
  const td_pooling_loops *f = td_pooling_loops_of(TD_FLOAT32, isa);
  td_pooling_window w = {
      .count = {1, 3, 4}, .step = {0, 4 * WIDTH, WIDTH}, .lane = lane};
  *out = (results){0};
  f->max(&w, n, x, -1.0, out->max);
  f->find(&w, n, x, out->best, out->where);
  f->mean(&w, n, x, CELLS, out->mean);
  f->give(&w, n, out->where, dy, out->given);
  f->give_equal(&w, n, x, out->max, dy, out->equal);
  f->take_equal(&w, n, x, out->max, x, out->taken);
  f->spread(&w, n, dy, 0.3, out->spread);
}

/* The same bits from every instruction set, NaNs among the numbers. */
static void test_agreement(void **state) {
  static const int64_t widths[] = {1, 2, 31, 32, 33, 64, 97, WIDTH};
  static float x[CELLS * WIDTH], dy[WIDTH];
  static results a, b;
  uint64_t r = 3;
  (void)state;
  for (size_t l = 0; l < TD_COUNT(widths); l++)
    for (int64_t lane = 1; lane <= 3 && lane * widths[l] <= WIDTH; lane++) {
      for (size_t i = 0; i < TD_COUNT(x); i++)
        x[i] = below(&r, 20) ? (float)below(&r, 99) / 7 - 5 : NAN;
      for (size_t i = 0; i < TD_COUNT(dy); i++)
        dy[i] = (float)below(&r, 99) / 7;
      compute(TD_SCALAR, widths[l], lane, x, dy, &a);
      for (int isa = 1; isa <= (int)td_cpu_best(); isa++) {
        compute((td_isa)isa, widths[l], lane, x, dy, &b);
        assert_memory_equal(&a.max, &b.max, sizeof a.max);
        assert_memory_equal(&a.where, &b.where, sizeof a.where);
        assert_memory_equal(&a.given, &b.given, sizeof a.given);
        assert_memory_equal(&a.equal, &b.equal, sizeof a.equal);
        assert_memory_equal(&a.taken, &b.taken, sizeof a.taken);
        assert_memory_equal(&a.spread, &b.spread, sizeof a.spread);
      }
    }
}

/* ---- places that are none ------------------------------------------------ */

/* A place outside its image, which ends TensorFlow's process. */
static void test_bad_places(void **state) {
  static const int64_t bad[] = {-1, 4, INT64_MAX, INT64_MIN};
  static const shape_case k = {{1, 2, 2, 1}, {2, 2}, {2, 2}, "VALID"};
  int64_t sizes[8];
  uint64_t r = 4;
  (void)state;
  for (size_t i = 0; i < TD_COUNT(bad); i++) {
    td_shape one = td_shape_of(4, (int64_t[]){1, 1, 1, 1});
    request q = {.op = "MaxPoolGradWithArgmax"};
    windows(&q, &k, sizes);
    request_in(&q, numbers(&r, TD_FLOAT32, td_shape_of(4, k.in)));
    request_in(&q, numbers(&r, TD_FLOAT32, one));
    OK(td_tensor_from(TD_INT64, &one, &bad[i], &q.in[q.n_in++]));
    FAILS(ask(&q, &r), TD_INVALID_ARGUMENT, "not in [0, 4)");
    request_end(&q);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results),    cmocka_unit_test(test_gradients),
      cmocka_unit_test(test_layouts),    cmocka_unit_test(test_agreement),
      cmocka_unit_test(test_bad_places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
