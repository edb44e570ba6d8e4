/* matmul.c - products against sums in double, by every way there is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <complex.h>
#include <math.h>

#include "kernels/blas/blas.h"
#include "kernels/blas/dnn.h"
#include "kernels/blas/gemm.h"
#include "kernels/blas/gemm_tile.h"
#include "tests/kernels/net.h"

typedef double complex number;

static number at(const td_tensor *t, int64_t i) {
  if (t->dtype == TD_COMPLEX64) return ((float complex *)t->data)[i];
  if (t->dtype == TD_COMPLEX128) return ((double complex *)t->data)[i];
  if (td_dtype_is_integer(t->dtype)) return (double)td_tensor_get_i(t, i);
  return td_tensor_get_f(t, i);
}

/* Of one rounding of a sum of k terms of size 1. */
static double tolerance(td_dtype t, int64_t k) {
  double unit = t == TD_FLOAT64 || t == TD_COMPLEX128 ? 0x1p-52
                : t == TD_FLOAT16                     ? 0x1p-10
                : t == TD_BFLOAT16                    ? 0x1p-7
                : td_dtype_is_integer(t)              ? 0
                                                      : 0x1p-23;
  if (td_dtype_is_complex(t)) k *= 4; /* products for each */
  return unit * (4 + (double)k);
}

static td_tensor operand(td_dtype dtype, td_shape shape, uint64_t seed) {
  int64_t below = dtype == TD_INT16 ? 5 : 100; /* so that no sum wraps */
  return td_dtype_is_integer(dtype) ? random_i(dtype, shape, seed, below)
                                    : random_f(dtype, shape, seed);
}

/* ---- one product, by a way ----------------------------------------------- */

typedef struct sizes {
  int64_t m, n, k;
  bool ta, tb;
} sizes;

typedef struct product {
  td_tensor a, b, c;
  td_product p;
} product;

static product make(td_dtype dtype, sizes s) {
  product r;
  td_shape c = td_shape_matrix(s.m, s.n);
  r.a = operand(
      dtype, s.ta ? td_shape_matrix(s.k, s.m) : td_shape_matrix(s.m, s.k), 1);
  r.b = operand(
      dtype, s.tb ? td_shape_matrix(s.n, s.k) : td_shape_matrix(s.k, s.n), 2);
  OK(td_tensor_new(NULL, dtype, &c, &r.c));
  memset(r.c.data, 0xff, td_tensor_bytes(&r.c)); /* NaN: all must be written */
  r.p = (td_product){.dtype = dtype,
                     .m = s.m,
                     .n = s.n,
                     .k = s.k,
                     .a = r.a.data,
                     .b = r.b.data,
                     .c = r.c.data,
                     .lda = s.ta ? s.m : s.k,
                     .ldb = s.tb ? s.n == 0 ? 1 : s.k : s.n,
                     .ldc = s.n,
                     .trans_a = s.ta,
                     .trans_b = s.tb,
                     .conj_a = s.ta && td_dtype_is_complex(dtype),
                     .conj_b = s.tb && td_dtype_is_complex(dtype)};
  return r;
}

static void drop(product *r) {
  td_tensor_release(&r->a);
  td_tensor_release(&r->b);
  td_tensor_release(&r->c);
}

static number wanted(const product *r, int64_t i, int64_t j) {
  const td_product *p = &r->p;
  number sum = 0;
  for (int64_t q = 0; q < p->k; q++) {
    number x = at(&r->a, p->trans_a ? q * p->lda + i : i * p->lda + q);
    number y = at(&r->b, p->trans_b ? j * p->ldb + q : q * p->ldb + j);
    sum += (p->conj_a ? conj(x) : x) * (p->conj_b ? conj(y) : y);
  }
  return sum;
}

static void check(const product *r, const char *what) {
  const td_product *p = &r->p;
  double allowed = tolerance(p->dtype, p->k);
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      number got = at(&r->c, i * p->n + j), want = wanted(r, i, j);
      if (!(cabs(got - want) <= allowed))
        fail_msg("%s %s %d x %d x %d%s%s: element %d, %d is %.9g, not %.9g",
                 what, td_dtype_name(p->dtype), (int)p->m, (int)p->n, (int)p->k,
                 p->trans_a ? " a^T" : "", p->trans_b ? " b^T" : "", (int)i,
                 (int)j, creal(got), creal(want));
    }
}

static void run_by(net *w, td_gemm_way way, const td_product *p) {
  static const bool host[4] = {true, true, true, true};
  td_kernel k = {.device = w->device, .in_host = host, .out_host = host};
  td_kernel_ctx c = {.kernel = &k, .step = &w->step};
  OK(td_gemm_by(&c, way, p, 1, NULL));
}

static const sizes all_sizes[] = {
    {1, 1, 1, 0, 0},     {1, 17, 3, 0, 0},    {17, 1, 33, 0, 0},
    {1, 1, 300, 0, 0},   {5, 1, 515, 0, 0},   {1, 70, 129, 0, 0},
    {7, 9, 11, 0, 0},    {8, 16, 32, 0, 0},   {6, 32, 256, 0, 0},
    {9, 33, 257, 0, 0},  {40, 48, 70, 0, 0},  {17, 31, 600, 0, 0},
    {64, 64, 64, 0, 0},  {130, 50, 20, 0, 0}, {20, 300, 40, 0, 0},
    {150, 290, 1, 0, 0}, {3, 5, 0, 0, 0},     {66, 97, 64, 0, 0},
};

static bool has_way(td_gemm_way way, td_dtype t) {
  bool real = t == TD_FLOAT32 || t == TD_FLOAT64;
  if (way == TD_GEMM_TILE) return real;
  if (way == TD_GEMM_BLAS)
    return td_blas_ready() && (real || td_dtype_is_complex(t));
  if (way == TD_GEMM_DNN) return td_dnn_ready() && t == TD_FLOAT32;
  return true;
}

static void test_ways(void **state) {
  (void)state;
  static const td_dtype dtypes[] = {TD_FLOAT32,    TD_FLOAT64, TD_COMPLEX64,
                                    TD_COMPLEX128, TD_INT16,   TD_INT32,
                                    TD_INT64};
  static const char *const names[] = {"loops", "tiles", "OpenBLAS", "oneDNN"};
  net w;
  net_init(&w, 2);
  for (size_t d = 0; d < TD_COUNT(dtypes); d++)
    for (td_gemm_way way = TD_GEMM_LOOP; way <= TD_GEMM_DNN; way++)
      for (size_t i = 0; i < 4 * TD_COUNT(all_sizes); i++) {
        sizes s = all_sizes[i / 4];
        s.ta = i & 1;
        s.tb = i & 2;
        if (!has_way(way, dtypes[d])) continue;
        if (way != TD_GEMM_LOOP && s.k == 0) continue;
        product r = make(dtypes[d], s);
        run_by(&w, way, &r.p);
        check(&r, names[way]);
        drop(&r);
      }
  net_deinit(&w);
}

/* Few elements of C, so that k is cut. */
static void test_long(void **state) {
  (void)state;
  static const td_dtype dtypes[] = {TD_FLOAT32, TD_INT64};
  static const sizes s[] = {
      {3, 5, 300001, 0, 0}, {3, 5, 300001, 1, 1}, {1, 1, 4300000, 0, 1}};
  net w;
  net_init(&w, 2);
  for (size_t i = 0; i < TD_COUNT(dtypes) * TD_COUNT(s); i++)
    for (td_gemm_way way = TD_GEMM_LOOP; way <= TD_GEMM_DNN; way++) {
      td_dtype dtype = dtypes[i % TD_COUNT(dtypes)];
      if (!has_way(way, dtype)) continue;
      product r = make(dtype, s[i / TD_COUNT(dtypes)]);
      run_by(&w, way, &r.p);
      check(&r, "long");
      drop(&r);
    }
  net_deinit(&w);
}

/* ---- bits ---------------------------------------------------------------- */

static void *scratch_of(td_tensor *t) {
  td_shape shape = td_shape_vector(TD_GEMM_TILE_SCRATCH);
  OK(td_tensor_new(NULL, TD_UINT8, &shape, t));
  return t->data;
}

static td_tensor tiled(const product *r, td_isa isa, bool pack) {
  td_tensor scratch, copy;
  void *memory = scratch_of(&scratch);
  td_gemm_tile_multiply(&r->p, isa, pack ? memory : NULL);
  OK(td_tensor_copy(&r->c, &copy));
  td_tensor_release(&scratch);
  return copy;
}

/* Every instruction set against plain sums; AVX2 and AVX-512 by bits. */
static void test_instruction_sets(void **state) {
  (void)state;
  static const td_dtype dtypes[] = {TD_FLOAT32, TD_FLOAT64};
  td_isa best = td_cpu_best();
  for (size_t i = 0; i < 4 * TD_COUNT(all_sizes) * 2; i++) {
    sizes s = all_sizes[i / 8];
    s.ta = i & 1;
    s.tb = i & 2;
    if (s.k == 0) continue;
    product r = make(dtypes[i / 4 % 2], s);
    td_tensor by[3];
    for (td_isa isa = TD_SCALAR; isa <= best; isa++) {
      td_tensor unpacked = tiled(&r, isa, false);
      by[isa] = tiled(&r, isa, true);
      check(&r, td_isa_name(isa));
      assert_true(td_tensor_same(&unpacked, &by[isa]));
      td_tensor_release(&unpacked);
    }
    if (best >= TD_AVX512)
      assert_true(td_tensor_same(&by[TD_AVX2], &by[TD_AVX512]));
    for (td_isa isa = TD_SCALAR; isa <= best; isa++)
      td_tensor_release(&by[isa]);
    drop(&r);
  }
  if (best < TD_AVX512) skip();
}

/* A part of C has the bits it has in the whole. */
static void test_tiles_of_panels(void **state) {
  (void)state;
  sizes s = {90, 110, 300, false, false};
  product r = make(TD_FLOAT32, s);
  td_tensor whole = tiled(&r, td_cpu_isa(), true);
  td_product part = r.p;
  memset(r.c.data, 0xff, td_tensor_bytes(&r.c));
  part.m = 41;
  part.n = 37;
  part.a = (const float *)part.a + 20 * part.lda;
  part.b = (const float *)part.b + 50;
  part.c = (float *)part.c + 20 * part.ldc + 50;
  td_gemm_tile_multiply(&part, td_cpu_isa(), NULL);
  for (int i = 0; i < 41; i++)
    assert_memory_equal((float *)r.c.data + (20 + i) * 110 + 50,
                        (float *)whole.data + (20 + i) * 110 + 50,
                        37 * sizeof(float));
  td_tensor_release(&whole);
  drop(&r);
}

/* Sizes that every way cuts into panels. */
static void test_threads(void **state) {
  (void)state;
  static const sizes cut[] = {{120, 500, 110, 0, 0}, {500, 120, 110, 1, 0},
                              {150, 233, 155, 0, 1}, {1, 5000, 900, 0, 0},
                              {4000, 1, 1100, 0, 0}, {1500, 10, 300, 0, 0},
                              {7, 9, 100000, 0, 0}};
  static const td_dtype dtypes[] = {TD_FLOAT32, TD_FLOAT64, TD_COMPLEX64,
                                    TD_INT32};
  net w;
  net_init(&w, 1);
  for (size_t i = 0; i < TD_COUNT(cut) * TD_COUNT(dtypes); i++) {
    td_dtype dtype = dtypes[i % TD_COUNT(dtypes)];
    product r = make(dtype, cut[i / TD_COUNT(dtypes)]);
    for (td_gemm_way way = TD_GEMM_LOOP; way <= TD_GEMM_DNN; way++) {
      td_tensor one;
      if (!has_way(way, dtype)) continue;
      w.step.threads = 1;
      run_by(&w, way, &r.p);
      OK(td_tensor_copy(&r.c, &one));
      w.step.threads = 4;
      for (int again = 0; again < 2; again++) {
        memset(r.c.data, 0xff, td_tensor_bytes(&r.c));
        run_by(&w, way, &r.p);
        assert_true(td_tensor_same(&r.c, &one));
      }
      td_tensor_release(&one);
    }
    drop(&r);
  }
  net_deinit(&w);
}

/* ---- the ops ------------------------------------------------------------- */

static td_status *multiply(net *w, const char *op, td_tensor a, td_tensor b,
                           const char *first, bool ta, const char *second,
                           bool tb, td_tensor *out) {
  td_note attrs[] = {{first, td_attr_bool(ta)}, {second, td_attr_bool(tb)}};
  td_edge in[] = {net_feed(w, a), net_feed(w, b)}, e;
  TD_TRY(net_try(w, op, in, 2, attrs, 2, &e));
  return net_run(w, e, out);
}

static void test_matmul(void **state) {
  (void)state;
  static const td_dtype dtypes[] = {TD_FLOAT32,    TD_FLOAT64, TD_COMPLEX64,
                                    TD_COMPLEX128, TD_INT32,   TD_INT64,
                                    TD_FLOAT16,    TD_BFLOAT16};
  static const sizes s[] = {
      {2, 3, 4, 0, 0}, {33, 65, 70, 0, 0}, {4, 0, 3, 0, 0}, {2, 3, 0, 0, 0}};
  for (size_t i = 0; i < TD_COUNT(dtypes) * TD_COUNT(s) * 4; i++) {
    net w;
    net_init(&w, 2);
    sizes z = s[i / 4 % TD_COUNT(s)];
    z.ta = i & 1;
    z.tb = i & 2;
    product r = make(dtypes[i / 4 / TD_COUNT(s)], z);
    td_tensor a, b;
    r.p.conj_a = r.p.conj_b = false; /* MatMul transposes only */
    td_tensor_retain(&r.a, &a);
    td_tensor_retain(&r.b, &b);
    td_tensor_release(&r.c);
    OK(multiply(&w, "MatMul", a, b, "transpose_a", z.ta, "transpose_b", z.tb,
                &r.c));
    assert_int_equal(r.c.shape.dim[0], z.m);
    assert_int_equal(r.c.shape.dim[1], z.n);
    check(&r, "MatMul");
    drop(&r);
    net_deinit(&w);
  }
}

static td_shape shape4(int64_t a, int64_t b, int64_t c, int64_t d) {
  return td_shape_of(4, (int64_t[]){a, b, c, d});
}

/* {2, 1, m, k} by {3, k, n}: six products, each checked by itself. */
static void test_batches(void **state) {
  (void)state;
  static const td_dtype dtypes[] = {TD_FLOAT32, TD_COMPLEX64, TD_INT64,
                                    TD_FLOAT16};
  enum { M = 5, N = 7, K = 6 };
  for (size_t i = 0; i < TD_COUNT(dtypes) * 4; i++) {
    td_dtype t = dtypes[i / 4];
    bool ta = i & 1, tb = i & 2;
    size_t size = td_dtype_size(t);
    net w;
    net_init(&w, 2);
    td_shape sa = ta ? shape4(2, 1, K, M) : shape4(2, 1, M, K);
    td_shape sb = td_shape_of(3, (int64_t[]){3, tb ? N : K, tb ? K : N});
    td_tensor a = operand(t, sa, 1), b = operand(t, sb, 2), a2, b2, c;
    td_tensor_retain(&a, &a2);
    td_tensor_retain(&b, &b2);
    OK(multiply(&w, "BatchMatMulV2", a, b, "adj_x", ta, "adj_y", tb, &c));
    td_shape want = shape4(2, 3, M, N);
    assert_true(td_shape_equal(&c.shape, &want));
    for (size_t q = 0; q < 6; q++) {
      product r = make(t, (sizes){M, N, K, ta, tb});
      memcpy(r.a.data, (char *)a2.data + q / 3 * M * K * size, M * K * size);
      memcpy(r.b.data, (char *)b2.data + q % 3 * K * N * size, K * N * size);
      memcpy(r.c.data, (char *)c.data + q * M * N * size, M * N * size);
      check(&r, "BatchMatMulV2");
      drop(&r);
    }
    td_tensor_release(&a2);
    td_tensor_release(&b2);
    td_tensor_release(&c);
    net_deinit(&w);
  }
}

static void expect_error(const char *op, td_shape a, td_shape b,
                         const char *part) {
  bool batch = strcmp(op, "MatMul") != 0;
  td_tensor out;
  net w;
  net_init(&w, 1);
  FAILS(multiply(&w, op, random_f(TD_FLOAT32, a, 1), random_f(TD_FLOAT32, b, 2),
                 batch ? "adj_x" : "transpose_a", false,
                 batch ? "adj_y" : "transpose_b", true, &out),
        TD_INVALID_ARGUMENT, part);
  net_deinit(&w);
}

static void test_errors(void **state) {
  (void)state;
  td_shape two = td_shape_matrix(2, 3), other = td_shape_matrix(2, 4);
  expect_error(
      "MatMul", two, other,
      "cannot multiply {2, 3} by {2, 4} transposed: 3 columns, 4 rows");
  expect_error("MatMul", td_shape_vector(3), two, "a must be of rank 2");
  expect_error("MatMul", two, shape4(1, 1, 2, 3), "b must be of rank 2");
  expect_error("BatchMatMulV2", two, td_shape_vector(3),
               "y must be of rank 2 or more");
  expect_error("BatchMatMulV2", shape4(2, 3, 2, 3), shape4(2, 2, 2, 3),
               "do not broadcast");
  expect_error("BatchMatMul", shape4(2, 3, 2, 3), shape4(2, 1, 2, 3),
               "must be equal");
}

static void test_no_memory(void **state) {
  (void)state;
  static const td_dtype dtypes[] = {TD_FLOAT32, TD_FLOAT64, TD_FLOAT16};
  net w;
  net_init(&w, 2);
  for (size_t i = 0; i < TD_COUNT(dtypes); i++) {
    td_shape many = td_shape_of(3, (int64_t[]){3, 120, 120});
    td_edge in[] = {net_feed(&w, random_f(dtypes[i], many, 1)),
                    net_feed(&w, random_f(dtypes[i], many, 2))};
    net_starve(&w, net_node(&w, "BatchMatMul", in, 2, NULL, 0));
    td_edge thin[] = {
        net_feed(&w, random_f(dtypes[i], td_shape_matrix(2, 1500000), 1)),
        net_feed(&w, random_f(dtypes[i], td_shape_matrix(1500000, 2), 2))};
    net_starve(&w, net_node(&w, "MatMul", thin, 2, NULL, 0));
  }
  net_deinit(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ways),
      cmocka_unit_test(test_long),
      cmocka_unit_test(test_instruction_sets),
      cmocka_unit_test(test_tiles_of_panels),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_matmul),
      cmocka_unit_test(test_batches),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
