/* doors.c - OpenBLAS and oneDNN called from many threads at once.
 *
 * A build of OpenBLAS that is not safe gives wrong results here within seconds,
 * hence the comparison by bits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdlib.h>

#include "kernels/blas/blas.h"
#include "kernels/blas/dnn.h"
#include "kernels/blas/gemm.h"
#include "tests/kernels/net.h"

enum { CALLERS = 8, ROUNDS = 40, SIZES = 5 };
static const int sizes[SIZES] = {7, 33, 64, 150, 201};

typedef struct problem {
  td_tensor a, b, c; /* c: what one thread computed */
  int n;
} problem;

static td_product product_of(const problem *p, void *c) {
  return (td_product){.dtype = p->a.dtype,
                      .m = p->n,
                      .n = p->n,
                      .k = p->n,
                      .a = p->a.data,
                      .b = p->b.data,
                      .c = c,
                      .lda = p->n,
                      .ldb = p->n,
                      .ldc = p->n,
                      .trans_b = p->n % 2};
}

static td_status *run_by(net *w, td_gemm_way way, const td_product *p) {
  static const bool host[4] = {true, true, true, true};
  td_kernel k = {.device = w->device, .in_host = host, .out_host = host};
  td_kernel_ctx c = {.kernel = &k, .step = &w->step};
  return td_gemm_by(&c, way, p, 1, NULL);
}

static void make(problem *p, net *w, td_gemm_way way, td_dtype dtype, int n) {
  td_shape shape = td_shape_matrix(n, n);
  p->n = n;
  p->a = random_f(dtype, shape, 1);
  p->b = random_f(dtype, shape, 2);
  OK(td_tensor_new(NULL, dtype, &shape, &p->c));
  td_product product = product_of(p, p->c.data);
  OK(run_by(w, way, &product));
}

static void drop(problem *p) {
  td_tensor_release(&p->a);
  td_tensor_release(&p->b);
  td_tensor_release(&p->c);
}

typedef struct caller {
  net *w;
  td_gemm_way way;
  const problem *problems;
  int first, wrong;
} caller;

static void *call_many(void *arg) {
  caller *c = arg;
  for (int i = 0; i < ROUNDS * SIZES; i++) {
    const problem *p = &c->problems[(c->first + i) % SIZES];
    size_t bytes = td_tensor_bytes(&p->c);
    void *result = malloc(bytes);
    td_product product = product_of(p, result);
    td_status *s = run_by(c->w, c->way, &product);
    if (s || memcmp(result, p->c.data, bytes) != 0) c->wrong++;
    td_status_release(s);
    free(result);
  }
  return NULL;
}

static void hammer(td_gemm_way way, td_dtype dtype) {
  net w;
  problem problems[SIZES];
  caller callers[CALLERS];
  pthread_t threads[CALLERS];
  net_init(&w, 1);
  for (int i = 0; i < SIZES; i++) make(&problems[i], &w, way, dtype, sizes[i]);
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = (caller){&w, way, problems, i, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, call_many, &callers[i]),
                     0);
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(callers[i].wrong, 0);
  }
  for (int i = 0; i < SIZES; i++) drop(&problems[i]);
  net_deinit(&w);
}

static void test_blas(void **state) {
  (void)state;
  print_message("%s\n", td_blas_about());
  if (!td_blas_ready()) skip();
  hammer(TD_GEMM_BLAS, TD_FLOAT32);
  hammer(TD_GEMM_BLAS, TD_FLOAT64);
  hammer(TD_GEMM_BLAS, TD_COMPLEX64);
  hammer(TD_GEMM_BLAS, TD_COMPLEX128);
  assert_non_null(td_blas_routine("dgesv_"));
  assert_null(td_blas_routine("no_such_routine_"));
  assert_null(getenv("OPENBLAS_NUM_THREADS"));
}

static void test_dnn(void **state) {
  (void)state;
  print_message("%s\n", td_dnn_about());
  if (!td_dnn_ready()) skip();
  hammer(TD_GEMM_DNN, TD_FLOAT32);
}

/* More shapes than the cache keeps; the first is right when made again. */
static void test_cache(void **state) {
  (void)state;
  enum { SHAPES = 300 };
  net w;
  problem p;
  if (!td_dnn_ready()) skip();
  net_init(&w, 1);
  make(&p, &w, TD_GEMM_DNN, TD_FLOAT32, 37);
  int64_t made = td_dnn_read_stats().made;
  td_product product = product_of(&p, p.c.data);
  OK(run_by(&w, TD_GEMM_DNN, &product));
  assert_int_equal(td_dnn_read_stats().made, made); /* kept */
  for (int k = 1; k <= SHAPES; k++) {
    product.m = 1 + k % 30;
    product.k = 1 + k / 30;
    OK(run_by(&w, TD_GEMM_DNN, &product));
  }
  assert_true(td_dnn_read_stats().kept < SHAPES);
  made = td_dnn_read_stats().made;
  td_tensor again;
  OK(td_tensor_new(NULL, TD_FLOAT32, &p.c.shape, &again));
  product = product_of(&p, again.data);
  OK(run_by(&w, TD_GEMM_DNN, &product));
  assert_true(td_dnn_read_stats().made > made);
  product = product_of(&p, p.c.data);
  OK(run_by(&w, TD_GEMM_DNN, &product));
  assert_true(td_tensor_same(&again, &p.c));
  td_tensor_release(&again);
  drop(&p);
  net_deinit(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_blas),
      cmocka_unit_test(test_dnn),
      cmocka_unit_test(test_cache),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
