/* banded_solve.c - BandedTriangularSolve: triangular equations of which only a
 * few diagonals are kept.
 *
 * A matrix has a row for each diagonal, and in it, below its own row, each
 * element that the equation of that number has: of a lower matrix the main
 * diagonal is the first row, A[i, i - k] = bands[k, i]; of an upper one it is
 * the last of K, A[i, i + k] = bands[K - 1 - k, i]. What would lie outside of A
 * is not looked at. Batches broadcast.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/array.h"
#include "kernels/broadcast.h"
#include "kernels/cpu.h"
#include "kernels/element.h"
#include "kernels/linalg.h"
#include "kernels/num.h"

typedef struct job {
  const td_tensor *bands, *rhs;
  td_tensor *out;
  td_broadcast plan;         /* of batches */
  int64_t n, count, columns; /* equations, diagonals, right sides */
  bool lower, adjoint;
  bool (*one)(const struct job *j, int64_t i);
  bool *failed; /* by batch */
} job;

/* ---- equations ----------------------------------------------------------- */

/* By rows from the end that has one unknown; false when one is left without.
 * In the adjoint of A diagonals run the other way. */
#define SOLVE(kind, ...)                                                       \
  static bool solve_##kind(const job *j, int64_t i) {                          \
    int64_t n = j->n, cols = j->columns;                                       \
    const td_##kind *a = (const td_##kind *)j->bands->data +                   \
                         td_broadcast_index(&j->plan, 0, i) * j->count * n;    \
    td_##kind *x = (td_##kind *)j->out->data + i * n * cols;                   \
    bool down = j->lower != j->adjoint;                                        \
    memcpy(x,                                                                  \
           (const td_##kind *)j->rhs->data +                                   \
               td_broadcast_index(&j->plan, 1, i) * n * cols,                  \
           (size_t)(n * cols) * sizeof *x);                                    \
    for (int64_t s = 0; s < n; s++) {                                          \
      int64_t row = down ? s : n - 1 - s;                                      \
      td_##kind *to = x + row * cols;                                          \
      for (int64_t k = 1; k < j->count && k <= s; k++) {                       \
        int64_t other = down ? row - k : row + k;                              \
        td_##kind v = a[(j->lower ? k : j->count - 1 - k) * n +                \
                        (j->adjoint ? other : row)];                           \
        v = j->adjoint ? td_num_conj(v) : v;                                   \
        for (int64_t c = 0; c < cols; c++) to[c] -= v * x[other * cols + c];   \
      }                                                                        \
      td_##kind pivot = a[(j->lower ? 0 : j->count - 1) * n + row];            \
      if (pivot == 0) return false;                                            \
      pivot = j->adjoint ? td_num_conj(pivot) : pivot;                         \
      for (int64_t c = 0; c < cols; c++) to[c] /= pivot;                       \
    }                                                                          \
    return true;                                                               \
  }
EACH_FLOATS_C(SOLVE, )

static void solve_piece(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t i = begin; i < end; i++) j->failed[i] = !j->one(j, i);
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *solve_shape(const td_shape *a, const td_shape *b,
                              td_shape *out) {
  td_shape_text at, bt;
  *out = td_shape_unknown();
  TD_TRY(td_linalg_matrices(a, "matrix"));
  TD_TRY(td_linalg_matrices(b, "rhs"));
  if (a->rank < 0 || b->rank < 0) return NULL;
  int64_t n = a->dim[a->rank - 1], rows = b->dim[b->rank - 2];
  if (n >= 0 && rows >= 0 && n != rows)
    return td_error(TD_INVALID_ARGUMENT,
                    "rhs must have a row for each column of matrix, whose "
                    "shape is %s, not shape %s",
                    td_shape_str(a, &at), td_shape_str(b, &bt));
  if (n > 0 && a->dim[a->rank - 2] > n)
    return td_error(TD_INVALID_ARGUMENT,
                    "matrix %s has more diagonals than there are equations",
                    td_shape_str(a, &at));
  td_shape x = *a, y = *b;
  x.rank -= 2;
  y.rank -= 2;
  if (!td_shape_broadcast(&x, &y, out))
    return td_error(TD_INVALID_ARGUMENT,
                    "the axes of matrix %s and rhs %s before the last two do "
                    "not broadcast",
                    td_shape_str(a, &at), td_shape_str(b, &bt));
  out->dim[out->rank++] = n < 0 ? rows : n;
  out->dim[out->rank++] = b->dim[b->rank - 1];
  return NULL;
}

static td_status *infer(td_infer *c) {
  td_shape out;
  TD_TRY(solve_shape(td_infer_in(c, 0), td_infer_in(c, 1), &out));
  td_infer_out(c, 0, out);
  return NULL;
}

/* ---- running ------------------------------------------------------------- */

static td_status *full(const td_tensor *t, const char *what) {
  td_shape_text text;
  if (td_tensor_count(t) > 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must not be empty, is of shape %s",
                  what, td_shape_str(&t->shape, &text));
}

static td_status *solve_all(td_kernel_ctx *c, job *j) {
  td_status *s = NULL;
  double cost = (double)j->n * (double)j->columns * (double)j->count;
  j->failed = td_calloc((size_t)j->plan.count, sizeof *j->failed);
  if (!j->failed) return td_oom();
  td_for(c, j->plan.count, cost < 65536 ? (int64_t)(65536 / cost) : 1,
         solve_piece, j);
  for (int64_t i = 0; i < j->plan.count && td_ok(s); i++)
    if (j->failed[i])
      s = td_error(TD_INVALID_ARGUMENT,
                   "matrix %lld of %lld is not invertible: it has a 0 on its "
                   "diagonal",
                   (long long)i, (long long)j->plan.count);
  td_free(j->failed);
  return s;
}

static td_status *run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  job j = {.bands = td_in(c, 0),
           .rhs = td_in(c, 1),
           .lower = td_node_bool(n, "lower"),
           .adjoint = td_node_bool(n, "adjoint")};
  td_shape out, a = j.bands->shape, b = j.rhs->shape;
  TD_TRY(solve_shape(&a, &b, &out));
  TD_TRY(full(j.bands, "matrix"));
  TD_TRY(full(j.rhs, "rhs"));
  TD_TRY(td_array_count(&out, NULL));
  TD_TRY(td_out(c, 0, &out, &j.out));
  j.count = a.dim[a.rank - 2];
  j.n = a.dim[a.rank - 1];
  j.columns = b.dim[b.rank - 1];
  a.rank -= 2;
  b.rank -= 2;
  out.rank -= 2;
  const td_shape *shapes[2] = {&a, &b};
  TD_TRY(td_broadcast_plan(&j.plan, 2, shapes, &out));
  j.one = j.out->dtype == TD_FLOAT32     ? solve_f32
          : j.out->dtype == TD_FLOAT64   ? solve_f64
          : j.out->dtype == TD_COMPLEX64 ? solve_c64
                                         : solve_c128;
  return solve_all(c, &j);
}

/* ---- cost -----------------------------------------------------------------
 */

static void cost(td_infer *c, td_cost *cost) {
  cost->flops =
      2 * td_infer_in_count(c, 1) * td_infer_size(td_infer_in(c, 0), -2);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "BandedTriangularSolve",
     .sig = "matrix: T, rhs: T -> output: T; lower: bool = true; "
            "adjoint: bool = false; "
            "T: {double, float, half, complex64, complex128}",
     .shape = infer,
     .cost = cost,
     .doc = "X of A X = rhs, for each triangular A or its conjugated "
            "transpose, given by its diagonals, a row of matrix each, from the "
            "highest to the lowest: element i of a row is in row i of A.",
     .example = "td.banded_triangular_solve({{2.0, 4.0}, {0.0, 1.0}}, {{2.0}, "
                "{5.0}})  --> 1 1",
     .section = "Matrix / linear algebra"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "BandedTriangularSolve",
     .device = "CPU",
     .types = "T=float|double|complex64|complex128",
     .run = run},
    {0},
};

TD_MODULE(banded_solve, ops, kernels)
