/* fft.c - Fourier transforms of every kind of length against the sums that they
 * are, in long double.
 *
 * Beyond the golden cases: how far numbers are from those sums for every
 * length, that a line has the same bits alone and in a batch, on one thread and
 * on several, and from every instruction set; plans under lack of memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <complex.h>
#include <math.h>

#include "engine/base/mem.h"
#include "kernels/fft.h"
#include "tests/kernels/arrays.h"
#include "tests/kernels/call.h"

typedef double complex number;
typedef long double complex exact;

/* Of complex numbers in [-1, 1]^2. */
static td_tensor noise(td_dtype dtype, td_shape s) {
  static uint64_t r = 7;
  td_tensor t;
  bool wide = dtype == TD_COMPLEX128 || dtype == TD_FLOAT64;
  OK(td_tensor_new(NULL, dtype, &s, &t));
  int64_t n = (int64_t)(td_tensor_bytes(&t) / (wide ? 8 : 4));
  for (int64_t i = 0; i < n; i++) {
    double x = (double)below(&r, 20001) / 10000 - 1;
    if (wide)
      ((double *)t.data)[i] = x;
    else
      ((float *)t.data)[i] = (float)x;
  }
  return t;
}

static number at(const td_tensor *t, int64_t i) {
  if (t->dtype == TD_COMPLEX128) {
    const double *x = t->data;
    return x[2 * i] + x[2 * i + 1] * (number)I;
  }
  if (t->dtype == TD_COMPLEX64) {
    const float *x = t->data;
    return (double)x[2 * i] + (double)x[2 * i + 1] * (number)I;
  }
  return td_tensor_get_f(t, i);
}

static td_tensor run(const char *op, int threads, td_tensor x) {
  td_tensor y;
  bool wide = x.dtype == TD_COMPLEX128;
  td_note type = {"Tcomplex",
                  td_attr_type(wide ? TD_COMPLEX128 : TD_COMPLEX64)};
  OK(call(op, threads, &x, 1, &type, 1, &y));
  return y;
}

static td_tensor run_real(const char *op, td_tensor x, int axes,
                          const int32_t *length) {
  td_shape s = td_shape_vector(axes);
  td_tensor in[2] = {x}, y;
  bool wide = td_dtype_size(x.dtype) == (x.dtype == TD_COMPLEX128 ? 16 : 8) &&
              x.dtype != TD_COMPLEX64;
  td_note types[2] = {
      {"Treal", td_attr_type(wide ? TD_FLOAT64 : TD_FLOAT32)},
      {"Tcomplex", td_attr_type(wide ? TD_COMPLEX128 : TD_COMPLEX64)}};
  OK(td_tensor_from(TD_INT32, &s, length, &in[1]));
  OK(call(op, 2, in, 2, types, 2, &y));
  td_tensor_release(&in[1]);
  return y;
}

/* ---- sums ---------------------------------------------------------------- */

/* Number k of the transform of x, of n. */
static number sum_at(const td_tensor *x, int64_t n, int64_t k,
                     const exact *root) {
  exact sum = 0;
  int64_t turn = 0; /* j k modulo n */
  for (int64_t j = 0; j < n; j++) {
    sum += at(x, j) * root[turn];
    turn += k;
    if (turn >= n) turn -= n;
  }
  return (number)sum;
}

/* Looks at `most` numbers of the transform of one line. */
static void check_length(td_dtype dtype, int64_t n, int64_t most) {
  td_tensor x = noise(dtype, td_shape_vector(n)), y = run("FFT", 2, x);
  double bound = (dtype == TD_COMPLEX64 ? 4e-7 : 1e-15) * sqrt((double)n) *
                 (2 + log2((double)n) / 2);
  exact *root = td_malloc((size_t)n * sizeof *root);
  for (int64_t e = 0; e < n; e++) {
    long double angle = 6.283185307179586476925L * e / n;
    root[e] = cosl(angle) - sinl(angle) * (exact)I;
  }
  int64_t step = n <= most ? 1 : n / most | 1;
  for (int64_t k = 0; k < n; k += step) {
    double far = cabs(at(&y, k) - sum_at(&x, n, k, root));
    if (!(far <= bound))
      fail_msg("number %lld of %lld is %g from the sum", (long long)k,
               (long long)n, far);
  }
  td_free(root);
  td_tensor_release(&x);
  td_tensor_release(&y);
}

static const int64_t lengths[] = {
    251,  255,  256,  257,  260,  289,   343,   499,   507,   512,   1000, 1009,
    1024, 2039, 2048, 2187, 4096, 10000, 10007, 14641, 30030, 65537, 65536};

static void test_every_length(void **state) {
  (void)state;
  for (int64_t n = 1; n <= 200; n++)
    check_length(n % 2 ? TD_COMPLEX64 : TD_COMPLEX128, n, n);
  for (int64_t n = 2; n <= 64; n++)
    check_length(n % 2 ? TD_COMPLEX128 : TD_COMPLEX64, n, n);
}

static void test_long_lengths(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(lengths); i++) {
    check_length(TD_COMPLEX64, lengths[i], 30);
    check_length(TD_COMPLEX128, lengths[i], 30);
  }
}

/* ---- there and back ------------------------------------------------------ */

static void near(const td_tensor *x, const td_tensor *y, double bound) {
  assert_true(td_shape_equal(&x->shape, &y->shape));
  for (int64_t i = 0; i < td_tensor_count(x); i++) {
    double far = cabs(at(x, i) - at(y, i));
    if (!(far <= bound))
      fail_msg("element %lld is %g apart", (long long)i, far);
  }
}

static void test_inverse(void **state) {
  static const char *const names[][2] = {
      {"FFT", "IFFT"}, {"FFT2D", "IFFT2D"}, {"FFT3D", "IFFT3D"}};
  static const int64_t sizes[][3] = {
      {3, 40, 16}, {5, 17, 300}, {2, 521, 3}, {1, 8209, 2}, {1, 2, 70000}};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(sizes); i++)
    for (size_t k = 0; k < TD_COUNT(names); k++) {
      td_tensor x = noise(TD_COMPLEX128, td_shape_of(3, sizes[i]));
      td_tensor y = run(names[k][0], 2, x), z = run(names[k][1], 2, y);
      near(&x, &z, 1e-14);
      td_tensor_release(&x);
      td_tensor_release(&y);
      td_tensor_release(&z);
    }
}

/* Reals give the first half of what complex numbers do, and come back. */
static void check_reals(td_dtype dtype, int axes, const int64_t *sizes) {
  static const char *const forth[] = {"RFFT", "RFFT2D", "RFFT3D"};
  static const char *const whole[] = {"FFT", "FFT2D", "FFT3D"};
  static const char *const back[] = {"IRFFT", "IRFFT2D", "IRFFT3D"};
  bool wide = dtype == TD_FLOAT64;
  td_shape s = td_shape_of(3, sizes);
  td_tensor x = noise(dtype, s), z;
  double bound = (wide ? 1e-14 : 5e-6) * sqrt((double)td_tensor_count(&x));
  int32_t length[3];
  int64_t n = sizes[2], h = n / 2 + 1;
  for (int i = 0; i < axes; i++) length[i] = (int32_t)sizes[3 - axes + i];
  OK(td_tensor_new(NULL, wide ? TD_COMPLEX128 : TD_COMPLEX64, &s, &z));
  for (int64_t i = 0; i < td_tensor_count(&x); i++) {
    double part = td_tensor_get_f(&x, i);
    if (wide)
      ((double *)z.data)[2 * i] = part, ((double *)z.data)[2 * i + 1] = 0;
    else
      ((float *)z.data)[2 * i] = (float)part, ((float *)z.data)[2 * i + 1] = 0;
  }
  td_tensor y = run_real(forth[axes - 1], x, axes, length);
  td_tensor all = run(whole[axes - 1], 2, z);
  for (int64_t i = 0; i < td_tensor_count(&y); i++) {
    double far = cabs(at(&y, i) - at(&all, i / h * n + i % h));
    if (!(far <= bound)) fail_msg("%lld: %g apart", (long long)i, far);
  }
  td_tensor again = run_real(back[axes - 1], y, axes, length);
  near(&x, &again, wide ? 1e-14 : 5e-6);
  td_tensor_release(&x);
  td_tensor_release(&y);
  td_tensor_release(&z);
  td_tensor_release(&all);
  td_tensor_release(&again);
}

static void test_reals(void **state) {
  static const int64_t sizes[][3] = {{3, 4, 30},  {3, 7, 31},  {1, 2, 512},
                                     {2, 3, 514}, {1, 2, 513}, {1, 3, 998},
                                     {1, 1, 1},   {1, 270, 2}};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(sizes); i++)
    for (int axes = 1; axes <= 3; axes++) {
      check_reals(TD_FLOAT32, axes, sizes[i]);
      check_reals(TD_FLOAT64, axes, sizes[i]);
    }
}

/* ---- the same bits ------------------------------------------------------- */

static void test_batches(void **state) {
  static const int64_t all[] = {1, 5, 8, 23, 100, 256, 257, 1000};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(all); i++) {
    int64_t n = all[i];
    td_tensor x = noise(TD_COMPLEX64, td_shape_matrix(37, n));
    td_tensor y = run("FFT", 2, x);
    for (int64_t row = 0; row < 37; row += 9) {
      td_shape s = td_shape_vector(n);
      td_tensor one;
      OK(td_tensor_from(TD_COMPLEX64, &s, (float *)x.data + 2 * row * n, &one));
      td_tensor alone = run("FFT", 1, one);
      assert_memory_equal(alone.data, (float *)y.data + 2 * row * n,
                          (size_t)n * 8);
      td_tensor_release(&one);
      td_tensor_release(&alone);
    }
    td_tensor_release(&x);
    td_tensor_release(&y);
  }
}

static void test_threads(void **state) {
  static const int64_t sizes[][2] = {{1, 70000}, {1, 70001}, {40, 1000},
                                     {300, 200}, {9000, 3},  {5000, 7}};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(sizes); i++)
    for (int k = 0; k < 2; k++) {
      const char *op = k ? "FFT2D" : "FFT";
      td_tensor x = noise(TD_COMPLEX64, td_shape_of(2, sizes[i]));
      td_tensor one = run(op, 1, x), three = run(op, 3, x);
      assert_memory_equal(one.data, three.data, td_tensor_bytes(&one));
      td_tensor_release(&x);
      td_tensor_release(&one);
      td_tensor_release(&three);
    }
}

/* ---- plans --------------------------------------------------------------- */

static void run_line(td_fft_plan *p, const td_tensor *x, void *y) {
  td_fft_line l = {.loops = p->loops,
                   .row = p->row,
                   .wide = p->kind.wide,
                   .scale = 0.5,
                   .from = x->data,
                   .to = y};
  int64_t bytes = td_fft_line_room(p->row, l.wide);
  void *room = td_aligned_alloc(TD_FFT_LINE, (size_t)bytes);
  OK(td_fft_line_run(&l, room));
  td_free(room);
}

static void test_agreement(void **state) {
  static const int64_t all[] = {256, 257, 1155, 1300};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(all); i++)
    for (int wide = 0; wide < 2; wide++) {
      td_fft_kind kind = {all[i], wide, true, false};
      td_fft_plan *p;
      td_tensor x =
          noise(wide ? TD_COMPLEX128 : TD_COMPLEX64, td_shape_vector(all[i]));
      size_t bytes = td_tensor_bytes(&x);
      char *scalar = td_malloc(bytes), *y = td_malloc(bytes);
      OK(td_fft_plan_new(&kind, &p));
      p->loops = td_fft_loops_of(wide, TD_SCALAR);
      run_line(p, &x, scalar);
      for (int isa = 1; isa <= (int)td_cpu_best(); isa++) {
        p->loops = td_fft_loops_of(wide, (td_isa)isa);
        run_line(p, &x, y);
        assert_memory_equal(y, scalar, bytes);
      }
      td_free(scalar);
      td_free(y);
      td_fft_plan_release(p);
      td_tensor_release(&x);
    }
}

/* A kernel remembers its last lengths; one in use outlives them. */
static void test_remembered(void **state) {
  td_fft_plan *first, *again, *other;
  void *plans;
  (void)state;
  OK(td_fft_plans_make(NULL, &plans));
  td_fft_kind kind = {30, false, false, false};
  OK(td_fft_plans_get(plans, &kind, &first));
  OK(td_fft_plans_get(plans, &kind, &again));
  assert_ptr_equal(first, again);
  td_fft_plan_release(again);
  kind.half = true;
  OK(td_fft_plans_get(plans, &kind, &other));
  assert_ptr_not_equal(first, other);
  td_fft_plan_release(other);
  for (kind.n = 31; kind.n < 60; kind.n++) {
    OK(td_fft_plans_get(plans, &kind, &other));
    assert_int_equal(other->kind.n, kind.n);
    td_fft_plan_release(other);
  }
  assert_int_equal(first->kind.n, 30);
  td_fft_plans_drop(plans);
  td_fft_plan_release(first);
}

static void test_no_memory(void **state) {
  static const td_fft_kind kinds[] = {{30, false, false, true},
                                      {47, true, false, false},
                                      {600, false, true, true},
                                      {521, true, true, false}};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(kinds); i++) {
    td_fft_plan *p = NULL;
    for (int64_t n = 1; !p; n++) {
      td_mem_fail(n, false);
      td_status *s = td_fft_plan_new(&kinds[i], &p);
      td_mem_fail(0, false);
      if (p)
        OK(s);
      else
        FAILS(s, TD_RESOURCE_EXHAUSTED, "memory");
    }
    td_fft_plan_release(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_length), cmocka_unit_test(test_long_lengths),
      cmocka_unit_test(test_inverse),      cmocka_unit_test(test_reals),
      cmocka_unit_test(test_batches),      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_agreement),    cmocka_unit_test(test_remembered),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
