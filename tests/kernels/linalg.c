/* linalg.c - batches of matrices through LAPACK: the same bits from any number
 * of threads, residuals, the first bad matrix named, NaN, no memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>
#include <string.h>

#include "kernels/element.h"
#include "tests/kernels/net.h"

enum { COUNT = 23, N = 40 };

static const td_dtype types[] = {TD_FLOAT32, TD_FLOAT64, TD_COMPLEX64,
                                 TD_COMPLEX128};

/* Symmetric and positive definite: every op takes them. */
static td_tensor matrices(td_dtype dtype) {
  td_tensor t = random_f(dtype, td_shape_of(3, (int64_t[]){COUNT, N, N}), 7);
  for (int64_t i = 0; i < COUNT; i++)
    for (int64_t r = 0; r < N; r++)
      for (int64_t k = 0; k <= r; k++) {
        int64_t at = (i * N + r) * N + k, other = (i * N + k) * N + r;
        double v = td_tensor_get_f(&t, at);
        td_tensor_set_f(&t, at, r == k ? v + 2 * N : v);
        td_tensor_set_f(&t, other, r == k ? v + 2 * N : v);
      }
  return t;
}

static td_tensor run_on(int threads, const char *op, const td_tensor *x) {
  net w;
  td_tensor all[3] = {0}, share; /* of an op's results the first is kept */
  net_init(&w, threads);
  td_tensor_retain(x, &share);
  td_edge in = net_feed(&w, share);
  td_edge e = net_node(&w, op, &in, 1, NULL, 0);
  OK(net_run(&w, e, all));
  for (int i = 1; i < 3; i++) td_tensor_release(&all[i]);
  net_deinit(&w);
  return all[0];
}

static void test_threads_do_not_matter(void **state) {
  static const char *const ops[] = {
      "MatrixInverse", "MatrixDeterminant", "Cholesky", "Qr",
      "Svd",           "SelfAdjointEigV2",  "Lu"};
  (void)state;
  for (size_t k = 0; k < TD_COUNT(types); k++) {
    td_tensor x = matrices(types[k]);
    for (size_t i = 0; i < TD_COUNT(ops); i++) {
      if (strcmp(ops[i], "MatrixDeterminant") == 0 &&
          td_dtype_size(types[k]) < 16 && types[k] != TD_FLOAT64)
        continue; /* a float cannot hold it */
      td_tensor one = run_on(1, ops[i], &x), many = run_on(4, ops[i], &x);
      if (!td_tensor_same(&one, &many))
        fail_msg("%s of %s: threads change its bits", ops[i],
                 td_dtype_name(types[k]));
      td_tensor_release(&one);
      td_tensor_release(&many);
    }
    td_tensor_release(&x);
  }
}

static void test_inverse_times_matrix(void **state) {
  (void)state;
  td_tensor x = matrices(TD_FLOAT64), y = run_on(2, "MatrixInverse", &x);
  const double *a = x.data, *b = y.data;
  for (int64_t i = 0; i < COUNT; i++, a += N * N, b += N * N)
    for (int64_t r = 0; r < N; r++)
      for (int64_t k = 0; k < N; k++) {
        double sum = 0;
        for (int64_t j = 0; j < N; j++) sum += a[r * N + j] * b[j * N + k];
        assert_float_equal(sum, r == k, 1e-12);
      }
  td_tensor_release(&x);
  td_tensor_release(&y);
}

static void test_first_bad_matrix_is_named(void **state) {
  (void)state;
  td_tensor x = matrices(TD_FLOAT32), y;
  net w;
  for (int64_t bad = COUNT - 1; bad >= 4; bad -= 3)
    memset((float *)x.data + bad * N * N, 0, N * N * sizeof(float));
  net_init(&w, 4);
  td_edge in = net_feed(&w, x);
  td_edge e = net_node(&w, "MatrixInverse", &in, 1, NULL, 0);
  td_status *s = net_run(&w, e, &y);
  assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
  assert_non_null(strstr(td_status_message(s), "matrix 4 of 23"));
  td_status_release(s);
  net_deinit(&w);
}

/* Element i; a real one is both parts. */
static td_c128 element(const td_tensor *t, int64_t i) {
  double x;
  if (t->dtype == TD_COMPLEX128) return ((const td_c128 *)t->data)[i];
  if (t->dtype == TD_COMPLEX64) return ((const td_c64 *)t->data)[i];
  x = td_tensor_get_f(t, i);
  return CMPLX(x, x);
}

static bool is_nan(const td_tensor *t, int64_t i) {
  return isnan(creal(element(t, i))) && isnan(cimag(element(t, i)));
}

/* LAPACK's own search would not end; other matrices are as they were. */
static void test_svd_of_infinity_and_nan(void **state) {
  (void)state;
  for (size_t k = 0; k < 2 * TD_COUNT(types); k++) {
    td_tensor x = matrices(types[k / 2]), whole = run_on(2, "Svd", &x);
    td_tensor_set_f(&x, 5 * N * N + 3 * N, k % 2 ? NAN : INFINITY);
    td_tensor y = run_on(2, "Svd", &x);
    for (int64_t i = 0; i < COUNT * N; i++)
      assert_true(i / N == 5 ? isnan(creal(element(&y, i)))
                             : element(&y, i) == element(&whole, i));
    td_tensor_release(&x);
    td_tensor_release(&y);
    td_tensor_release(&whole);
  }
}

static void test_eigenvalues_of_infinity_and_nan(void **state) {
  (void)state;
  for (size_t k = 0; k < 2 * TD_COUNT(types); k++) {
    td_tensor x = matrices(types[k / 2]), all[3] = {0};
    net w;
    td_tensor_set_f(&x, 5 * N * N + 3 * N, k % 2 ? NAN : INFINITY);
    net_init(&w, 2);
    td_edge in = net_feed(&w, x);
    td_status *s =
        net_run(&w, net_node(&w, "SelfAdjointEigV2", &in, 1, NULL, 0), all);
    assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
    assert_non_null(strstr(td_status_message(s), "matrix 5 of 23"));
    td_status_release(s);
    for (int i = 0; i < 3; i++) td_tensor_release(&all[i]);
    net_deinit(&w);
  }
}

/* NaN in the lower triangle, both parts of it, and 0 above; TensorFlow leaves
 * there what was in memory. */
static void test_cholesky_of_no_positive_matrix(void **state) {
  (void)state;
  for (size_t k = 0; k < TD_COUNT(types); k++) {
    td_tensor x = matrices(types[k]), whole = run_on(2, "Cholesky", &x);
    td_tensor_set_f(&x, 7 * N * N + (N - 2) * (N + 1), -1);
    td_tensor y = run_on(2, "Cholesky", &x);
    for (int64_t i = 0; i < COUNT * N * N; i++)
      if (i / (N * N) != 7)
        assert_true(element(&y, i) == element(&whole, i));
      else if (i % N > i / N % N)
        assert_true(element(&y, i) == 0);
      else
        assert_true(is_nan(&y, i));
    td_tensor_release(&x);
    td_tensor_release(&y);
    td_tensor_release(&whole);
  }
}

/* Pivots by |z|, through panels and halves: no element of L is larger than 1,
 * and the product is the matrix. */
static void test_lu_of_complex_matrices(void **state) {
  (void)state;
  td_tensor x = random_f(TD_COMPLEX128,
                         td_shape_of(3, (int64_t[]){COUNT, N, N}), 3),
            all[3] = {0};
  td_c128 *z = x.data;
  for (int64_t i = 0; i < COUNT * N * N; i++)
    z[i] = creal(z[i]) + I * creal(z[(i * 7 + 5) % (COUNT * N * N)]);
  net w;
  net_init(&w, 2);
  td_tensor share;
  td_tensor_retain(&x, &share);
  td_edge in = net_feed(&w, share);
  OK(net_run(&w, net_node(&w, "Lu", &in, 1, NULL, 0), all));
  const td_c128 *lu = all[0].data;
  const int32_t *p = all[1].data;
  for (int64_t m = 0; m < COUNT; m++, lu += N * N, p += N, z += N * N)
    for (int64_t i = 0; i < N; i++)
      for (int64_t j = 0; j < N; j++) {
        td_c128 sum = i <= j ? lu[i * N + j] : 0;
        for (int64_t k = 0; k < i && k <= j; k++)
          sum += lu[i * N + k] * lu[k * N + j];
        assert_true(cabs(sum - z[p[i] * N + j]) < 1e-12);
        if (j < i) assert_true(cabs(lu[i * N + j]) <= 1 + 1e-15);
      }
  td_tensor_release(&all[0]);
  td_tensor_release(&all[1]);
  td_tensor_release(&x);
  net_deinit(&w);
}

/* Fails one allocation after another until the op succeeds. */
static void starve(const char *op) {
  td_status *s = NULL;
  net w;
  net_init(&w, 2);
  td_edge in = net_feed(&w, matrices(TD_FLOAT64));
  td_edge e = net_node(&w, op, &in, 1, NULL, 0);
  for (int64_t n = 1; n == 1 || s; n++) {
    td_tensor all[3] = {0};
    td_status_release(s);
    td_mem_fail(n, false);
    s = net_run(&w, e, all);
    td_mem_fail(0, false);
    for (int i = 0; i < 3; i++) td_tensor_release(&all[i]);
    assert_true(!s || td_status_code(s) == TD_RESOURCE_EXHAUSTED);
    assert_true(n < 1000);
  }
  net_deinit(&w);
}

static void test_no_memory(void **state) {
  static const char *const ops[] = {
      "MatrixInverse", "Lu", "Cholesky", "Qr", "Svd", "SelfAdjointEigV2"};
  (void)state;
  for (size_t i = 0; i < TD_COUNT(ops); i++) starve(ops[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads_do_not_matter),
      cmocka_unit_test(test_inverse_times_matrix),
      cmocka_unit_test(test_first_bad_matrix_is_named),
      cmocka_unit_test(test_svd_of_infinity_and_nan),
      cmocka_unit_test(test_eigenvalues_of_infinity_and_nan),
      cmocka_unit_test(test_cholesky_of_no_positive_matrix),
      cmocka_unit_test(test_lu_of_complex_matrices),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests_name("linalg", tests, NULL, NULL);
}
