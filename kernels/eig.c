/* eig.c - Eig: eigenvalues and eigenvectors of any square matrix.
 *
 * Results are complex, of real matrices too: LAPACK gives those a pair of
 * conjugate values as two real parts and two imaginary ones, and their vectors
 * as the real and imaginary columns of the first. Vectors have length 1 and are
 * determined but for their phase, values have LAPACK's order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/element.h"
#include "kernels/linalg.h"
#include "kernels/num.h"

typedef struct job {
  const td_tensor *in;
  td_tensor *values, *columns;
  bool vectors;
  int lwork;                   /* elements */
  size_t a, e, v, work, rwork; /* places in the working memory */
} job;

static int solve(const td_linalg *l, const job *j, char *at, int lwork) {
  int n = (int)l->m, info = 0;
  const char *right = j->vectors ? "V" : "N";
  char *e = at + j->e, *v = at + j->v;
  if (l->call->geev)
    l->call->geev("N", right, &n, at + j->a, &n, e, e + (size_t)n * l->size, v,
                  &n, v, &n, at + j->work, &lwork, &info, 1, 1);
  else
    l->call->geev_complex("N", right, &n, at + j->a, &n, e, v, &n, v, &n,
                          at + j->work, &lwork, at + j->rwork, &info, 1, 1);
  return info;
}

/* ---- results ------------------------------------------------------------- */

/* Part k of n numbers of `at`, real ones. */
static double part(const td_linalg *l, const char *at, int64_t k) {
  return l->real == TD_FLOAT64 ? ((const double *)at)[k]
                               : (double)((const float *)at)[k];
}

static void put(td_tensor *t, int64_t i, double re, double im) {
  if (t->dtype == TD_COMPLEX128)
    ((td_c128 *)t->data)[i] = td_num_complex(re, im);
  else
    ((td_c64 *)t->data)[i] = (td_c64)td_num_complex(re, im);
}

static void store_complex(const td_linalg *l, const job *j, const char *at,
                          int64_t i) {
  int64_t n = l->m;
  for (int64_t k = 0; k < n; k++)
    put(j->values, i * n + k, part(l, at + j->e, 2 * k),
        part(l, at + j->e, 2 * k + 1));
  if (j->vectors) td_linalg_store(l, at + j->v, n, n, n, false, j->columns, i);
}

/* Columns k and k + 1 are the parts of two vectors where value k has an
 * imaginary part, which is then positive. */
static void store_real(const td_linalg *l, const job *j, const char *at,
                       int64_t i) {
  const char *v = at + j->v;
  int64_t n = l->m;
  for (int64_t k = 0; k < n; k++) {
    double im = part(l, at + j->e, n + k);
    int64_t first = im < 0 ? k - 1 : k;
    put(j->values, i * n + k, part(l, at + j->e, k), im);
    for (int64_t r = 0; j->vectors && r < n; r++) {
      double y = im == 0 ? 0 : part(l, v, (first + 1) * n + r);
      put(j->columns, (i * n + r) * n + k, part(l, v, first * n + r),
          im < 0 ? -y : y);
    }
  }
}

static int one(const td_linalg *l, int64_t i, void *work) {
  const job *j = l->arg;
  char *at = work;
  int64_t n = l->m;
  td_linalg_load(l, j->in, i, n, n, false, at + j->a);
  if (!td_linalg_finite(l, n * n, at + j->a) || solve(l, j, at, j->lwork) != 0)
    return TD_LINALG_FAILED;
  if (l->dtype == l->real)
    store_real(l, j, at, i);
  else
    store_complex(l, j, at, i);
  return 0;
}

/* ---- running ------------------------------------------------------------- */

static td_status *plan(td_linalg *l, job *j) {
  td_c128 answer = 0;
  int64_t n = l->m;
  TD_TRY(td_linalg_begin(l));
  solve(l, j, (char *)&answer, -1); /* all places are 0 yet: it asks */
  int64_t lwork = td_linalg_asked(l, &answer);
  if (lwork > INT32_MAX || !td_linalg_room(l, n * n, l->size, &j->a) ||
      !td_linalg_room(l, 2 * n, l->size, &j->e) ||
      !td_linalg_room(l, j->vectors ? n * n : 1, l->size, &j->v) ||
      !td_linalg_room(l, lwork, l->size, &j->work) ||
      !td_linalg_room(l, 2 * n, sizeof(double), &j->rwork))
    return td_linalg_too_large(l);
  j->lwork = (int)lwork;
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

/* Golub and Van Loan, 7.5: with vectors, and of the values alone. */
static void eig_cost(td_infer *c, td_cost *cost) {
  cost->flops =
      (td_infer_bool(c, "compute_v") ? 25 : 10) * td_linalg_cube(c, 0);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Eig",
     .sig = "input: T -> e: Tout, v: Tout; compute_v: bool = true; "
            "T: {float, double, complex64, complex128}; "
            "Tout: {complex64, complex128}",
     .shape = td_linalg_infer_eig,
     .cost = eig_cost,
     .doc = "The eigenvalues of each square matrix, complex numbers in no "
            "order, and its eigenvectors as columns.",
     .section = "Matrix / linear algebra"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Eig",
     .device = "CPU",
     .types = "T=float, Tout=complex64",
     .run = run},
    {.op = "Eig",
     .device = "CPU",
     .types = "T=double, Tout=complex128",
     .run = run},
    {.op = "Eig",
     .device = "CPU",
     .types = "T=complex64, Tout=complex64",
     .run = run},
    {.op = "Eig",
     .device = "CPU",
     .types = "T=complex128, Tout=complex128",
     .run = run},
    {0},
};

TD_MODULE(eig, ops, kernels)
