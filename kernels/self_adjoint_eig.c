/* self_adjoint_eig.c - SelfAdjointEigV2: eigenvalues and eigenvectors.
 *
 * Vectors are determined but for their sign (complex ones: their phase), which
 * is LAPACK's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg.h"

typedef struct job {
  const td_tensor *in;
  td_tensor *values, *columns;
  bool vectors;
  int lwork, lrwork, liwork;       /* elements of each */
  size_t a, s, work, rwork, iwork; /* places in the working memory */
} job;

static int solve(const td_linalg *l, const job *j, char *at, int lwork) {
  int n = (int)l->m, info = 0, lrwork = j->lrwork, liwork = j->liwork;
  const char *how = j->vectors ? "V" : "N";
  int *iwork = (int *)(at + j->iwork);
  if (l->call->syevd)
    l->call->syevd(how, "L", &n, at + j->a, &n, at + j->s, at + j->work, &lwork,
                   iwork, &liwork, &info, 1, 1);
  else
    l->call->heevd(how, "L", &n, at + j->a, &n, at + j->s, at + j->work, &lwork,
                   at + j->rwork, &lrwork, iwork, &liwork, &info, 1, 1);
  return info;
}

static int one(const td_linalg *l, int64_t i, void *work) {
  const job *j = l->arg;
  char *at = work;
  int64_t n = l->m;
  td_linalg_load(l, j->in, i, n, n, false, at + j->a);
  for (int64_t k = 0; k < n; k++) /* the lower triangle */
    if (!td_linalg_finite(l, n - k, at + j->a + (k * n + k) * (int64_t)l->size))
      return TD_LINALG_FAILED;
  if (solve(l, j, at, j->lwork) != 0) return TD_LINALG_FAILED;
  td_linalg_store_real(l, at + j->s, n, j->values, i);
  if (j->vectors) td_linalg_store(l, at + j->a, n, n, n, false, j->columns, i);
  return 0;
}

/* What syevd and heevd need at least, and a block more of the first. */
static td_status *plan(td_linalg *l, job *j) {
  int64_t n = l->m, blocks = 64 * (n + 1);
  TD_TRY(td_linalg_begin(l));
  int64_t lwork = 1 + 6 * n + 2 * n * n + blocks;
  int64_t lrwork = 1 + 5 * n + 2 * n * n, liwork = 3 + 5 * n;
  if (lwork > INT32_MAX || lrwork > INT32_MAX ||
      !td_linalg_room(l, n * n, l->size, &j->a) ||
      !td_linalg_room(l, n, sizeof(double), &j->s) ||
      !td_linalg_room(l, lwork, l->size, &j->work) ||
      !td_linalg_room(l, lrwork, sizeof(double), &j->rwork) ||
      !td_linalg_room(l, liwork, sizeof(int), &j->iwork))
    return td_linalg_too_large(l);
  j->lwork = (int)lwork;
  j->lrwork = (int)lrwork;
  j->liwork = (int)liwork;
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  job j = {.in = td_in(c, 0),
           .vectors = td_node_bool(td_ctx_node(c), "compute_v")};
  const td_shape *x = &j.in->shape;
  td_shape values = *x, none = td_shape_vector(0);
  TD_TRY(td_linalg_squares(x, "input"));
  values.rank -= 1;
  TD_TRY(td_out(c, 0, &values, &j.values));
  TD_TRY(td_out(c, 1, j.vectors ? x : &none, &j.columns));
  if (td_tensor_count(j.values) == 0) return NULL;
  td_linalg l = {.one = one,
                 .from = j.in->dtype,
                 .count = td_linalg_count(x),
                 .m = x->dim[x->rank - 1],
                 .n = x->dim[x->rank - 1],
                 .fault =
                     "gives no answer: it holds NaN or infinity, or does not "
                     "converge",
                 .arg = &j};
  TD_TRY(plan(&l, &j));
  return td_linalg_run(c, &l);
}

/* ---- cost -----------------------------------------------------------------
 */

/* Golub and Van Loan, 8.3: with vectors, and of the values alone. */
static void eig_cost(td_infer *c, td_cost *cost) {
  cost->flops =
      (td_infer_bool(c, "compute_v") ? 9 : 4.0 / 3) * td_linalg_cube(c, 0);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "SelfAdjointEigV2",
     .sig = "input: T -> e: T, v: T; compute_v: bool = true; "
            "T: {double, float, half, complex64, complex128}",
     .shape = td_linalg_infer_eig,
     .cost = eig_cost,
     .doc = "The eigenvalues of each symmetric (Hermitian) matrix, smallest "
            "first, and its eigenvectors as columns; the upper triangle is not "
            "looked at.",
     .lua = "self_adjoint_eig",
     .example = "td.self_adjoint_eig{{2.0, 0.0}, {0.0, 1.0}}  --> 1 2",
     .section = "Matrix / linear algebra"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "SelfAdjointEigV2",
     .device = "CPU",
     .types = "T=float|double|complex64|complex128",
     .run = run},
    {0},
};

TD_MODULE(self_adjoint_eig, ops, kernels)
