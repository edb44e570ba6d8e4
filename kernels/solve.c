/* solve.c - linear equations: MatrixInverse, MatrixSolve,
 * MatrixTriangularSolve.
 *
 * An inverse is the solution for the identity. Batches of triangular equations
 * broadcast, the others' must be equal.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"
#include "kernels/element.h"
#include "kernels/linalg.h"
#include "kernels/lu.h"

static const char *const singular = "is not invertible";

/* What `one` needs beside the sizes: m x m matrices, m x k right sides. */
typedef struct equations {
  const td_tensor *matrix, *rhs; /* rhs NULL: the identity */
  td_tensor *out;
  const int64_t *place; /* of triples {matrix, rhs, out}; NULL: i */
  bool adjoint, lower;
  size_t a, b, pivots; /* places in the working memory */
} equations;

/* ---- shapes -------------------------------------------------------------- */

/* Both of known rank: the axes before the last two, joined. */
static td_status *fronts(const td_shape *a, const td_shape *b, bool broadcast,
                         td_shape *out) {
  td_shape_text at, bt;
  td_shape x = *a, y = *b;
  x.rank -= 2;
  y.rank -= 2;
  if (broadcast ? td_shape_broadcast(&x, &y, out) : td_shape_merge(&x, &y, out))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the axes of matrix %s and rhs %s before the last two %s",
                  td_shape_str(a, &at), td_shape_str(b, &bt),
                  broadcast ? "do not broadcast" : "must be equal");
}

td_status *td_linalg_solve_shape(const td_shape *a, const td_shape *b,
                                 bool broadcast, td_shape *out) {
  td_shape_text at, bt;
  *out = td_shape_unknown();
  TD_TRY(td_linalg_squares(a, "matrix"));
  TD_TRY(td_linalg_matrices(b, "rhs"));
  if (a->rank < 0 || b->rank < 0) return NULL;
  int64_t rows = a->dim[a->rank - 2], has = b->dim[b->rank - 2];
  if (rows < 0) rows = a->dim[a->rank - 1];
  if (rows >= 0 && has >= 0 && rows != has)
    return td_error(TD_INVALID_ARGUMENT,
                    "rhs must have as many rows as matrix, whose shape is %s, "
                    "not shape %s",
                    td_shape_str(a, &at), td_shape_str(b, &bt));
  TD_TRY(fronts(a, b, broadcast, out));
  out->dim[out->rank++] = rows < 0 ? has : rows;
  out->dim[out->rank++] = b->dim[b->rank - 1];
  return NULL;
}

static td_status *solve_infer(td_infer *c) {
  td_shape out;
  TD_TRY(
      td_linalg_solve_shape(td_infer_in(c, 0), td_infer_in(c, 1), false, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *triangular_infer(td_infer *c) {
  td_shape out;
  TD_TRY(
      td_linalg_solve_shape(td_infer_in(c, 0), td_infer_in(c, 1), true, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

/* ---- square -------------------------------------------------------------- */

static int solve_one(const td_linalg *l, int64_t i, void *work) {
  const equations *e = l->arg;
  char *at = work;
  void *a = at + e->a, *b = at + e->b;
  int *pivots = (int *)(at + e->pivots);
  int n = (int)l->m, columns = (int)l->k, info = 0;
  td_linalg_load(l, e->matrix, i, n, n, e->adjoint, a);
  if (e->rhs)
    td_linalg_load(l, e->rhs, i, n, columns, false, b);
  else
    td_linalg_identity(l, n, columns, b);
  if (td_lu_columns(l, false, a, pivots) != 0) return TD_LINALG_FAILED;
  l->call->getrs("N", &n, &columns, a, &n, pivots, b, &n, &info, 1);
  td_linalg_store(l, b, n, columns, n, false, e->out, i);
  return info;
}

/* Sizes and working memory from the shapes of matrix and result. */
static td_status *plan(td_linalg *l, equations *e) {
  const td_shape *a = &e->matrix->shape, *x = &e->out->shape;
  l->from = e->out->dtype;
  l->m = a->dim[a->rank - 2];
  l->n = a->dim[a->rank - 1];
  l->k = x->dim[x->rank - 1];
  l->count = td_linalg_count(x);
  l->arg = e;
  TD_TRY(td_linalg_begin(l));
  if (!td_linalg_room(l, l->m * l->n, l->size, &e->a) ||
      !td_linalg_room(l, l->m * l->k, l->size, &e->b) ||
      !td_linalg_room(l, l->m, sizeof(int), &e->pivots))
    return td_linalg_too_large(l);
  return NULL;
}

static td_status *solve_run(td_kernel_ctx *c) {
  td_shape out;
  equations e = {.matrix = td_in(c, 0),
                 .rhs = td_in(c, 1),
                 .adjoint = td_node_bool(td_ctx_node(c), "adjoint")};
  td_linalg l = {.one = solve_one, .fault = singular};
  TD_TRY(td_linalg_solve_shape(&e.matrix->shape, &e.rhs->shape, false, &out));
  TD_TRY(td_array_count(&out, NULL));
  TD_TRY(td_out(c, 0, &out, &e.out));
  if (td_tensor_count(e.out) == 0) return NULL;
  TD_TRY(plan(&l, &e));
  return td_linalg_run(c, &l);
}

static td_status *inverse_run(td_kernel_ctx *c) {
  equations e = {.matrix = td_in(c, 0),
                 .adjoint = td_node_bool(td_ctx_node(c), "adjoint")};
  td_linalg l = {.one = solve_one, .fault = singular};
  TD_TRY(td_linalg_squares(&e.matrix->shape, "input"));
  TD_TRY(td_out(c, 0, &e.matrix->shape, &e.out));
  if (td_tensor_count(e.out) == 0) return NULL;
  TD_TRY(plan(&l, &e));
  return td_linalg_run(c, &l);
}

/* ---- triangular ---------------------------------------------------------- */

/* By its definition, one row after the other: what a 0 on the diagonal gives,
 * infinity and NaN, is the result. Blocks of LAPACK's would refuse it. */
#define SUBSTITUTE(kind, ...)                                                  \
  static void substitute_##kind(int64_t n, int64_t columns, bool lower,        \
                                const void *matrix, void *at) {                \
    const td_##kind *a = matrix;                                               \
    for (td_##kind *b = at; columns > 0; columns--, b += n)                    \
      for (int64_t k = 0; k < n; k++) {                                        \
        int64_t row = lower ? k : n - 1 - k;                                   \
        const td_##kind *column = a + row * n;                                 \
        b[row] /= column[row];                                                 \
        for (int64_t i = lower ? row + 1 : 0; i < (lower ? n : row); i++)      \
          b[i] -= column[i] * b[row];                                          \
      }                                                                        \
  }
EACH_FLOATS_C(SUBSTITUTE, )

static void substitute(const td_linalg *l, bool lower, const void *a, void *b) {
  switch (l->dtype) {
  case TD_FLOAT32:
    substitute_f32(l->m, l->k, lower, a, b);
    break;
  case TD_FLOAT64:
    substitute_f64(l->m, l->k, lower, a, b);
    break;
  case TD_COMPLEX64:
    substitute_c64(l->m, l->k, lower, a, b);
    break;
  default:
    substitute_c128(l->m, l->k, lower, a, b);
  }
}

static int triangular_one(const td_linalg *l, int64_t i, void *work) {
  const equations *e = l->arg;
  char *at = work;
  void *a = at + e->a, *b = at + e->b;
  int n = (int)l->m, columns = (int)l->k, info = 0;
  const int64_t *place = e->place + 2 * i;
  /* The adjoint of a lower matrix is an upper one. */
  td_linalg_load(l, e->matrix, place[0], n, n, e->adjoint, a);
  td_linalg_load(l, e->rhs, place[1], n, columns, false, b);
  bool lower = e->lower != e->adjoint;
  l->call->trtrs(lower ? "L" : "U", "N", "N", &n, &columns, a, &n, b, &n, &info,
                 1, 1, 1);
  if (info > 0) substitute(l, lower, a, b);
  td_linalg_store(l, b, n, columns, n, false, e->out, i);
  return 0;
}

/* Which matrix of `s` belongs to number i of those in `out`. */
static int64_t place_of(const td_shape *s, const td_shape *out, int64_t i) {
  int64_t at = 0, step = 1;
  for (int k = s->rank - 3, j = out->rank - 3; k >= 0; k--, j--) {
    if (s->dim[k] > 1) at += i % out->dim[j] * step;
    step *= s->dim[k];
    i /= out->dim[j];
  }
  return at;
}

static td_status *triangular_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  td_shape out;
  td_tensor places;
  equations e = {.matrix = td_in(c, 0),
                 .rhs = td_in(c, 1),
                 .adjoint = td_node_bool(n, "adjoint"),
                 .lower = td_node_bool(n, "lower")};
  td_linalg l = {.one = triangular_one};
  TD_TRY(td_linalg_solve_shape(&e.matrix->shape, &e.rhs->shape, true, &out));
  TD_TRY(td_array_count(&out, NULL));
  TD_TRY(td_out(c, 0, &out, &e.out));
  if (td_tensor_count(e.out) == 0) return NULL;
  TD_TRY(plan(&l, &e));
  td_shape pairs = td_shape_matrix(l.count, 2);
  TD_TRY(td_temp(c, TD_INT64, &pairs, &places));
  int64_t *place = places.data;
  for (int64_t i = 0; i < l.count; i++) {
    place[2 * i] = place_of(&e.matrix->shape, &out, i);
    place[2 * i + 1] = place_of(&e.rhs->shape, &out, i);
  }
  e.place = place;
  td_status *s = td_linalg_run(c, &l);
  td_tensor_release(&places);
  return s;
}

/* ---- cost -----------------------------------------------------------------
 */

/* LU factors, and two triangles for each column of the right side. */
static double right_side(const td_infer *c) {
  return td_infer_in_count(c, 1) * td_infer_size(td_infer_in(c, 0), -1);
}

static void inverse_cost(td_infer *c, td_cost *cost) {
  cost->flops = 2 * td_linalg_cube(c, 0);
}

static void solve_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_linalg_cube(c, 0) * 2 / 3 + 2 * right_side(c);
}

static void triangle_cost(td_infer *c, td_cost *cost) {
  cost->flops = right_side(c);
}

/* ---- tables -------------------------------------------------------------- */

#define TYPES "T=float|double|complex64|complex128"
#define DTYPES "T: {double, float, half, complex64, complex128}"

static const td_op_def ops[] = {
    {.type = "MatrixInverse",
     .sig = "input: T -> output: T; adjoint: bool = false; " DTYPES,
     .shape = td_linalg_infer_square,
     .cost = inverse_cost,
     .doc = "The inverse of each square matrix, or of its conjugated "
            "transpose.",
     .example = "td.matrix_inverse{{2.0, 0.0}, {0.0, 4.0}}[1]  --> 0 0.25",
     .section = "Matrix / linear algebra"},
    {.type = "MatrixSolve",
     .sig = "matrix: T, rhs: T -> output: T; adjoint: bool = false; " DTYPES,
     .shape = solve_infer,
     .cost = solve_cost,
     .doc = "X of matrix X = rhs, for each square matrix or its conjugated "
            "transpose.",
     .example = "td.matrix_solve({{2.0, 1.0}, {0.0, 4.0}}, {{4.0}, {8.0}})[0]"
                "  --> 1",
     .section = "Matrix / linear algebra"},
    {.type = "MatrixTriangularSolve",
     .sig = "matrix: T, rhs: T -> output: T; lower: bool = true; "
            "adjoint: bool = false; "
            "T: {bfloat16, double, float, half, complex64, complex128}",
     .shape = triangular_infer,
     .cost = triangle_cost,
     .doc = "X of matrix X = rhs, for each triangular matrix or its "
            "conjugated transpose; the other triangle is not looked at. A 0 on "
            "the diagonal gives infinity or NaN.",
     .example = "td.matrix_triangular_solve({{2.0, 0.0}, {1.0, 1.0}}, {{2.0}, "
                "{3.0}})  --> 1 2",
     .section = "Matrix / linear algebra"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "MatrixInverse",
     .device = "CPU",
     .types = TYPES "|half",
     .run = inverse_run},
    {.op = "MatrixSolve", .device = "CPU", .types = TYPES, .run = solve_run},
    {.op = "MatrixTriangularSolve",
     .device = "CPU",
     .types = TYPES,
     .run = triangular_run},
    {0},
};

TD_MODULE(solve, ops, kernels)
