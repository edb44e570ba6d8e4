/* unary.c - the loops of unary.def: errors, agreement of instruction sets.
 *
 * Bounds are in units in the last place of the exact result (of the least
 * denormal below the normal range), over a stride through all floats; exact
 * means libm in double precision.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/simd/half.h"
#include "kernels/unary.h"

enum { BLOCK = 1024, STRIDE = 4099 };

static const char *const names[TD_UNARIES] = {
#define UNARY(op, ...) #op,
#include "kernels/unary.def"
#undef UNARY
};

static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* ---- errors -------------------------------------------------------------- */

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}
static double softplus(double x) {
  return fmax(x, 0) + log1p(exp(-fabs(x)));
}
static double elu(double x) {
  return x > 0 ? x : expm1(x);
}
static double rsqrt(double x) {
  return 1 / sqrt(x);
}
static double softsign(double x) {
  return x / (1 + fabs(x));
}

static const struct {
  int op;
  double (*exact)(double);
  double bound; /* ulp */
} functions[] = {
    {TD_UNARY_Exp, exp, 1.1},           {TD_UNARY_Expm1, expm1, 1.6},
    {TD_UNARY_Log, log, 1.1},           {TD_UNARY_Log1p, log1p, 1.6},
    {TD_UNARY_Sin, sin, 1.6},           {TD_UNARY_Cos, cos, 1.6},
    {TD_UNARY_Tanh, tanh, 2.6},         {TD_UNARY_Sigmoid, sigmoid, 2.6},
    {TD_UNARY_Softplus, softplus, 2.6}, {TD_UNARY_Elu, elu, 1.6},
    {TD_UNARY_Erf, erf, 1.6},           {TD_UNARY_Sqrt, sqrt, 0.6},
    {TD_UNARY_Rsqrt, rsqrt, 1.6},       {TD_UNARY_Softsign, softsign, 1.6},
    {TD_UNARY_Tan, tan, 1.1},           {TD_UNARY_Asin, asin, 1.1},
    {TD_UNARY_Acos, acos, 1.1},         {TD_UNARY_Atan, atan, 1.1},
    {TD_UNARY_Sinh, sinh, 2.1},         {TD_UNARY_Cosh, cosh, 2.1},
};

static double error_in_ulp(float got, double want) {
  if (isnan(want) || isnan(got))
    return isnan(want) == isnan(got) ? 0 : INFINITY;
  float nearest = (float)want;
  if (got == nearest) return 0.5;
  if (isinf(nearest) || isinf(got)) {
    /* just over the largest float: a neighbour counts as one */
    return nextafterf(got, nearest) == nearest ? 1 : INFINITY;
  }
  int e = ilogb(want);
  return fabs(got - want) / ldexp(1, (e < -126 ? -126 : e) - 23);
}

static void check_errors(td_isa isa, const char *name) {
  static float x[BLOCK], y[BLOCK];
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
    double worst = 0;
    float at = 0;
    uint32_t u = 0;
    for (bool more = true; more;) {
      for (int i = 0; i < BLOCK; i++) {
        x[i] = float_of(u);
        if (u + STRIDE < u) more = false;
        u += STRIDE;
      }
      td_unary_apply(functions[f].op, TD_FLOAT32, isa, BLOCK, x, y);
      for (int i = 0; i < BLOCK; i++) {
        double error = error_in_ulp(y[i], functions[f].exact(x[i]));
        if (error > worst) {
          worst = error;
          at = x[i];
        }
      }
    }
    print_message("%-7s %-9s %.2f ulp at %a\n", name, names[functions[f].op],
                  worst, (double)at);
    assert_true(worst <= functions[f].bound);
  }
}

static void test_errors(void **state) {
  (void)state;
  check_errors(TD_SCALAR, "scalar");
  if (td_cpu_best() != TD_SCALAR)
    check_errors(td_cpu_best(), td_isa_name(td_cpu_best()));
}

/* ---- agreement ----------------------------------------------------------- */

static uint64_t seed = 1;
static uint64_t draw(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed ^ seed >> 31;
}

static const float special[] = {0.0f,      -0.0f, 1.0f,     -1.0f,   INFINITY,
                                -INFINITY, NAN,   1e-40f,   -1e-40f, 3e38f,
                                -3e38f,    0.5f,  16777216, 1e-20f,  88.8f,
                                -103.9f,   2.5f,  -2.5f,    6.0f,    709.8f};

static double draw_number(void) {
  uint64_t r = draw();
  if (r % 8 == 0) return special[draw() % TD_COUNT(special)];
  if (r % 8 < 4) return ((double)(draw() % 2000001) - 1000000) / 50000;
  return ldexp((double)(draw() % 2000001) - 1000000, (int)(draw() % 200) - 100);
}

static void fill(td_dtype t, int n, void *to) {
  for (int i = 0; i < n; i++) {
    switch (t) {
    case TD_FLOAT32:
      ((float *)to)[i] = (float)draw_number();
      break;
    case TD_FLOAT64:
      ((double *)to)[i] = draw_number();
      break;
    case TD_INT32:
      ((uint32_t *)to)[i] = (uint32_t)draw();
      break;
    default:
      ((uint64_t *)to)[i] = draw() >> draw() % 60;
      break;
    }
  }
}

/* The same bits; a NaN is a NaN. */
static bool same(td_dtype t, bool bools, const void *a, const void *b, int i) {
  if (bools) return ((const uint8_t *)a)[i] == ((const uint8_t *)b)[i];
  size_t size = td_dtype_size(t), at = (size_t)i * size;
  if (!memcmp((const char *)a + at, (const char *)b + at, size)) return true;
  if (t == TD_FLOAT32)
    return isnan(((const float *)a)[i]) && isnan(((const float *)b)[i]);
  return t == TD_FLOAT64 && isnan(((const double *)a)[i]) &&
         isnan(((const double *)b)[i]);
}

static bool gives_bytes(int op) {
  return op == TD_UNARY_IsNan || op == TD_UNARY_IsInf ||
         op == TD_UNARY_IsFinite || op == TD_UNARY_PopulationCount;
}

static void compare(int op, td_dtype t, td_isa isa, int n) {
  static _Alignas(64) uint64_t x[BLOCK + 1], a[BLOCK], b[BLOCK];
  fill(t, n, x);
  td_unary_find(op, t, TD_SCALAR)(n, x, a);
  td_unary_find(op, t, isa)(n, x, b);
  for (int i = 0; i < n; i++)
    if (!same(t, gives_bytes(op), a, b, i))
      fail_msg("%s %s %s: element %d of %d differs from scalar", names[op],
               td_dtype_name(t), td_isa_name(isa), i, n);
  if (gives_bytes(op)) return;
  /* in place and from an odd address */
  char *odd = (char *)x + td_dtype_size(t);
  memmove(odd, x, (size_t)n * td_dtype_size(t));
  td_unary_find(op, t, isa)(n, odd, odd);
  for (int i = 0; i < n; i++) assert_true(same(t, false, odd, b, i));
}

static void agree(void) {
  static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_INT32, TD_INT64};
  for (int isa = TD_AVX2; isa <= (int)td_cpu_best(); isa++)
    for (int op = 0; op < TD_UNARIES; op++)
      for (size_t t = 0; t < TD_COUNT(types); t++)
        for (int n = 0; td_unary_scalar[op][types[t]] && n < 100; n++)
          compare(op, types[t], (td_isa)isa, n < 70 ? n : BLOCK);
}

/* As tests run, and as kernels do: with denormals off. */
static void test_agreement(void **state) {
  (void)state;
  agree();
  unsigned was = td_cpu_flush_on();
  agree();
  td_cpu_flush_restore(was);
}

/* ---- half precision ------------------------------------------------------ */

static void check_half_load(td_dtype t, td_isa isa) {
  static uint16_t h[65536];
  static float f[65536];
  for (int i = 0; i < 65536; i++) h[i] = (uint16_t)i;
  td_half_table_of(t, isa)->load(65535, h + 1, f + 1); /* a tail of 7 */
  for (int i = 1; i < 65536; i++) {
    float want = t == TD_FLOAT16 ? td_float_from_half(h[i])
                                 : td_float_from_bfloat16(h[i]);
    assert_true(f[i] == want || (isnan(f[i]) && isnan(want)));
    assert_int_equal(signbit(f[i]) != 0, h[i] >> 15);
  }
}

static void check_half_store(td_dtype t, td_isa isa) {
  static float f[BLOCK];
  static uint16_t h[BLOCK];
  for (uint64_t u = 0; u < UINT32_MAX - STRIDE * BLOCK;) {
    for (int i = 0; i < BLOCK; i++, u += STRIDE) f[i] = float_of((uint32_t)u);
    td_half_table_of(t, isa)->store(BLOCK - 1, f, h);
    for (int i = 0; i < BLOCK - 1; i++)
      assert_int_equal(h[i], t == TD_FLOAT16 ? td_float_to_half(f[i])
                                             : td_float_to_bfloat16(f[i]));
  }
}

static void test_half(void **state) {
  (void)state;
  for (int isa = TD_SCALAR; isa <= (int)td_cpu_best(); isa++) {
    check_half_load(TD_FLOAT16, (td_isa)isa);
    check_half_load(TD_BFLOAT16, (td_isa)isa);
    check_half_store(TD_FLOAT16, (td_isa)isa);
    check_half_store(TD_BFLOAT16, (td_isa)isa);
  }
}

/* Every half through the ops: one float operation, rounded once. */
static void test_half_ops(void **state) {
  static const int ops[] = {TD_UNARY_Tanh, TD_UNARY_Neg, TD_UNARY_IsFinite};
  static uint16_t h[65536], y[65536];
  (void)state;
  for (int i = 0; i < 65536; i++) h[i] = (uint16_t)i;
  for (size_t o = 0; o < TD_COUNT(ops); o++) {
    td_unary_apply(ops[o], TD_FLOAT16, td_cpu_isa(), 65536, h, y);
    for (int i = 0; i < 65536; i++) {
      float x = td_float_from_half(h[i]), want;
      uint8_t test;
      bool bools = gives_bytes(ops[o]);
      td_unary_scalar[ops[o]][TD_FLOAT32](1, &x, bools ? (void *)&test : &want);
      if (bools)
        assert_int_equal(((uint8_t *)y)[i], test);
      else if (!isnan(want))
        assert_int_equal(y[i], td_float_to_half(want));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_agreement),
      cmocka_unit_test(test_half),
      cmocka_unit_test(test_half_ops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
