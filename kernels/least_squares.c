/* least_squares.c - MatrixSolveLs: X with the least |A X - B|^2 + l |X|^2.
 *
 * Fast: through the product of A with itself and its Cholesky factor, which
 * squares the condition of A. Otherwise through an orthogonal factorisation
 * that finds the rank; l is then left aside, as in TensorFlow. NaN or infinity
 * in A gives NaN, where TensorFlow's second way answers 0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <string.h>

#include "kernels/element.h"
#include "kernels/linalg.h"
#include "kernels/array.h"

typedef struct job {
  const td_tensor *matrix, *rhs;
  td_tensor *out;
  double regularizer;
  int lwork;
  size_t a, b, g, x, pivots, work, rwork; /* places in the working memory */
} job;

/* C (rows x cols) = op(A) op(B), over `inner`. */
static void multiply(const td_linalg *l, const char *op_a, const char *op_b,
                     int rows, int cols, int inner, const void *a, int lda,
                     const void *b, int ldb, void *c) {
  static const td_c64 one = 1, zero = 0;
  static const td_c128 one_d = 1, zero_d = 0;
  bool wide = l->real == TD_FLOAT64; /* a real number begins a complex one */
  l->call->gemm(op_a, op_b, &rows, &cols, &inner,
                wide ? (const void *)&one_d : &one, a, &lda, b, &ldb,
                wide ? (const void *)&zero_d : &zero, c, &rows, 1, 1);
}

static void add_to_diagonal(const td_linalg *l, void *g, int n, double v) {
  size_t parts = l->size / td_dtype_size(l->real);
  for (int i = 0; i < n; i++) {
    size_t at = parts * (size_t)i * ((size_t)n + 1);
    if (l->real == TD_FLOAT64)
      ((double *)g)[at] += v;
    else
      ((float *)g)[at] += (float)v;
  }
}

/* ---- the two ways -------------------------------------------------------- */

static int no_number(const td_linalg *l, const job *j, int64_t i, void *x) {
  td_linalg_nan(l, l->n * l->k, x);
  td_linalg_store(l, x, l->n, l->k, l->n, false, j->out, i);
  return 0;
}

static int fast_one(const td_linalg *l, int64_t i, void *work) {
  const job *j = l->arg;
  char *at = work, *a = at + j->a, *b = at + j->b, *g = at + j->g;
  int m = (int)l->m, n = (int)l->n, k = (int)l->k, info = 0;
  bool tall = m >= n;
  int least = tall ? n : m;
  char *x = at + j->x, *right = tall ? x : b;
  td_linalg_load(l, j->matrix, i, m, n, false, a);
  td_linalg_load(l, j->rhs, i, m, k, false, b);
  multiply(l, tall ? "C" : "N", tall ? "N" : "C", least, least, tall ? m : n, a,
           m, a, m, g);
  add_to_diagonal(l, g, least, j->regularizer);
  l->call->potrf("L", &least, g, &least, &info, 1);
  if (info != 0 && td_linalg_finite(l, (int64_t)m * n, a))
    return TD_LINALG_FAILED;
  if (info != 0) return no_number(l, j, i, x);
  if (tall) multiply(l, "C", "N", n, k, m, a, m, b, m, x);
  l->call->potrs("L", &least, &k, g, &least, right, &least, &info, 1);
  if (!tall) multiply(l, "C", "N", n, k, m, a, m, b, m, x);
  td_linalg_store(l, x, n, k, n, false, j->out, i);
  return info;
}

static int decompose(const td_linalg *l, const job *j, char *at, int lwork) {
  int m = (int)l->m, n = (int)l->n, k = (int)l->k, info = 0, rank = 0;
  int ldb = m > n ? m : n, *pivots = (int *)(at + j->pivots);
  double small = DBL_EPSILON * (m < n ? m : n);
  float small_f = FLT_EPSILON * (float)(m < n ? m : n);
  const void *least =
      l->real == TD_FLOAT64 ? (const void *)&small : (const void *)&small_f;
  if (l->call->gelsy)
    l->call->gelsy(&m, &n, &k, at + j->a, &m, at + j->b, &ldb, pivots, least,
                   &rank, at + j->work, &lwork, &info);
  else
    l->call->gelsy_complex(&m, &n, &k, at + j->a, &m, at + j->b, &ldb, pivots,
                           least, &rank, at + j->work, &lwork, at + j->rwork,
                           &info);
  return info;
}

static int slow_one(const td_linalg *l, int64_t i, void *work) {
  const job *j = l->arg;
  char *at = work, *b = at + j->b, *x = at + j->x;
  int64_t m = l->m, n = l->n, k = l->k, ldb = m > n ? m : n;
  td_linalg_load(l, j->matrix, i, m, n, false, at + j->a);
  td_linalg_load(l, j->rhs, i, m, k, false, x);
  if (!td_linalg_finite(l, m * n, at + j->a)) return no_number(l, j, i, x);
  for (int64_t c = 0; c < k; c++) /* columns further apart */
    memcpy(b + (size_t)(c * ldb) * l->size, x + (size_t)(c * m) * l->size,
           (size_t)m * l->size);
  for (int64_t c = 0; c < n; c++) ((int *)(at + j->pivots))[c] = 0;
  if (decompose(l, j, at, j->lwork) != 0) return TD_LINALG_FAILED;
  td_linalg_store(l, b, n, k, ldb, false, j->out, i);
  return 0;
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *shape_of(const td_shape *a, const td_shape *b,
                           td_shape *out) {
  td_shape_text at, bt;
  td_shape x = *a, y = *b;
  *out = td_shape_unknown();
  TD_TRY(td_linalg_matrices(a, "matrix"));
  TD_TRY(td_linalg_matrices(b, "rhs"));
  if (a->rank < 0 || b->rank < 0) return NULL;
  x.rank -= 1; /* the axes before and the rows are shared */
  y.rank -= 1;
  if (!td_shape_merge(&x, &y, out))
    return td_error(TD_INVALID_ARGUMENT,
                    "matrix %s and rhs %s must agree in their rows and the "
                    "axes before",
                    td_shape_str(a, &at), td_shape_str(b, &bt));
  out->dim[out->rank - 1] = a->dim[a->rank - 1];
  out->dim[out->rank++] = b->dim[b->rank - 1];
  return NULL;
}

static td_status *infer(td_infer *c) {
  td_shape out;
  TD_TRY(td_infer_rank(c, 2, 0, "l2_regularizer", NULL));
  TD_TRY(shape_of(td_infer_in(c, 0), td_infer_in(c, 1), &out));
  td_infer_out(c, 0, out);
  return NULL;
}

/* ---- running ------------------------------------------------------------- */

static td_status *plan(td_linalg *l, job *j, bool fast) {
  TD_TRY(td_linalg_begin(l));
  int64_t least = l->m < l->n ? l->m : l->n, most = l->m < l->n ? l->n : l->m;
  td_c128 answer = 0;
  job ask = *j;
  if (!fast) decompose(l, &ask, (char *)&answer, -1);
  int64_t lwork = fast ? 0 : td_linalg_asked(l, &answer);
  if (lwork > INT32_MAX || !td_linalg_room(l, l->m * l->n, l->size, &j->a) ||
      !td_linalg_room(l, most * l->k, l->size, &j->b) ||
      !td_linalg_room(l, least * least, l->size, &j->g) ||
      !td_linalg_room(l, most * l->k, l->size, &j->x) ||
      !td_linalg_room(l, l->n, sizeof(int), &j->pivots) ||
      !td_linalg_room(l, lwork, l->size, &j->work) ||
      !td_linalg_room(l, 2 * l->n, sizeof(double), &j->rwork))
    return td_linalg_too_large(l);
  j->lwork = (int)lwork;
  return NULL;
}

/* Without rows nothing is asked of X: zeros are the shortest. */
static td_status *run(td_kernel_ctx *c) {
  bool fast = td_node_bool(td_ctx_node(c), "fast");
  job j = {.matrix = td_in(c, 0), .rhs = td_in(c, 1)};
  td_shape out;
  if (td_in(c, 2)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "l2_regularizer must be a scalar");
  j.regularizer = td_tensor_get_f(td_in(c, 2), 0);
  if (!(j.regularizer >= 0))
    return td_error(TD_INVALID_ARGUMENT,
                    "l2_regularizer must not be negative, given %g",
                    j.regularizer);
  TD_TRY(shape_of(&j.matrix->shape, &j.rhs->shape, &out));
  TD_TRY(td_array_count(&out, NULL));
  TD_TRY(td_out(c, 0, &out, &j.out));
  if (td_tensor_count(j.out) == 0) return NULL;
  const td_shape *a = &j.matrix->shape;
  td_linalg l = {.one = fast ? fast_one : slow_one,
                 .from = j.out->dtype,
                 .count = td_linalg_count(a),
                 .m = a->dim[a->rank - 2],
                 .n = a->dim[a->rank - 1],
                 .k = out.dim[out.rank - 1],
                 .fault = fast ? "is of deficient rank, or nearly: use fast = "
                                 "false or an l2_regularizer"
                               : "gives no answer",
                 .arg = &j};
  memset(j.out->data, 0, td_tensor_bytes(j.out));
  if (l.m == 0) return NULL;
  TD_TRY(plan(&l, &j, fast));
  return td_linalg_run(c, &l);
}

/* ---- cost -----------------------------------------------------------------
 */

/* Householder's R, and it applied to the right side. */
static void least_cost(td_infer *c, td_cost *cost) {
  double columns = td_infer_size(td_infer_in(c, 0), -1);
  cost->flops =
      2 * td_linalg_cube(c, 0) + 4 * td_infer_in_count(c, 1) * columns;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "MatrixSolveLs",
     .sig = "matrix: T, rhs: T, l2_regularizer: double -> output: T; "
            "T: {double, float, half, complex64, complex128}; "
            "fast: bool = true",
     .shape = infer,
     .cost = least_cost,
     .doc = "X with the least squares of matrix X - rhs and, times "
            "l2_regularizer, of X.",
     .host = "l2_regularizer",
     .section = "Matrix / linear algebra"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "MatrixSolveLs",
     .device = "CPU",
     .types = "T=float|double|complex64|complex128",
     .run = run},
    {0},
};

TD_MODULE(least_squares, ops, kernels)
