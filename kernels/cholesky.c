/* cholesky.c - Cholesky: a positive definite matrix as L L^H.
 *
 * A matrix that is not positive definite gives NaN in the triangle, as in
 * TensorFlow: one of a batch does not stop the rest. (TensorFlow's NaN of a
 * complex matrix is 0, and nobody could tell.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/linalg.h"

typedef struct job {
  const td_tensor *in;
  td_tensor *out;
  size_t a; /* place in the working memory */
} job;

static int cholesky_one(const td_linalg *l, int64_t i, void *work) {
  const job *j = l->arg;
  char *a = (char *)work + j->a;
  int n = (int)l->m, info = 0;
  td_linalg_load(l, j->in, i, n, n, false, a);
  l->call->potrf("L", &n, a, &n, &info, 1);
  if (info != 0) td_linalg_nan(l, (int64_t)n * n, a);
  for (int k = 1; k < n; k++) /* above the diagonal */
    memset(a + (size_t)k * (size_t)n * l->size, 0, (size_t)k * l->size);
  td_linalg_store(l, a, n, n, n, false, j->out, i);
  return 0;
}

static td_status *cholesky_run(td_kernel_ctx *c) {
  job j = {.in = td_in(c, 0)};
  const td_shape *s = &j.in->shape;
  TD_TRY(td_linalg_squares(s, "input"));
  TD_TRY(td_out(c, 0, s, &j.out));
  if (td_tensor_count(j.out) == 0) return NULL;
  td_linalg l = {.one = cholesky_one,
                 .from = j.in->dtype,
                 .count = td_linalg_count(s),
                 .m = s->dim[s->rank - 1],
                 .n = s->dim[s->rank - 1],
                 .arg = &j};
  TD_TRY(td_linalg_begin(&l));
  if (!td_linalg_room(&l, l.m * l.n, l.size, &j.a))
    return td_linalg_too_large(&l);
  return td_linalg_run(c, &l);
}

/* ---- cost -----------------------------------------------------------------
 */

static void cholesky_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_linalg_cube(c, 0) / 3;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Cholesky",
     .sig = "input: T -> output: T; "
            "T: {double, float, half, complex64, complex128}",
     .shape = td_linalg_infer_square,
     .cost = cholesky_cost,
     .doc = "The lower triangle L with L L^H equal to each positive definite "
            "matrix, whose upper triangle is not looked at; NaN of others.",
     .example = "td.cholesky{{4.0, 2.0}, {2.0, 10.0}}[1]  --> 1 3",
     .section = "Matrix / linear algebra"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Cholesky",
     .device = "CPU",
     .types = "T=float|double|complex64|complex128",
     .run = cholesky_run},
    {0},
};

TD_MODULE(cholesky, ops, kernels)
