/* svd.c - Svd: singular values and vectors.
 *
 * Vectors are determined but for their sign (complex ones: their phase), which
 * is LAPACK's. Without them their outputs have no elements. Of a matrix that
 * holds NaN or infinity all of them are NaN, as in TensorFlow (where those of
 * complex matrices are 0): LAPACK's search for them may not end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "kernels/element.h"
#include "kernels/linalg.h"
#include "kernels/array.h"

typedef struct job {
  const td_tensor *in;
  td_tensor *values, *left, *right;
  bool vectors;
  int u_cols, v_rows;                    /* columns of U, rows of V^H */
  int lwork;                             /* elements */
  size_t a, s, u, v, work, rwork, iwork; /* places in the working memory */
} job;

static int decompose(const td_linalg *l, const job *j, char *at, int lwork) {
  int m = (int)l->m, n = (int)l->n, info = 0;
  int ld = td_linalg_ld(m), ldv = td_linalg_ld(j->v_rows);
  const char *how = !j->vectors                        ? "N"
                    : j->u_cols == m && j->v_rows == n ? "A"
                                                       : "S";
  if (l->call->gesdd)
    l->call->gesdd(how, &m, &n, at + j->a, &ld, at + j->s, at + j->u, &ld,
                   at + j->v, &ldv, at + j->work, &lwork,
                   (int *)(at + j->iwork), &info, 1);
  else
    l->call->gesdd_complex(how, &m, &n, at + j->a, &ld, at + j->s, at + j->u,
                           &ld, at + j->v, &ldv, at + j->work, &lwork,
                           at + j->rwork, (int *)(at + j->iwork), &info, 1);
  return info;
}

static void all_nan(const td_linalg *l, const job *j, char *at) {
  td_linalg_nan(l, l->m < l->n ? l->m : l->n, at + j->s);
  td_linalg_nan(l, l->m * j->u_cols, at + j->u);
  td_linalg_nan(l, l->n * j->v_rows, at + j->v);
}

static int svd_one(const td_linalg *l, int64_t i, void *work) {
  const job *j = l->arg;
  char *at = work;
  int64_t m = l->m, n = l->n, least = m < n ? m : n;
  td_linalg_load(l, j->in, i, m, n, false, at + j->a);
  if (!td_linalg_finite(l, m * n, at + j->a)) {
    all_nan(l, j, at);
    td_linalg_store_real(l, at + j->s, least, j->values, i);
  } else if (least > 0) {
    if (decompose(l, j, at, j->lwork) != 0) return TD_LINALG_FAILED;
    td_linalg_store_real(l, at + j->s, least, j->values, i);
  } else {
    td_linalg_identity(l, m, j->u_cols, at + j->u);
    td_linalg_identity(l, j->v_rows, n, at + j->v);
  }
  if (!j->vectors) return 0;
  td_linalg_store(l, at + j->u, m, j->u_cols, m, false, j->left, i);
  td_linalg_store(l, at + j->v, j->v_rows, n, j->v_rows, true, j->right, i);
  return 0;
}

/* Of complex matrices; LAPACK's formula. */
static int64_t real_room(int64_t m, int64_t n, bool vectors) {
  int64_t least = m < n ? m : n, most = m < n ? n : m;
  int64_t square = 5 * least * least + 5 * least;
  int64_t mixed = 2 * most * least + 2 * least * least + least;
  if (!vectors) return 7 * least;
  return square > mixed ? square : mixed;
}

/* As many elements as the routine, asked with nothing but sizes, wants. */
static td_status *svd_plan(td_linalg *l, job *j) {
  td_c128 answer = 0;
  job ask = *j;
  int64_t least = l->m < l->n ? l->m : l->n;
  TD_TRY(td_linalg_begin(l));
  ask.a = ask.s = ask.u = ask.v = ask.work = ask.rwork = ask.iwork = 0;
  if (least > 0) decompose(l, &ask, (char *)&answer, -1);
  int64_t lwork = td_linalg_asked(l, &answer);
  if (lwork > INT32_MAX || !td_linalg_room(l, l->m * l->n, l->size, &j->a) ||
      !td_linalg_room(l, least, sizeof(td_c128), &j->s) ||
      !td_linalg_room(l, l->m * j->u_cols, l->size, &j->u) ||
      !td_linalg_room(l, l->n * j->v_rows, l->size, &j->v) ||
      !td_linalg_room(l, lwork, l->size, &j->work) ||
      !td_linalg_room(l, 8 * least, sizeof(int), &j->iwork) ||
      !td_linalg_room(l, real_room(l->m, l->n, j->vectors), sizeof(double),
                      &j->rwork))
    return td_linalg_too_large(l);
  j->lwork = (int)lwork;
  return NULL;
}

typedef struct svd_shapes {
  td_shape s, u, v;
} svd_shapes;

/* Unknown sizes are -1. */
static svd_shapes shapes_of(const td_shape *x, bool vectors, bool full) {
  int64_t m = x->dim[x->rank - 2], n = x->dim[x->rank - 1];
  int64_t least = m < 0 || n < 0 ? -1 : m < n ? m : n;
  if (m == 0 || n == 0) least = 0;
  td_shape none = td_shape_vector(0);
  svd_shapes out = {td_linalg_shape(x, 1, &least), none, none};
  if (vectors) {
    out.u = td_linalg_shape(x, 2, (int64_t[]){m, full ? m : least});
    out.v = td_linalg_shape(x, 2, (int64_t[]){n, full ? n : least});
  }
  return out;
}

static td_status *svd_infer(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0);
  TD_TRY(td_linalg_matrices(x, "input"));
  if (x->rank < 0) return NULL;
  svd_shapes all = shapes_of(x, td_infer_bool(c, "compute_uv"),
                             td_infer_bool(c, "full_matrices"));
  td_infer_out(c, 0, all.s);
  td_infer_out(c, 1, all.u);
  td_infer_out(c, 2, all.v);
  return NULL;
}

static td_status *svd_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  job j = {.in = td_in(c, 0), .vectors = td_node_bool(n, "compute_uv")};
  const td_shape *x = &j.in->shape;
  TD_TRY(td_linalg_matrices(x, "input"));
  svd_shapes all = shapes_of(x, j.vectors, td_node_bool(n, "full_matrices"));
  TD_TRY(td_array_count(&all.u, NULL));
  TD_TRY(td_array_count(&all.v, NULL));
  TD_TRY(td_out(c, 0, &all.s, &j.values));
  TD_TRY(td_out(c, 1, &all.u, &j.left));
  TD_TRY(td_out(c, 2, &all.v, &j.right));
  if (td_tensor_count(j.values) + td_tensor_count(j.left) +
          td_tensor_count(j.right) ==
      0)
    return NULL;
  td_linalg l = {.one = svd_one,
                 .from = j.in->dtype,
                 .count = td_linalg_count(x),
                 .m = x->dim[x->rank - 2],
                 .n = x->dim[x->rank - 1],
                 .fault = "gives no answer: its search does not end",
                 .arg = &j};
  if (j.vectors && td_tensor_count(j.left))
    j.u_cols = (int)all.u.dim[x->rank - 1];
  if (j.vectors && td_tensor_count(j.right))
    j.v_rows = (int)all.v.dim[x->rank - 1];
  TD_TRY(svd_plan(&l, &j));
  return td_linalg_run(c, &l);
}

/* ---- cost -----------------------------------------------------------------
 */

/* Golub and Van Loan, 5.4.5: with both sides, and of the values alone. */
static void svd_cost(td_infer *c, td_cost *cost) {
  cost->flops =
      (td_infer_bool(c, "compute_uv") ? 21 : 4) * td_linalg_cube(c, 0);
}

/* ---- tables -------------------------------------------------------------- */

#define TYPES "T=float|double|complex64|complex128"

static const td_op_def ops[] = {
    {.type = "Svd",
     .sig = "input: T -> s: T, u: T, v: T; compute_uv: bool = true; "
            "full_matrices: bool = false; "
            "T: {double, float, half, complex64, complex128}",
     .shape = svd_infer,
     .cost = svd_cost,
     .doc = "The singular values of each matrix, largest first, and vectors: "
            "input is u diag(s) v^H.",
     .example = "(td.svd{{3.0, 0.0}, {0.0, 4.0}})  --> 4 3",
     .section = "Matrix / linear algebra"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Svd", .device = "CPU", .types = TYPES, .run = svd_run},
    {0},
};

TD_MODULE(svd, ops, kernels)
