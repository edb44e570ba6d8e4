/* determinant.c - MatrixDeterminant, LogMatrixDeterminant, Lu: what the factors
 * of P A = L U say.
 *
 * A determinant is kept as a number near 1 and an exponent of 2, so that it
 * neither overflows nor rounds on the way to its logarithm.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/element.h"
#include "kernels/linalg.h"
#include "kernels/num.h"

typedef struct factors {
  const td_tensor *matrix;
  td_tensor *out, *second;
  size_t a, pivots; /* places in the working memory */
} factors;

/* z * 2^exponent */
typedef struct scaled {
  td_c128 z;
  double exponent;
} scaled;

static td_status *plan(td_linalg *l, factors *f) {
  const td_shape *a = &f->matrix->shape;
  l->from = f->matrix->dtype;
  l->m = a->dim[a->rank - 2];
  l->n = a->dim[a->rank - 1];
  l->count = td_linalg_count(a);
  l->arg = f;
  TD_TRY(td_linalg_begin(l));
  if (!td_linalg_room(l, l->m * l->n, l->size, &f->a) ||
      !td_linalg_room(l, l->m, sizeof(int), &f->pivots))
    return td_linalg_too_large(l);
  return NULL;
}

/* Row i was exchanged for row pivots[i] - 1, in that order. */
static int factor(const td_linalg *l, int64_t i, void *work, void **a,
                  int **pivots) {
  const factors *f = l->arg;
  int n = (int)l->m, info = 0, ld = td_linalg_ld(n);
  *a = (char *)work + f->a;
  *pivots = (int *)((char *)work + f->pivots);
  td_linalg_load(l, f->matrix, i, n, n, false, *a);
  if (n > 0) l->call->getrf(&n, &n, *a, &ld, *pivots, &info);
  return info;
}

/* ---- determinants -------------------------------------------------------- */

static td_c128 element(const td_linalg *l, const void *a, int64_t i) {
  switch (l->dtype) {
  case TD_FLOAT32:
    return (double)((const td_f32 *)a)[i];
  case TD_FLOAT64:
    return ((const td_f64 *)a)[i];
  case TD_COMPLEX64:
    return ((const td_c64 *)a)[i];
  default:
    return ((const td_c128 *)a)[i];
  }
}

static void multiply(scaled *d, td_c128 z) {
  int e;
  d->z *= z;
  double size = fmax(fabs(creal(d->z)), fabs(cimag(d->z)));
  if (size == 0 || !isfinite(size)) return;
  frexp(size, &e);
  d->z = td_num_complex(ldexp(creal(d->z), -e), ldexp(cimag(d->z), -e));
  d->exponent += e;
}

static scaled determinant(const td_linalg *l, int64_t i, void *work) {
  void *a;
  int *pivots;
  scaled d = {1, 0};
  factor(l, i, work, &a, &pivots);
  for (int64_t k = 0; k < l->m; k++) {
    if (pivots[k] != k + 1) d.z = -d.z;
    multiply(&d, element(l, a, k * l->m + k));
  }
  return d;
}

static void put(const td_linalg *l, td_tensor *t, int64_t i, td_c128 z) {
  if (l->dtype == TD_COMPLEX64)
    ((td_c64 *)t->data)[i] = (td_c64)z;
  else if (l->dtype == TD_COMPLEX128)
    ((td_c128 *)t->data)[i] = z;
  else
    td_tensor_set_f(t, i, creal(z));
}

static int plain_one(const td_linalg *l, int64_t i, void *work) {
  const factors *f = l->arg;
  scaled d = determinant(l, i, work);
  int e = (int)fmin(fmax(d.exponent, -5000), 5000);
  td_c128 z = td_num_complex(ldexp(creal(d.z), e), ldexp(cimag(d.z), e));
  put(l, f->out, i, z);
  return 0;
}

/* Of a singular matrix the sign is 0, as in TensorFlow. */
static int log_one(const td_linalg *l, int64_t i, void *work) {
  const factors *f = l->arg;
  scaled d = determinant(l, i, work);
  double size = cabs(d.z), log_size = log(size) + d.exponent * M_LN2;
  td_c128 sign = isinf(size) ? (creal(d.z) > 0 ? 1 : -1) : d.z / size;
  put(l, f->out, i, size == 0 ? 0 : sign);
  put(l, f->second, i, log_size);
  return 0;
}

static td_status *infer(td_infer *c) {
  td_shape s = *td_infer_in(c, 0);
  TD_TRY(td_linalg_squares(&s, "input"));
  if (s.rank >= 2) s.rank -= 2;
  for (int i = 0; i < td_infer_outputs(c); i++) td_infer_out(c, i, s);
  return NULL;
}

static td_status *run(td_kernel_ctx *c, td_linalg *l, bool two) {
  factors f = {.matrix = td_in(c, 0)};
  td_shape out = f.matrix->shape;
  TD_TRY(td_linalg_squares(&out, "input"));
  out.rank -= 2;
  TD_TRY(td_out(c, 0, &out, &f.out));
  if (two) TD_TRY(td_out(c, 1, &out, &f.second));
  if (td_tensor_count(f.out) == 0) return NULL;
  TD_TRY(plan(l, &f));
  return td_linalg_run(c, l);
}

static td_status *plain_run(td_kernel_ctx *c) {
  td_linalg l = {.one = plain_one};
  return run(c, &l, false);
}

static td_status *log_run(td_kernel_ctx *c) {
  td_linalg l = {.one = log_one};
  return run(c, &l, true);
}

/* ---- Lu ------------------------------------------------------------------ */

/* Row i of P A is row p[i] of A. */
static int lu_one(const td_linalg *l, int64_t i, void *work) {
  const factors *f = l->arg;
  void *a;
  int *pivots;
  int64_t n = l->m, first = i * n;
  if (factor(l, i, work, &a, &pivots) != 0) return TD_LINALG_FAILED;
  td_linalg_store(l, a, n, n, n, false, f->out, i);
  for (int64_t k = 0; k < n; k++) td_tensor_set_i(f->second, first + k, k);
  for (int64_t k = 0; k < n; k++) {
    int64_t other = first + pivots[k] - 1;
    int64_t row = td_tensor_get_i(f->second, first + k);
    td_tensor_set_i(f->second, first + k, td_tensor_get_i(f->second, other));
    td_tensor_set_i(f->second, other, row);
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
  td_linalg l = {.one = lu_one, .fault = "is not invertible"};
  factors f = {.matrix = td_in(c, 0)};
  td_shape s = f.matrix->shape;
  TD_TRY(td_linalg_squares(&s, "input"));
  TD_TRY(td_out(c, 0, &s, &f.out));
  s.rank -= 1;
  TD_TRY(td_out(c, 1, &s, &f.second));
  if (td_tensor_count(f.out) == 0) return NULL;
  TD_TRY(plan(&l, &f));
  return td_linalg_run(c, &l);
}

/* ---- tables -------------------------------------------------------------- */

#define TYPES "T=float|double|complex64|complex128"

static const td_op_def ops[] = {
    {.type = "MatrixDeterminant",
     .sig = "input: T -> output: T; "
            "T: {half, float, double, complex64, complex128}",
     .shape = infer,
     .doc = "The determinant of each square matrix.",
     .example = "td.matrix_determinant{{2.0, 1.0}, {0.0, 4.0}}  --> 8",
     .section = "Matrix / linear algebra"},
    {.type = "LogMatrixDeterminant",
     .sig = "input: T -> sign: T, log_abs_determinant: T; "
            "T: {half, float, double, complex64, complex128}",
     .shape = infer,
     .doc = "The sign of each square matrix's determinant, and the logarithm "
            "of its size.",
     .example = "td.log_matrix_determinant{{2.0, 0.0}, {0.0, -0.5}}  --> -1",
     .section = "Beyond"},
    {.type = "Lu",
     .sig = "input: T -> lu: T, p: output_idx_type; "
            "T: {double, float, half, complex64, complex128}; "
            "output_idx_type: {int32, int64} = int32",
     .shape = lu_infer,
     .doc = "Each square matrix, its rows in the order p, as the product of a "
            "lower triangle with ones on its diagonal and an upper one, both "
            "in lu.",
     .example = "td.lu{{4.0, 2.0}, {2.0, 3.0}}  --> {2, 2} 4 2 0.5 2",
     .section = "Beyond"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "MatrixDeterminant",
     .device = "CPU",
     .types = TYPES,
     .run = plain_run},
    {.op = "LogMatrixDeterminant",
     .device = "CPU",
     .types = TYPES,
     .run = log_run},
    {.op = "Lu", .device = "CPU", .types = TYPES, .run = lu_run},
    {0},
};

TD_MODULE(determinant, ops, kernels)
