/* lu.c - Lu: a square matrix, its rows exchanged, as L U.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/lu.h"

td_status *td_lu_begin(td_linalg *l, td_lu *f) {
  const td_shape *a = &f->matrix->shape;
  l->from = f->matrix->dtype;
  l->m = a->dim[a->rank - 2];
  l->n = a->dim[a->rank - 1];
  l->count = td_linalg_count(a);
  TD_TRY(td_linalg_begin(l));
  if (!td_linalg_room(l, l->m * l->n, l->size, &f->a) ||
      !td_linalg_room(l, l->m, sizeof(int), &f->pivots))
    return td_linalg_too_large(l);
  return NULL;
}

int td_lu_factor(const td_linalg *l, const td_lu *f, int64_t i, void *work,
                 void **a, int **pivots) {
  int n = (int)l->m, info = 0, ld = td_linalg_ld(n);
  *a = (char *)work + f->a;
  *pivots = (int *)((char *)work + f->pivots);
  td_linalg_load(l, f->matrix, i, n, n, false, *a);
  if (n > 0) l->call->getrf(&n, &n, *a, &ld, *pivots, &info);
  return info;
}

/* ---- Lu ------------------------------------------------------------------ */

typedef struct job {
  td_lu lu;
  td_tensor *factors, *order;
} job;

/* Row i of P A is row p[i] of A. */
static int lu_one(const td_linalg *l, int64_t i, void *work) {
  const job *j = l->arg;
  void *a;
  int *pivots;
  int64_t n = l->m, first = i * n;
  if (td_lu_factor(l, &j->lu, i, work, &a, &pivots) != 0)
    return TD_LINALG_FAILED;
  td_linalg_store(l, a, n, n, n, false, j->factors, i);
  for (int64_t k = 0; k < n; k++) td_tensor_set_i(j->order, first + k, k);
  for (int64_t k = 0; k < n; k++) {
    int64_t other = first + pivots[k] - 1;
    int64_t row = td_tensor_get_i(j->order, first + k);
    td_tensor_set_i(j->order, first + k, td_tensor_get_i(j->order, other));
    td_tensor_set_i(j->order, other, row);
  }
  return 0;
}

static td_status *lu_infer(td_infer *c) {
  TD_TRY(td_linalg_infer_square(c));
  td_shape s = *td_infer_in(c, 0);
  if (s.rank < 2) return NULL;
  if (s.dim[s.rank - 2] < 0) s.dim[s.rank - 2] = s.dim[s.rank - 1];
  s.rank -= 1;
  td_infer_out(c, 1, s);
  return NULL;
}

static td_status *lu_run(td_kernel_ctx *c) {
  job j = {.lu = {.matrix = td_in(c, 0)}};
  td_linalg l = {.one = lu_one, .fault = "is not invertible", .arg = &j};
  td_shape s = j.lu.matrix->shape;
  TD_TRY(td_linalg_squares(&s, "input"));
  TD_TRY(td_out(c, 0, &s, &j.factors));
  s.rank -= 1;
  TD_TRY(td_out(c, 1, &s, &j.order));
  if (td_tensor_count(j.factors) == 0) return NULL;
  TD_TRY(td_lu_begin(&l, &j.lu));
  return td_linalg_run(c, &l);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Lu",
     .sig = "input: T -> lu: T, p: output_idx_type; "
            "T: {double, float, half, complex64, complex128}; "
            "output_idx_type: {int32, int64} = int32",
     .shape = lu_infer,
     .doc = "Each square matrix, its rows in the order p, as the product of a "
            "lower triangle with ones on its diagonal and an upper one, both "
            "in lu.",
     .example = "td.lu{{4.0, 2.0}, {2.0, 3.0}}  --> {2, 2} 4 2 0.5 2",
     .section = "Matrix / linear algebra"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Lu",
     .device = "CPU",
     .types = "T=float|double|complex64|complex128",
     .run = lu_run},
    {0},
};

TD_MODULE(lu, ops, kernels)
