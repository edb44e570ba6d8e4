/* training.c - optimizers against the formulas in double, element by element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>

#include "kernels/training.h"
#include "tests/kernels/net.h"

/* ---- the formulas, one element ------------------------------------------- */

typedef double complex number;

/* x: variable and slots; s: the op's scalars in its order. */
typedef void (*formula)(number *x, number g, const double *s, bool option);

static void descent(number *x, number g, const double *s, bool option) {
  (void)option;
  x[0] -= s[0] * g;
}
static void momentum(number *x, number g, const double *s, bool nesterov) {
  x[1] = s[1] * x[1] + g;
  x[0] -= nesterov ? s[0] * (g + s[1] * x[1]) : s[0] * x[1];
}
static void adagrad(number *x, number g, const double *s, bool update) {
  if (update) x[1] += g * g;
  x[0] -= s[0] * g / csqrt(x[1]);
}
static void adagrad2(number *x, number g, const double *s, bool update) {
  if (update) x[1] += g * g;
  x[0] -= s[0] * g / (csqrt(x[1]) + s[1]);
}
static void adam(number *x, number g, const double *s, bool nesterov) {
  number rate = s[2] * sqrt(1 - s[1]) / (1 - s[0]);
  x[1] = s[3] * x[1] + (1 - s[3]) * g;
  x[2] = s[4] * x[2] + (1 - s[4]) * g * g;
  number m = nesterov ? s[3] * x[1] + (1 - s[3]) * g : x[1];
  x[0] -= rate * m / (csqrt(x[2]) + s[5]);
}
static void rmsprop(number *x, number g, const double *s, bool option) {
  (void)option;
  x[1] = s[1] * x[1] + (1 - s[1]) * g * g;
  x[2] = s[2] * x[2] + s[0] * g / csqrt(x[1] + s[3]);
  x[0] -= x[2];
}
static void adadelta(number *x, number g, const double *s, bool option) {
  (void)option;
  x[1] = s[1] * x[1] + (1 - s[1]) * g * g;
  number u = csqrt(x[2] + s[2]) / csqrt(x[1] + s[2]) * g;
  x[0] -= s[0] * u;
  x[2] = s[1] * x[2] + (1 - s[1]) * u * u;
}

/* ---- the ops ------------------------------------------------------------- */

/* `order` of the inputs: v variable or slot, s scalar, g gradient, i indices.
 */
static const struct spec {
  const char *op;
  int update; /* TD_TRAINING_* */
  const char *order;
  formula formula;
  const char *option; /* an attribute */
  double scalars[6];
} specs[] = {
    {"GradientDescent",
     TD_TRAINING_GradientDescent,
     "vsg",
     descent,
     NULL,
     {0.5}},
    {"Momentum",
     TD_TRAINING_Momentum,
     "vvsgs",
     momentum,
     "use_nesterov",
     {0.25, 0.5}},
    {"Adagrad", TD_TRAINING_Adagrad, "vvsg", adagrad, "update_slots", {0.5}},
    {"AdagradV2",
     TD_TRAINING_AdagradV2,
     "vvssg",
     adagrad2,
     "update_slots",
     {0.5, 0.125}},
    {"Adam",
     TD_TRAINING_Adam,
     "vvvssssssg",
     adam,
     "use_nesterov",
     {0.5, 0.75, 0.125, 0.5, 0.75, 0.0625}},
    {"RMSProp",
     TD_TRAINING_RMSProp,
     "vvvssssg",
     rmsprop,
     NULL,
     {0.125, 0.75, 0.5, 0.0625}},
    {"Adadelta",
     TD_TRAINING_Adadelta,
     "vvvsssg",
     adadelta,
     NULL,
     {0.5, 0.75, 0.0625}},
};
static const struct spec sparse_specs[] = {
    {"Momentum",
     TD_TRAINING_Momentum,
     "vvsgis",
     momentum,
     "use_nesterov",
     {0.25, 0.5}},
    {"Adagrad", TD_TRAINING_Adagrad, "vvsgi", adagrad, "update_slots", {0.5}},
    {"AdagradV2",
     TD_TRAINING_AdagradV2,
     "vvssgi",
     adagrad2,
     "update_slots",
     {0.5, 0.125}},
};

/* What one op is run on. */
typedef struct bench {
  net w;
  td_edge handle[3], apply, scalar[6], grad, indices;
  int n_vars;
} bench;

static td_edge give(net *w, td_edge h, td_tensor t) {
  td_edge in[] = {h, net_feed(w, t)};
  OK(net_do(w, net_node(w, "AssignVariableOp", in, 2, NULL, 0)));
  return h;
}

/* Slots in [1, 2), so that their roots are well behaved. */
static td_tensor slot(td_dtype dtype, td_shape shape, uint64_t seed) {
  td_tensor t = random_f(dtype, shape, seed);
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    td_tensor_set_f(&t, i, 1.5 + td_tensor_get_f(&t, i) / 2);
  return t;
}

/* Takes `grad` and `indices` (invalid: dense). */
static void bench_init(bench *b, const struct spec *s, td_dtype dtype,
                       td_shape shape, int threads, bool option, td_tensor grad,
                       td_tensor indices) {
  static const char *const names[] = {"var", "slot_a", "slot_b"};
  td_edge in[NET_INPUTS];
  char op[64];
  int scalars = 0;
  *b = (bench){.n_vars = 0};
  net_init(&b->w, threads);
  b->grad = net_feed(&b->w, grad);
  bool dense = !td_tensor_valid(&indices);
  if (!dense) b->indices = net_feed(&b->w, indices);
  for (const char *at = s->order; *at; at++) {
    td_edge *e = &in[at - s->order];
    if (*at == 'v') {
      int k = b->n_vars++;
      *e = b->handle[k] = net_variable(&b->w, names[k], dtype, shape);
      give(&b->w, *e,
           k ? slot(dtype, shape, (uint64_t)k) : random_f(dtype, shape, 7));
    } else if (*at == 's') {
      *e = net_feed(&b->w, scalar_f(dtype, s->scalars[scalars]));
      b->scalar[scalars++] = *e;
    } else {
      *e = *at == 'g' ? b->grad : b->indices;
    }
  }
  snprintf(op, sizeof op, "Resource%sApply%s", dense ? "" : "Sparse", s->op);
  td_note attr = {s->option, td_attr_bool(option)};
  b->apply =
      net_node(&b->w, op, in, (int)strlen(s->order), &attr, s->option ? 1 : 0);
}

static td_tensor value_of(bench *b, int k, td_dtype dtype) {
  td_tensor t;
  td_note attr = {"dtype", td_attr_type(dtype)};
  OK(net_run(&b->w,
             net_node(&b->w, "ReadVariableOp", &b->handle[k], 1, &attr, 1),
             &t));
  return t;
}

/* ---- values -------------------------------------------------------------- */

static number at(const td_tensor *t, int64_t i) {
  if (t->dtype == TD_COMPLEX64) return ((float complex *)t->data)[i];
  if (t->dtype == TD_COMPLEX128) return ((double complex *)t->data)[i];
  return td_tensor_get_f(t, i);
}

static double tolerance(td_dtype t) {
  return t == TD_FLOAT64 || t == TD_COMPLEX128  ? 1e-14
         : t == TD_FLOAT32 || t == TD_COMPLEX64 ? 3e-6
         : t == TD_FLOAT16                      ? 4e-3
                                                : 3e-2;
}

static void expect_near(number got, number want, td_dtype dtype,
                        const char *op) {
  double off = cabs(got - want) / (1 + cabs(want));
  if (!(off <= tolerance(dtype)))
    fail_msg("%s %s: %.9g %+.9gi, not %.9g %+.9gi", op, td_dtype_name(dtype),
             creal(got), cimag(got), creal(want), cimag(want));
}

/* Copies of what the variables hold. */
static void look(bench *b, td_dtype dtype, td_tensor *out) {
  for (int k = 0; k < b->n_vars; k++) {
    td_tensor t = value_of(b, k, dtype);
    OK(td_tensor_copy(&t, &out[k]));
    td_tensor_release(&t);
  }
}

static void release(td_tensor *t, int n) {
  for (int k = 0; k < n; k++) td_tensor_release(&t[k]);
}

static void check_dense(const struct spec *s, td_dtype dtype, int n,
                        bool option) {
  bench b;
  td_tensor grad = random_f(dtype, td_shape_vector(n), 11), g, old[3], now[3];
  td_tensor_retain(&grad, &g);
  bench_init(&b, s, dtype, td_shape_vector(n), 2, option, grad,
             (td_tensor){.dtype = TD_INVALID});
  look(&b, dtype, old);
  OK(net_do(&b.w, b.apply));
  look(&b, dtype, now);
  for (int i = 0; i < n; i++) {
    number x[3];
    for (int k = 0; k < b.n_vars; k++) x[k] = at(&old[k], i);
    s->formula(x, at(&g, i), s->scalars, option);
    for (int k = 0; k < b.n_vars; k++)
      expect_near(at(&now[k], i), x[k], dtype, s->op);
  }
  release(old, b.n_vars);
  release(now, b.n_vars);
  td_tensor_release(&g);
  net_deinit(&b.w);
}

static const td_dtype dtypes[] = {TD_FLOAT32,  TD_FLOAT64,   TD_FLOAT16,
                                  TD_BFLOAT16, TD_COMPLEX64, TD_COMPLEX128};

static void test_dense(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(specs); i++)
    for (size_t d = 0; d < TD_COUNT(dtypes); d++) {
      for (int option = 0; option < 2; option++) {
        check_dense(&specs[i], dtypes[d], 1, option);
        check_dense(&specs[i], dtypes[d], 1537, option);
      }
      check_dense(&specs[i], dtypes[d], 0, true);
    }
}

/* Row 2 comes twice: its updates follow each other. */
static void check_sparse(const struct spec *s, td_dtype dtype, bool option) {
  enum { ROWS = 4, EACH = 700, N = 3 };
  static const int32_t row[N] = {2, 0, 2};
  bench b;
  td_tensor grad = random_f(dtype, td_shape_matrix(N, EACH), 11), g;
  td_tensor old[3], now[3];
  td_tensor_retain(&grad, &g);
  bench_init(&b, s, dtype, td_shape_matrix(ROWS, EACH), 2, option, grad,
             ints(N, row));
  look(&b, dtype, old);
  OK(net_do(&b.w, b.apply));
  look(&b, dtype, now);
  for (int i = 0; i < ROWS * EACH; i++) {
    number x[3];
    for (int k = 0; k < b.n_vars; k++) x[k] = at(&old[k], i);
    for (int r = 0; r < N; r++)
      if (row[r] == i / EACH)
        s->formula(x, at(&g, r * EACH + i % EACH), s->scalars, option);
    for (int k = 0; k < b.n_vars; k++)
      expect_near(at(&now[k], i), x[k], dtype, s->op);
  }
  release(old, b.n_vars);
  release(now, b.n_vars);
  td_tensor_release(&g);
  net_deinit(&b.w);
}

static void test_sparse(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(sparse_specs); i++)
    for (size_t d = 0; d < TD_COUNT(dtypes); d++)
      for (int option = 0; option < 2; option++)
        check_sparse(&sparse_specs[i], dtypes[d], option);
}

/* ---- bits ---------------------------------------------------------------- */

static void check_isa(int update, td_dtype dtype, td_isa isa, int64_t n) {
  static const float scalars[6] = {0.25f, 0.5f, 0.125f, 0.75f, 0.5f, 0.0625f};
  double wide[6];
  enum { VARS = 1 + TD_TRAINING_SLOTS };
  td_tensor x[2][VARS], g = random_f(dtype, td_shape_vector(n), 9);
  for (int k = 0; k < 6; k++) wide[k] = scalars[k];
  for (int t = 0; t < 2; t++) {
    void *var[VARS];
    for (int k = 0; k < VARS; k++) {
      x[t][k] = slot(dtype, td_shape_vector(n), (uint64_t)k);
      var[k] = x[t][k].data;
    }
    td_training_find(update, dtype, t ? isa : TD_SCALAR)(
        n, var, g.data,
        dtype == TD_FLOAT64 ? (const void *)wide : (const void *)scalars, true);
  }
  for (int k = 0; k < VARS; k++) {
    assert_true(td_tensor_same(&x[0][k], &x[1][k]));
    td_tensor_release(&x[0][k]);
    td_tensor_release(&x[1][k]);
  }
  td_tensor_release(&g);
}

static void test_instruction_sets(void **state) {
  (void)state;
  for (td_isa isa = TD_AVX2; isa <= td_cpu_best(); isa++)
    for (int update = 0; update < TD_TRAININGS; update++)
      for (int64_t n = 0; n < 70; n += 23) {
        check_isa(update, TD_FLOAT32, isa, n);
        check_isa(update, TD_FLOAT64, isa, n);
      }
  if (td_cpu_best() < TD_AVX512) skip();
}

static td_tensor trained(int threads) {
  enum { N = 200000 };
  bench b;
  bench_init(&b, &specs[4], TD_FLOAT32, td_shape_vector(N), threads, false,
             random_f(TD_FLOAT32, td_shape_vector(N), 3),
             (td_tensor){.dtype = TD_INVALID});
  for (int i = 0; i < 3; i++) OK(net_do(&b.w, b.apply));
  td_tensor t = value_of(&b, 0, TD_FLOAT32);
  net_deinit(&b.w);
  return t;
}

static void test_threads(void **state) {
  (void)state;
  td_tensor one = trained(1), two = trained(2);
  assert_true(td_tensor_same(&one, &two));
  td_tensor_release(&one);
  td_tensor_release(&two);
}

/* ---- errors: nothing is changed ------------------------------------------ */

static void expect_untouched(bench *b, td_tensor *old, td_code code,
                             const char *part) {
  td_tensor now[3];
  FAILS(net_do(&b->w, b->apply), code, part);
  look(b, TD_FLOAT32, now);
  for (int k = 0; k < b->n_vars; k++) {
    assert_true(td_tensor_same(&now[k], &old[k]));
    td_tensor_release(&now[k]);
    td_tensor_release(&old[k]);
  }
  net_deinit(&b->w);
}

static void test_errors(void **state) {
  (void)state;
  bench b;
  td_tensor old[3];
  td_shape shape = td_shape_matrix(3, 2);
  const td_tensor none = {.dtype = TD_INVALID};
  bench_init(&b, &specs[4], TD_FLOAT32, shape, 1, false,
             random_f(TD_FLOAT32, td_shape_matrix(2, 3), 1), none);
  look(&b, TD_FLOAT32, old);
  expect_untouched(&b, old, TD_INVALID_ARGUMENT,
                   "grad is of shape {2, 3}, but var of shape {3, 2}");
  bench_init(&b, &specs[1], TD_FLOAT32, shape, 1, false,
             random_f(TD_FLOAT32, shape, 1), none);
  net_refeed(&b.w, b.scalar[1], random_f(TD_FLOAT32, td_shape_vector(1), 1));
  look(&b, TD_FLOAT32, old);
  expect_untouched(&b, old, TD_INVALID_ARGUMENT,
                   "momentum must be a scalar, not of shape {1}");
  bench_init(&b, &sparse_specs[0], TD_FLOAT32, shape, 1, false,
             random_f(TD_FLOAT32, td_shape_matrix(2, 2), 1),
             ints(2, (int[]){0, 3}));
  look(&b, TD_FLOAT32, old);
  expect_untouched(&b, old, TD_INVALID_ARGUMENT, "index 1 is 3, not in [0, 3)");
  bench_init(&b, &sparse_specs[0], TD_FLOAT32, shape, 1, false,
             random_f(TD_FLOAT32, td_shape_matrix(1, 2), 1),
             ints(2, (int[]){0, 1}));
  look(&b, TD_FLOAT32, old);
  expect_untouched(&b, old, TD_INVALID_ARGUMENT,
                   "grad must be of shape {2, 2}");
}

/* An update that fails for want of memory has changed nothing. */
static void test_no_memory(void **state) {
  (void)state;
  enum { N = 50 };
  bench b;
  td_tensor old[3], now[3];
  td_tensor grad = random_f(TD_FLOAT32, td_shape_vector(N), 1), g;
  td_tensor_retain(&grad, &g);
  bench_init(&b, &specs[4], TD_FLOAT32, td_shape_vector(N), 1, false, grad,
             (td_tensor){.dtype = TD_INVALID});
  look(&b, TD_FLOAT32, old); /* the variables share what was assigned */
  net_starve(&b.w, b.apply);
  look(&b, TD_FLOAT32, now);
  for (int i = 0; i < N; i++) {
    number x[3] = {at(&old[0], i), at(&old[1], i), at(&old[2], i)};
    specs[4].formula(x, at(&g, i), specs[4].scalars, false);
    for (int k = 0; k < 3; k++)
      expect_near(at(&now[k], i), x[k], TD_FLOAT32, "Adam");
  }
  release(old, 3);
  release(now, 3);
  td_tensor_release(&g);
  net_deinit(&b.w);
}

static void test_one_variable_twice(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge h = give(&w, net_variable(&w, "v", TD_FLOAT32, td_shape_scalar()),
                   scalar_f(TD_FLOAT32, 1));
  td_edge one = net_feed(&w, scalar_f(TD_FLOAT32, 1));
  td_edge in[] = {h, h, one, one, one};
  FAILS(net_do(&w, net_node(&w, "ResourceApplyMomentum", in, 5, NULL, 0)),
        TD_INVALID_ARGUMENT, "var and accum must be two variables");
  net_deinit(&w);
}

/* A gradient that is the variable itself. */
static void test_gradient_is_variable(void **state) {
  (void)state;
  net w;
  net_init(&w, 1);
  td_edge h = give(&w, net_variable(&w, "v", TD_FLOAT32, td_shape_scalar()),
                   scalar_f(TD_FLOAT32, 3));
  td_note attr = {"dtype", td_attr_type(TD_FLOAT32)};
  td_edge read = net_node(&w, "ReadVariableOp", &h, 1, &attr, 1);
  td_edge in[] = {h, net_feed(&w, scalar_f(TD_FLOAT32, 0.5)), read};
  OK(net_do(&w, net_node(&w, "ResourceApplyGradientDescent", in, 3, NULL, 0)));
  net_expect(&w, read, 1, (double[]){1.5}, 0);
  net_deinit(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dense),
      cmocka_unit_test(test_sparse),
      cmocka_unit_test(test_instruction_sets),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_one_variable_twice),
      cmocka_unit_test(test_gradient_is_variable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
