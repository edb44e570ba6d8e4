/* determinant.c - MatrixDeterminant, LogMatrixDeterminant, from the factors
 * of P A = L U.
 *
 * A determinant is kept as a number near 1 and an exponent of 2, so that it
 * neither overflows nor rounds on the way to its logarithm.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/element.h"
#include "kernels/lu.h"
#include "kernels/num.h"

typedef struct job {
  td_lu lu;
  td_tensor *out, *second;
} job;

/* z * 2^exponent */
typedef struct scaled {
  td_c128 z;
  double exponent;
} scaled;

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
  const job *j = l->arg;
  scaled d = {1, 0};
  td_lu_factor(l, &j->lu, i, work, &a, &pivots);
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
  const job *j = l->arg;
  scaled d = determinant(l, i, work);
  int e = (int)fmin(fmax(d.exponent, -5000), 5000);
  td_c128 z = td_num_complex(ldexp(creal(d.z), e), ldexp(cimag(d.z), e));
  put(l, j->out, i, z);
  return 0;
}

/* Of a singular matrix the sign is 0, as in TensorFlow. */
static int log_one(const td_linalg *l, int64_t i, void *work) {
  const job *j = l->arg;
  scaled d = determinant(l, i, work);
  double size = cabs(d.z), log_size = log(size) + d.exponent * M_LN2;
  td_c128 sign = isinf(size) ? (creal(d.z) > 0 ? 1 : -1) : d.z / size;
  put(l, j->out, i, size == 0 ? 0 : sign);
  put(l, j->second, i, log_size);
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
  job j = {.lu = {.matrix = td_in(c, 0)}};
  td_shape out = j.lu.matrix->shape;
  TD_TRY(td_linalg_squares(&out, "input"));
  out.rank -= 2;
  TD_TRY(td_out(c, 0, &out, &j.out));
  if (two) TD_TRY(td_out(c, 1, &out, &j.second));
  if (td_tensor_count(j.out) == 0) return NULL;
  l->arg = &j;
  TD_TRY(td_lu_begin(l, &j.lu));
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

/* ---- cost -----------------------------------------------------------------
 */

static void determinant_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_linalg_cube(c, 0) * 2 / 3;
}

/* ---- tables -------------------------------------------------------------- */

#define TYPES "T=float|double|complex64|complex128"

static const td_op_def ops[] = {
    {.type = "MatrixDeterminant",
     .sig = "input: T -> output: T; "
            "T: {half, float, double, complex64, complex128}",
     .shape = infer,
     .cost = determinant_cost,
     .doc = "The determinant of each square matrix.",
     .example = "td.matrix_determinant{{2.0, 1.0}, {0.0, 4.0}}  --> 8",
     .section = "Matrix / linear algebra"},
    {.type = "LogMatrixDeterminant",
     .sig = "input: T -> sign: T, log_abs_determinant: T; "
            "T: {half, float, double, complex64, complex128}",
     .shape = infer,
     .cost = determinant_cost,
     .doc = "The sign of each square matrix's determinant, and the logarithm "
            "of its size.",
     .example = "td.log_matrix_determinant{{2.0, 0.0}, {0.0, -0.5}}  --> -1",
     .section = "Matrix / linear algebra"},
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
    {0},
};

TD_MODULE(determinant, ops, kernels)
