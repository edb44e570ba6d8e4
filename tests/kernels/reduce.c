/* reduce.c - folding axes: against a naive walk, over threads, instruction
 * sets, large and empty tensors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <complex.h>
#include <math.h>
#include <string.h>

#include "kernels/reduce.h"
#include "tests/kernels/call.h"

static uint64_t seed = 1;
static uint64_t draw(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed ^ seed >> 31;
}

/* ---- against a naive walk ------------------------------------------------ */

static td_shape draw_shape(void) {
  td_shape s = {.rank = (int32_t)(draw() % 9)};
  for (int i = 0; i < s.rank; i++) {
    uint64_t r = draw() % 60;
    s.dim[i] = r == 0                 ? 0
               : r < 8 && s.rank <= 3 ? 1 + (int64_t)(draw() % 150)
               : r < 20               ? 1
                                      : 1 + (int64_t)(r % 3);
  }
  return s;
}

/* Result element that input element i goes into. */
static int64_t naive_at(const td_shape *s, const bool *folded, int64_t i) {
  int64_t at = 0, step = 1;
  for (int k = s->rank - 1; k >= 0; k--) {
    if (!folded[k]) {
      at += i % s->dim[k] * step;
      step *= s->dim[k];
    }
    i /= s->dim[k];
  }
  return at;
}

static double naive_join(int op, double a, double b) {
  switch (op) {
  case 1:
    return a * b;
  case 2:
    return fmax(a, b);
  case 3:
    return fmin(a, b);
  default:
    return a + b;
  }
}

static const char *const op_names[] = {"Sum", "Prod", "Max", "Min", "Mean"};

/* Small whole numbers: exact in every dtype that is tried. */
static void fill(td_tensor *t, int op) {
  for (int64_t i = 0; i < td_tensor_count(t); i++) {
    int64_t v = (int64_t)(draw() % 3);
    if (op == 1) v = draw() % 97 ? 1 : 2;
    td_tensor_set_i(t, i, v);
  }
}

static void draw_axes(const td_shape *s, bool *folded, td_tensor *axes) {
  int32_t list[TD_MAX_RANK];
  int n = 0;
  for (int i = 0; i < s->rank; i++) {
    folded[i] = draw() % 2;
    if (folded[i]) list[n++] = draw() % 2 ? i : i - s->rank;
  }
  td_shape v = td_shape_vector(n);
  assert_null(td_tensor_from(TD_INT32, &v, list, axes));
}

static void check_naive(int op, td_dtype t) {
  bool folded[TD_MAX_RANK] = {false};
  td_tensor in[2], y;
  td_shape s = draw_shape();
  assert_null(td_tensor_new(NULL, t, &s, &in[0]));
  fill(&in[0], op);
  draw_axes(&s, folded, &in[1]);
  td_note keep = {"keep_dims", td_attr_bool(draw() % 2)};
  assert_null(call(op_names[op], 2, in, 2, &keep, 1, &y));
  td_shape want = td_reduce_shape(&s, folded, keep.value.b);
  assert_true(td_shape_equal(&y.shape, &want));
  int64_t n = td_tensor_count(&y), each = n ? td_tensor_count(&in[0]) / n : 0;
  static double sums[400000];
  assert_true(n <= 400000);
  double first = op == 1 ? 1 : op == 2 ? -INFINITY : op == 3 ? INFINITY : 0;
  for (int64_t i = 0; i < n; i++) sums[i] = first;
  for (int64_t i = 0; i < td_tensor_count(&in[0]); i++) {
    double *sum = &sums[naive_at(&s, folded, i)];
    *sum = naive_join(op, *sum, td_tensor_get_f(&in[0], i));
  }
  for (int64_t i = 0; i < n && each; i++) {
    double got = td_tensor_get_f(&y, i), exact = sums[i];
    if (op == 4) exact /= (double)each;
    if (op == 4 && td_dtype_is_integer(t)) exact = trunc(exact);
    if (t == TD_FLOAT16)
      exact = td_float_from_half(td_float_to_half((float)exact));
    if (t == TD_INT8 && op != 4) exact = (int8_t)(int64_t)exact;
    if (t == TD_UINT8 && op != 4) exact = (uint8_t)(int64_t)exact;
    if (t == TD_FLOAT32 || t == TD_COMPLEX64) exact = (float)exact;
    if (got != exact)
      fail_msg("%s %s: element %d is %g, not %g", op_names[op],
               td_dtype_name(t), (int)i, got, exact);
  }
  td_tensor_release(&y);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static void test_naive(void **state) {
  static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64,  TD_FLOAT16,
                                   TD_INT8,    TD_INT32,    TD_INT64,
                                   TD_UINT8,   TD_COMPLEX64};
  (void)state;
  for (int i = 0; i < 4000; i++) {
    td_dtype t = types[draw() % TD_COUNT(types)];
    int op = (int)(draw() % TD_COUNT(op_names));
    if (td_dtype_is_complex(t) && (op == 2 || op == 3)) continue;
    check_naive(op, t);
  }
}

/* ---- loops --------------------------------------------------------------- */

static void compare(int loop, td_dtype t, td_isa isa) {
  enum { MOST = 4096 };
  static _Alignas(64) uint64_t x[MOST], a[512], b[512];
  int64_t width = draw() % 2 ? 64 : 1 + (int64_t)(draw() % 100);
  int64_t stride = width + (int64_t)(draw() % 3);
  int64_t n = 1 + (int64_t)(draw() % 9);
  for (int i = 0; i < MOST; i++) {
    double v = draw() % 50 ? ((double)(draw() % 2001) - 1000) / 64 : NAN;
    if (t == TD_FLOAT32)
      ((float *)x)[i] = (float)v;
    else if (t == TD_FLOAT64)
      ((double *)x)[i] = v;
    else
      x[i] = draw();
  }
  memset(a, 0, sizeof a);
  memset(b, 0, sizeof b);
  td_reduce_find(loop, t, TD_SCALAR).take(a, x, n, width, stride);
  td_reduce_find(loop, t, isa).take(b, x, n, width, stride);
  for (int64_t i = 0; i < width; i++) {
    if (t == TD_FLOAT32 && isnan(((float *)a)[i])) {
      assert_true(isnan(((float *)b)[i]));
      ((float *)a)[i] = ((float *)b)[i] = 0;
    }
    if (t == TD_FLOAT64 && isnan(((double *)a)[i])) {
      assert_true(isnan(((double *)b)[i]));
      ((double *)a)[i] = ((double *)b)[i] = 0;
    }
  }
  assert_memory_equal(a, b, sizeof a);
}

static void test_agreement(void **state) {
  static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_INT32, TD_INT64};
  (void)state;
  for (int isa = TD_AVX2; isa <= (int)td_cpu_best(); isa++)
    for (int loop = 0; loop < TD_REDUCE_LOOPS; loop++)
      for (size_t t = 0; t < TD_COUNT(types); t++)
        for (int i = 0; td_reduce_scalar[loop][types[t]].take && i < 50; i++)
          compare(loop, types[t], (td_isa)isa);
}

/* ---- large --------------------------------------------------------------- */

static void large(const td_shape *s, int32_t axis, td_tensor *in) {
  td_shape v = td_shape_vector(1);
  assert_null(td_tensor_new(NULL, TD_FLOAT32, s, &in[0]));
  assert_null(td_tensor_from(TD_INT32, &v, &axis, &in[1]));
  for (int64_t i = 0; i < td_tensor_count(&in[0]); i++)
    ((float *)in[0].data)[i] = (float)(draw() >> 40) * 0x1p-24f;
}

/* Sums of numbers in [0, 1): within a few roundings of the exact ones, and the
 * same bits however many threads share the work. */
static void check_large(int64_t rows, int64_t columns, int32_t axis) {
  td_tensor in[2], one, two;
  td_shape s = td_shape_matrix(rows, columns);
  large(&s, axis, in);
  assert_null(call("Sum", 1, in, 2, NULL, 0, &one));
  assert_null(call("Sum", 2, in, 2, NULL, 0, &two));
  assert_true(td_tensor_same(&one, &two));
  int64_t n = td_tensor_count(&one), folded = axis ? columns : rows;
  for (int64_t i = 0; i < n; i += 1 + n / 50) {
    double exact = 0;
    for (int64_t k = 0; k < folded; k++)
      exact += ((float *)in[0].data)[axis ? i * columns + k : k * columns + i];
    double error = fabs(td_tensor_get_f(&one, i) - exact) / exact;
    if (error > 4e-7)
      fail_msg("{%lld, %lld} axis %d: relative error %g", (long long)rows,
               (long long)columns, (int)axis, error);
  }
  td_tensor_release(&one);
  td_tensor_release(&two);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static void test_large(void **state) {
  static const int64_t sizes[][2] = {
      {1, 3000000}, {3000000, 1}, {100000, 3},  {3, 100000}, {20000, 100},
      {100, 20000}, {1000, 1000}, {5, 300000},  {300000, 7}, {70, 5000},
      {40, 65536},  {33, 33},     {2, 1000000},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(sizes); i++)
    for (int axis = 0; axis < 2; axis++)
      check_large(sizes[i][0], sizes[i][1], axis);
}

/* ---- rows of single results ---------------------------------------------- */

typedef struct row {
  const char *op;
  td_dtype dtype;
  int rank;
  int64_t dim[3];
  double value; /* of every element */
  int axis;
  double want;
} row;

static void check_row(const row *r) {
  td_tensor in[2], y;
  td_shape s = td_shape_of(r->rank, r->dim), v = td_shape_vector(1);
  int32_t axis = r->axis;
  assert_null(td_tensor_new(NULL, r->dtype, &s, &in[0]));
  assert_null(td_tensor_from(TD_INT32, &v, &axis, &in[1]));
  for (int64_t i = 0; i < td_tensor_count(&in[0]); i++)
    td_tensor_set_f(&in[0], i, r->value);
  assert_null(call(r->op, 2, in, 2, NULL, 0, &y));
  for (int64_t i = 0; i < td_tensor_count(&y); i++) {
    double got = td_tensor_get_f(&y, i);
    if (got != r->want && !(isnan(got) && isnan(r->want)))
      fail_msg("%s of %s is %g, not %g", r->op, td_dtype_name(r->dtype), got,
               r->want);
  }
  td_tensor_release(&y);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static void test_rows(void **state) {
  static const row rows[] = {
      /* of nothing */
      {"Sum", TD_FLOAT32, 2, {0, 3}, 0, 0, 0},
      {"Prod", TD_INT32, 2, {0, 3}, 0, 0, 1},
      {"Max", TD_FLOAT32, 2, {0, 3}, 0, 0, -INFINITY},
      {"Max", TD_INT32, 2, {0, 3}, 0, 0, INT32_MIN},
      {"Min", TD_UINT8, 2, {0, 3}, 0, 0, 255},
      {"Min", TD_FLOAT64, 2, {0, 3}, 0, 0, INFINITY},
      {"Mean", TD_FLOAT32, 2, {0, 3}, 0, 0, NAN},
      {"Mean", TD_INT32, 2, {0, 3}, 0, 0, 0},
      {"All", TD_BOOL, 2, {0, 3}, 0, 0, 1},
      {"Any", TD_BOOL, 2, {0, 3}, 0, 0, 0},
      {"Sum", TD_FLOAT32, 2, {3, 0}, 0, 0, 0},
      /* wide sums rounded once */
      {"Sum", TD_FLOAT16, 1, {5000}, 1, 0, 5000},
      {"Sum", TD_FLOAT16, 2, {5000, 2}, 1, 0, 5000},
      {"Sum", TD_BFLOAT16, 1, {4096}, 1, 0, 4096},
      {"Mean", TD_FLOAT16, 2, {100000, 2}, 1, 0, 1},
      {"Mean", TD_INT8, 1, {300}, 100, 0, 100},
      {"Mean", TD_UINT64, 1, {3}, 7, 0, 7},
      {"Mean", TD_INT32, 1, {2}, INT32_MAX, 0, INT32_MAX},
      {"Mean", TD_COMPLEX128, 1, {7}, 3, 0, 3},
      {"Sum", TD_INT8, 1, {2}, 100, 0, -56},
      {"Prod", TD_COMPLEX64, 1, {10}, 2, 0, 1024},
      {"Prod", TD_UINT16, 1, {20}, 2, 0, 0},
      /* NaN comes through */
      {"Max", TD_FLOAT32, 1, {100}, NAN, 0, NAN},
      {"Min", TD_FLOAT64, 1, {3}, NAN, 0, NAN},
      {"All", TD_BOOL, 1, {1000}, 1, 0, 1},
      {"Any", TD_BOOL, 1, {1000}, 0, 0, 0},
      {"Any", TD_BOOL, 2, {3, 5}, 1, 1, 1},
  };
  (void)state;
  for (size_t i = 0; i < TD_COUNT(rows); i++) check_row(&rows[i]);
}

static void test_one_of_many(void **state) {
  td_shape v = td_shape_vector(1), s = td_shape_vector(1000);
  int32_t axis = 0;
  td_tensor in[2], y;
  (void)state;
  assert_null(td_tensor_new(NULL, TD_FLOAT32, &s, &in[0]));
  assert_null(td_tensor_from(TD_INT32, &v, &axis, &in[1]));
  for (int k = 0; k < 1000; k += 37) {
    for (int i = 0; i < 1000; i++) ((float *)in[0].data)[i] = i == k ? NAN : 1;
    assert_null(call("Max", 1, in, 2, NULL, 0, &y));
    assert_true(isnan(td_tensor_get_f(&y, 0)));
    td_tensor_release(&y);
    ((float *)in[0].data)[k] = 7;
    assert_null(call("Max", 1, in, 2, NULL, 0, &y));
    assert_true(td_tensor_get_f(&y, 0) == 7);
    td_tensor_release(&y);
  }
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static void test_l2_loss(void **state) {
  td_shape s = td_shape_matrix(300, 400);
  td_tensor x, y;
  (void)state;
  for (int t = 0; t < 2; t++) {
    td_dtype dtype = t ? TD_FLOAT16 : TD_FLOAT32;
    assert_null(td_tensor_new(NULL, dtype, &s, &x));
    for (int64_t i = 0; i < td_tensor_count(&x); i++)
      td_tensor_set_f(&x, i, 0.25);
    assert_null(call("L2Loss", 2, &x, 1, NULL, 0, &y));
    assert_true(td_tensor_get_f(&y, 0) == 3750);
    td_tensor_release(&y);
    td_tensor_release(&x);
  }
}

/* ---- refused ------------------------------------------------------------- */

static void check_refused(int rank, int n, const int64_t *list, bool matrix,
                          const char *message) {
  int64_t ones[TD_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  td_shape s = td_shape_of(rank, ones), v = td_shape_vector(n);
  td_tensor in[2], y;
  if (matrix) v = td_shape_matrix(1, n);
  assert_null(td_tensor_new(NULL, TD_FLOAT32, &s, &in[0]));
  td_tensor_set_f(&in[0], 0, 1);
  assert_null(td_tensor_from(TD_INT64, &v, list, &in[1]));
  td_status *e = call("Sum", 1, in, 2, NULL, 0, &y);
  assert_int_equal(td_status_code(e), TD_INVALID_ARGUMENT);
  if (!strstr(td_status_message(e), message))
    fail_msg("\"%s\" is not in \"%s\"", message, td_status_message(e));
  td_status_release(e);
  td_tensor_release(&in[0]);
  td_tensor_release(&in[1]);
}

static void test_refused(void **state) {
  (void)state;
  check_refused(2, 1, (int64_t[]){2}, false, "reduction_indices");
  check_refused(2, 1, (int64_t[]){-3}, false, "reduction_indices");
  check_refused(0, 1, (int64_t[]){0}, false, "reduction_indices");
  check_refused(2, 1, (int64_t[]){INT64_MIN}, false, "reduction_indices");
  check_refused(2, 1, (int64_t[]){(int64_t)1 << 32}, false,
                "reduction_indices");
  check_refused(2, 2, (int64_t[]){1, -1}, false, "twice");
  check_refused(2, 2, (int64_t[]){0, 1}, true, "a scalar or a vector");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_naive),   cmocka_unit_test(test_agreement),
      cmocka_unit_test(test_large),   cmocka_unit_test(test_rows),
      cmocka_unit_test(test_l2_loss), cmocka_unit_test(test_one_of_many),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
