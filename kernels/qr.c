/* qr.c - Qr: a matrix as Q with orthogonal columns times an upper triangle R.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/element.h"
#include "kernels/linalg.h"
#include "kernels/array.h"

typedef struct job {
  const td_tensor *in;
  td_tensor *q_out, *r_out;
  int64_t q_cols;            /* of Q: m, or the smaller size */
  int64_t lwork;             /* elements */
  size_t a, q, tau, scratch; /* places in the working memory */
} job;

static void clear_below(const td_linalg *l, char *a, int64_t rows) {
  for (int64_t k = 0; k < l->n && k < rows; k++)
    memset(a + (size_t)(k * l->m + k + 1) * l->size, 0,
           (size_t)(rows - k - 1) * l->size);
}

static int qr_one(const td_linalg *l, int64_t i, void *work) {
  const job *j = l->arg;
  char *at = work, *a = at + j->a, *q = at + j->q, *tau = at + j->tau;
  int m = (int)l->m, n = (int)l->n, cols = (int)j->q_cols, info = 0;
  int least = m < n ? m : n, lwork = (int)j->lwork, ld = td_linalg_ld(m);
  td_linalg_load(l, j->in, i, m, n, false, a);
  l->call->geqrf(&m, &n, a, &ld, tau, at + j->scratch, &lwork, &info);
  if (info != 0) return info;
  memset(q, 0, (size_t)m * (size_t)cols * l->size);
  memcpy(q, a, (size_t)m * (size_t)least * l->size);
  clear_below(l, a, cols);
  td_linalg_store(l, a, cols, n, m, false, j->r_out, i);
  l->call->orgqr(&m, &cols, &least, q, &ld, tau, at + j->scratch, &lwork,
                 &info);
  if (info == 0) td_linalg_store(l, q, m, cols, m, false, j->q_out, i);
  return info;
}

/* {m, q_cols} and {q_cols, n} */
void td_linalg_qr_shapes(const td_shape *s, bool full, td_shape *q,
                         td_shape *r) {
  int64_t m = s->dim[s->rank - 2], n = s->dim[s->rank - 1];
  int64_t least = m < 0 || n < 0 ? -1 : m < n ? m : n;
  if (m == 0 || n == 0) least = 0;
  int64_t cols = full ? m : least;
  *q = td_linalg_shape(s, 2, (int64_t[]){m, cols});
  *r = td_linalg_shape(s, 2, (int64_t[]){cols, n});
}

static td_status *qr_infer(td_infer *c) {
  const td_shape *s = td_infer_in(c, 0);
  td_shape q, r;
  TD_TRY(td_linalg_matrices(s, "input"));
  if (s->rank < 0) return NULL;
  td_linalg_qr_shapes(s, td_infer_bool(c, "full_matrices"), &q, &r);
  td_infer_out(c, 0, q);
  td_infer_out(c, 1, r);
  return NULL;
}

/* Room for everything, after asking how much the routines like to have. */
static td_status *qr_plan(td_linalg *l, job *j) {
  int m = (int)l->m, n = (int)l->n, cols = (int)j->q_cols, ask = -1, info = 0;
  int least = m < n ? m : n, ld = td_linalg_ld(m);
  td_c128 answer = 0;
  l->call->geqrf(&m, &n, NULL, &ld, NULL, &answer, &ask, &info);
  j->lwork = td_linalg_asked(l, &answer);
  l->call->orgqr(&m, &cols, &least, NULL, &ld, NULL, &answer, &ask, &info);
  if (td_linalg_asked(l, &answer) > j->lwork)
    j->lwork = td_linalg_asked(l, &answer);
  if (!td_linalg_room(l, l->m * l->n, l->size, &j->a) ||
      !td_linalg_room(l, l->m * j->q_cols, l->size, &j->q) ||
      !td_linalg_room(l, l->m, l->size, &j->tau) ||
      !td_linalg_room(l, j->lwork, l->size, &j->scratch))
    return td_linalg_too_large(l);
  return NULL;
}

static td_status *qr_run(td_kernel_ctx *c) {
  job j = {.in = td_in(c, 0)};
  const td_shape *s = &j.in->shape;
  td_shape q, r;
  TD_TRY(td_linalg_matrices(s, "input"));
  td_linalg_qr_shapes(s, td_node_bool(td_ctx_node(c), "full_matrices"), &q, &r);
  TD_TRY(td_array_count(&q, NULL));
  TD_TRY(td_array_count(&r, NULL));
  TD_TRY(td_out(c, 0, &q, &j.q_out));
  TD_TRY(td_out(c, 1, &r, &j.r_out));
  if (td_tensor_count(j.q_out) + td_tensor_count(j.r_out) == 0) return NULL;
  j.q_cols = q.dim[q.rank - 1];
  td_linalg l = {.one = qr_one,
                 .from = j.in->dtype,
                 .count = td_linalg_count(s),
                 .m = s->dim[s->rank - 2],
                 .n = s->dim[s->rank - 1],
                 .k = j.q_cols,
                 .fault = "cannot be factored",
                 .arg = &j};
  TD_TRY(td_linalg_begin(&l));
  TD_TRY(qr_plan(&l, &j));
  return td_linalg_run(c, &l);
}

/* ---- cost -----------------------------------------------------------------
 */

/* Householder's R, and q from its reflections. */
static void qr_cost(td_infer *c, td_cost *cost) {
  cost->flops = 4 * td_linalg_cube(c, 0);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Qr",
     .sig = "input: T -> q: T, r: T; full_matrices: bool = false; "
            "T: {double, float, half, complex64, complex128}",
     .shape = qr_infer,
     .cost = qr_cost,
     .doc = "Each matrix as q with orthogonal columns times an upper triangle "
            "r.",
     .example = "td.qr{{1.0, 0.0}, {0.0, 1.0}}.shape  --> {2, 2}",
     .section = "Matrix / linear algebra"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Qr",
     .device = "CPU",
     .types = "T=float|double|complex64|complex128|half",
     .run = qr_run},
    {0},
};

TD_MODULE(qr, ops, kernels)
