/* lu.c - Lu: a square matrix, its rows exchanged, as L U.
 *
 * The pivot of a column is its largest element, as in TensorFlow: the first of
 * equal ones, and NaN only where it stands first. LAPACK says so of finite
 * reals only: it measures complex numbers by |re| + |im|. So where pivots are
 * seen those, and whatever holds NaN or infinity, are factored here, by halves
 * of the columns (Toledo, "Locality of reference in LU decomposition with
 * partial pivoting", 1997), which leaves the work to gemm.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/lu.h"

#include <math.h>

#include "kernels/element.h"

enum { PANEL = 8 /* columns that are not halved */ };

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

/* ---- by halves ----------------------------------------------------------- */

#define SIZE_f32(x) fabsf(x)
#define SIZE_f64(x) fabs(x)
#define SIZE_c64(x) cabsf(x)
#define SIZE_c128(x) cabs(x)

/* Columns [0, cols) of `a`, which are n long; rows [0, row) are done. Swaps are
 * written as LAPACK's. */
#define PANEL_OF(kind, ...)                                                    \
  static void panel_##kind(int64_t n, int64_t row, int64_t cols, void *at,     \
                           int *pivots) {                                      \
    td_##kind *a = at;                                                         \
    for (int64_t j = 0; j < cols; j++, row++) {                                \
      td_##kind *column = a + j * n, value;                                    \
      double size, largest = SIZE_##kind(column[row]);                         \
      int64_t best = row;                                                      \
      for (int64_t i = row + 1; i < n; i++)                                    \
        if ((size = SIZE_##kind(column[i])) > largest)                         \
          best = i, largest = size;                                            \
      pivots[row] = (int)best + 1;                                             \
      for (int64_t k = 0; k < cols && best != row; k++) {                      \
        value = a[k * n + row];                                                \
        a[k * n + row] = a[k * n + best];                                      \
        a[k * n + best] = value;                                               \
      }                                                                        \
      value = column[row];                                                     \
      if (value == 0) continue;                                                \
      for (int64_t i = row + 1; i < n; i++) column[i] /= value;                \
      for (int64_t k = j + 1; k < cols; k++)                                   \
        for (int64_t i = row + 1; i < n; i++)                                  \
          a[k * n + i] -= column[i] * a[k * n + row];                          \
    }                                                                          \
  }                                                                            \
  static void swap_##kind(int64_t n, int64_t from, int64_t to, int64_t cols,   \
                          void *at, const int *pivots) {                       \
    td_##kind *a = at, value;                                                  \
    for (int64_t k = 0; k < cols; k++, a += n)                                 \
      for (int64_t i = from; i < to; i++) {                                    \
        value = a[i];                                                          \
        a[i] = a[pivots[i] - 1];                                               \
        a[pivots[i] - 1] = value;                                              \
      }                                                                        \
  }                                                                            \
  /* The first pivot that is 0, counted from 1; NaN in front is one. */        \
  static int zero_##kind(int64_t n, const void *at) {                          \
    const td_##kind *a = at;                                                   \
    if (SIZE_##kind(a[0]) != SIZE_##kind(a[0])) return 1;                      \
    for (int64_t i = 0; i < n; i++)                                            \
      if (a[i * (n + 1)] == 0) return (int)i + 1;                              \
    return 0;                                                                  \
  }
EACH_FLOATS_C(PANEL_OF, )

typedef struct loops {
  void (*panel)(int64_t n, int64_t row, int64_t cols, void *at, int *pivots);
  void (*swap)(int64_t n, int64_t from, int64_t to, int64_t cols, void *at,
               const int *pivots);
  int (*zero)(int64_t n, const void *at);
} loops;

static const loops *loops_of(td_dtype t) {
#define LOOPS(kind, ...) {panel_##kind, swap_##kind, zero_##kind},
  static const loops all[] = {EACH_FLOATS_C(LOOPS, )};
  return &all[t == TD_FLOAT32     ? 0
              : t == TD_FLOAT64   ? 1
              : t == TD_COMPLEX64 ? 2
                                  : 3];
}

/* The rest of `cols` columns at `right` after `done` columns from `row` on at
 * `left` are factors: U of them, and what is left below. */
static void eliminate(const td_linalg *l, int row, int done, int cols,
                      const char *left, char *right) {
  static const td_c64 one = 1, minus = -1;
  static const td_c128 one_d = 1, minus_d = -1;
  bool wide = l->real == TD_FLOAT64; /* a real number begins a complex one */
  int n = (int)l->m, below = n - row - done, info;
  size_t top = (size_t)row * l->size, rest = (size_t)(row + done) * l->size;
  l->call->trtrs("L", "N", "U", &done, &cols, left + top, &n, right + top, &n,
                 &info, 1, 1, 1);
  if (below > 0)
    l->call->gemm("N", "N", &below, &cols, &done,
                  wide ? (const void *)&minus_d : &minus, left + rest, &n,
                  right + top, &n, wide ? (const void *)&one_d : &one,
                  right + rest, &n, 1, 1);
}

static void halve(const td_linalg *l, int64_t row, int64_t cols, char *a,
                  int *pivots) {
  const loops *of = loops_of(l->dtype);
  int64_t n = l->m, half = cols / 2;
  char *right = a + (size_t)(half * n) * l->size;
  if (cols <= PANEL) {
    of->panel(n, row, cols, a, pivots);
    return;
  }
  halve(l, row, half, a, pivots);
  of->swap(n, row, row + half, cols - half, right, pivots);
  eliminate(l, (int)row, (int)half, (int)(cols - half), a, right);
  halve(l, row + half, cols - half, right, pivots);
  of->swap(n, row + half, row + cols, half, a, pivots);
}

int td_lu_columns(const td_linalg *l, bool visible, void *a, int *pivots) {
  int n = (int)l->m, info = 0;
  if (n == 0) return 0;
  if (!(visible && l->dtype != l->real) &&
      td_linalg_finite(l, (int64_t)n * n, a)) {
    l->call->getrf(&n, &n, a, &n, pivots, &info);
    return info;
  }
  halve(l, 0, n, a, pivots);
  return loops_of(l->dtype)->zero(n, a);
}

int td_lu_factor(const td_linalg *l, const td_lu *f, int64_t i, void *work,
                 void **a, int **pivots) {
  int64_t n = l->m;
  *a = (char *)work + f->a;
  *pivots = (int *)((char *)work + f->pivots);
  td_linalg_load(l, f->matrix, i, n, n, false, *a);
  return td_lu_columns(l, f->visible, *a, *pivots);
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
  job j = {.lu = {.matrix = td_in(c, 0), .visible = true}};
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

/* ---- cost -----------------------------------------------------------------
 */

static void lu_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_linalg_cube(c, 0) * 2 / 3;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Lu",
     .sig = "input: T -> lu: T, p: output_idx_type; "
            "T: {double, float, half, complex64, complex128}; "
            "output_idx_type: {int32, int64} = int32",
     .shape = lu_infer,
     .cost = lu_cost,
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
