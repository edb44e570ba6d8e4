/* linalg.c - batches of matrices through LAPACK.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "kernels/blas/blas.h"
#include "kernels/cpu.h"
#include "kernels/element.h"

enum { ALIGNED = 64, OPERATIONS = 1 << 20 /* of a piece, at least */ };

/* ---- shapes -------------------------------------------------------------- */

td_status *td_linalg_matrices(const td_shape *s, const char *what) {
  td_shape_text text;
  if (s->rank < 0 || s->rank >= 2) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be of rank 2 or more, not %s",
                  what, td_shape_str(s, &text));
}

td_status *td_linalg_squares(const td_shape *s, const char *what) {
  td_shape_text text;
  TD_TRY(td_linalg_matrices(s, what));
  if (s->rank < 0) return NULL;
  int64_t rows = s->dim[s->rank - 2], cols = s->dim[s->rank - 1];
  if (rows == cols || rows < 0 || cols < 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be square matrices, not of shape %s", what,
                  td_shape_str(s, &text));
}

td_status *td_linalg_infer_square(td_infer *c) {
  td_shape s = *td_infer_in(c, 0);
  TD_TRY(td_linalg_squares(&s, "input"));
  if (s.rank >= 2) {
    int64_t *last = &s.dim[s.rank - 2];
    last[0] = last[1] = last[0] < 0 ? last[1] : last[0];
  }
  for (int i = 0; i < td_infer_outputs(c); i++) td_infer_out(c, i, s);
  return NULL;
}

td_status *td_linalg_infer_eig(td_infer *c) {
  td_shape s = *td_infer_in(c, 0);
  TD_TRY(td_linalg_infer_square(c));
  if (!td_infer_bool(c, "compute_v")) td_infer_out(c, 1, td_shape_vector(0));
  if (s.rank < 2) return NULL;
  if (s.dim[s.rank - 2] < 0) s.dim[s.rank - 2] = s.dim[s.rank - 1];
  s.rank -= 1;
  td_infer_out(c, 0, s);
  return NULL;
}

double td_linalg_cube(const td_infer *c, int i) {
  double m = td_infer_size(td_infer_in(c, i), -2);
  double n = td_infer_size(td_infer_in(c, i), -1);
  return td_infer_in_count(c, i) * (m < n ? m : n);
}

td_shape td_linalg_shape(const td_shape *s, int n, const int64_t *sizes) {
  td_shape out = *s;
  out.rank = s->rank - 2;
  for (int i = 0; i < n; i++) out.dim[out.rank++] = sizes[i];
  return out;
}

int64_t td_linalg_count(const td_shape *s) {
  return td_shape_span(s, 0, s->rank - 2);
}

/* ---- running ------------------------------------------------------------- */

td_status *td_linalg_too_large(const td_linalg *l) {
  return td_error(TD_INVALID_ARGUMENT,
                  "matrices of %lld rows and %lld columns are too large for "
                  "LAPACK",
                  (long long)l->m, (long long)l->n);
}

td_status *td_linalg_begin(td_linalg *l) {
  l->dtype = td_is_half(l->from) ? TD_FLOAT32 : l->from;
  l->size = td_dtype_size(l->dtype);
  l->real = l->dtype == TD_COMPLEX64    ? TD_FLOAT32
            : l->dtype == TD_COMPLEX128 ? TD_FLOAT64
                                        : l->dtype;
  l->call = td_lapack_of(l->dtype);
  if (!l->call)
    return td_error(TD_FAILED_PRECONDITION,
                    "linear algebra needs OpenBLAS with LAPACK "
                    "(libopenblas0-pthread): %s",
                    td_blas_about());
  /* LAPACK multiplies sizes in an int too. */
  if (l->m > INT_MAX || l->n > INT_MAX || l->k > INT_MAX ||
      (double)l->m * (double)l->n > INT_MAX ||
      (double)l->m * (double)l->m > INT_MAX ||
      (double)l->n * (double)l->n > INT_MAX)
    return td_linalg_too_large(l);
  return NULL;
}

bool td_linalg_room(td_linalg *l, int64_t n, size_t size, size_t *at) {
  size_t bytes;
  *at = l->work;
  return td_mul((size_t)n, size, &bytes) &&
         td_add(bytes, ALIGNED - 1, &bytes) &&
         td_add(l->work, bytes & ~(size_t)(ALIGNED - 1), &l->work);
}

typedef struct batches {
  const td_linalg *l;
  int *info; /* of each matrix */
} batches;

static void run_piece(void *arg, int64_t begin, int64_t end) {
  const batches *b = arg;
  void *work = td_aligned_alloc(ALIGNED, b->l->work ? b->l->work : 1);
  for (int64_t i = begin; i < end; i++)
    b->info[i] = work ? b->l->one(b->l, i, work) : TD_LINALG_NO_MEMORY;
  td_free(work);
}

static td_status *failure(const td_linalg *l, int64_t i, int info) {
  if (info == TD_LINALG_NO_MEMORY) return td_oom();
  if (l->count == 1)
    return td_error(TD_INVALID_ARGUMENT, "the matrix of %lld rows %s",
                    (long long)l->m, l->fault);
  return td_error(TD_INVALID_ARGUMENT, "matrix %lld of %lld %s", (long long)i,
                  (long long)l->count, l->fault);
}

td_status *td_linalg_run(td_kernel_ctx *c, td_linalg *l) {
  td_status *s = NULL;
  double cost = ((double)l->m + 1) * ((double)l->n + 1) *
                (fmin((double)l->m, (double)l->n) + (double)l->k + 1);
  if (l->count == 0) return NULL;
  batches b = {l, td_calloc((size_t)l->count, sizeof *b.info)};
  if (!b.info) return td_oom();
  td_for(c, l->count, cost < OPERATIONS ? (int64_t)(OPERATIONS / cost) : 1,
         run_piece, &b);
  for (int64_t i = 0; i < l->count && td_ok(s); i++)
    if (b.info[i] != 0) s = failure(l, i, b.info[i]);
  td_free(b.info);
  return s;
}

/* ---- matrices in and out ------------------------------------------------- */

static float half_in(td_dtype t, uint16_t x) {
  return t == TD_FLOAT16 ? td_float_from_half(x) : td_float_from_bfloat16(x);
}

static uint16_t half_out(td_dtype t, float x) {
  return t == TD_FLOAT16 ? td_float_to_half(x) : td_float_to_bfloat16(x);
}

/* to[j, i] = from[i, j], rows of `from` `ld` apart. */
#define TURN(kind, ...)                                                        \
  static void turn_##kind(const void *from, int64_t rows, int64_t cols,        \
                          int64_t ld, void *to) {                              \
    const td_##kind *x = from;                                                 \
    td_##kind *y = to;                                                         \
    for (int64_t i = 0; i < rows; i++)                                         \
      for (int64_t j = 0; j < cols; j++) y[j * rows + i] = x[i * ld + j];      \
  }
EACH_FLOATS_C(TURN, )

static void turn(td_dtype t, const void *from, int64_t rows, int64_t cols,
                 int64_t ld, void *to) {
  if (t == TD_FLOAT32)
    turn_f32(from, rows, cols, ld, to);
  else if (t == TD_FLOAT64)
    turn_f64(from, rows, cols, ld, to);
  else if (t == TD_COMPLEX64)
    turn_c64(from, rows, cols, ld, to);
  else
    turn_c128(from, rows, cols, ld, to);
}

static void conjugate(td_dtype t, int64_t n, void *at) {
  if (t == TD_COMPLEX64)
    for (int64_t i = 0; i < n; i++) ((float *)at)[2 * i + 1] *= -1;
  if (t == TD_COMPLEX128)
    for (int64_t i = 0; i < n; i++) ((double *)at)[2 * i + 1] *= -1;
}

void td_linalg_load(const td_linalg *l, const td_tensor *t, int64_t i,
                    int64_t rows, int64_t cols, bool adjoint, void *to) {
  size_t bytes = (size_t)(rows * cols) * td_dtype_size(l->from);
  const char *from = (const char *)t->data + (size_t)i * bytes;
  if (td_is_half(l->from)) {
    const uint16_t *x = (const void *)from;
    float *y = to;
    for (int64_t r = 0; r < rows; r++)
      for (int64_t k = 0; k < cols; k++)
        y[adjoint ? r * cols + k : k * rows + r] =
            half_in(l->from, x[r * cols + k]);
  } else if (adjoint) {
    memcpy(to, from, bytes);
    conjugate(l->dtype, rows * cols, to);
  } else {
    turn(l->dtype, from, rows, cols, cols, to);
  }
}

/* In n elements; complex ones have two. */
static int64_t real_numbers(const td_linalg *l, int64_t n) {
  return n * (int64_t)(l->size / td_dtype_size(l->real));
}

bool td_linalg_finite(const td_linalg *l, int64_t n, const void *at) {
  bool wide = l->real == TD_FLOAT64;
  n = real_numbers(l, n);
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(wide ? ((const double *)at)[i]
                       : (double)((const float *)at)[i]))
      return false;
  return true;
}

void td_linalg_store(const td_linalg *l, const void *from, int64_t rows,
                     int64_t cols, int64_t ld, bool adjoint, const td_tensor *t,
                     int64_t i) {
  char *to =
      (char *)t->data + (size_t)(i * rows * cols) * td_dtype_size(l->from);
  if (td_is_half(l->from)) {
    const float *x = from;
    uint16_t *y = (void *)to;
    for (int64_t k = 0; k < cols; k++)
      for (int64_t r = 0; r < rows; r++)
        y[adjoint ? k * rows + r : r * cols + k] =
            half_out(l->from, x[k * ld + r]);
  } else if (adjoint) {
    size_t row = (size_t)rows * l->size;
    for (int64_t k = 0; k < cols; k++)
      memcpy(to + (size_t)k * row,
             (const char *)from + (size_t)(k * ld) * l->size, row);
    conjugate(l->dtype, rows * cols, to);
  } else {
    turn(l->dtype, from, cols, rows, ld, to);
  }
}

void td_linalg_store_real(const td_linalg *l, const void *from, int64_t n,
                          const td_tensor *t, int64_t i) {
  td_tensor to = *t;
  for (int64_t k = 0; k < n; k++)
    td_tensor_set_f(&to, i * n + k,
                    l->real == TD_FLOAT32 ? (double)((const float *)from)[k]
                                          : ((const double *)from)[k]);
}

void td_linalg_identity(const td_linalg *l, int64_t rows, int64_t cols,
                        void *to) {
  static const td_c64 one = 1;
  static const td_c128 one_d = 1;
  bool wide = l->real == TD_FLOAT64; /* a real 1 begins a complex one */
  memset(to, 0, (size_t)(rows * cols) * l->size);
  for (int64_t i = 0; i < rows && i < cols; i++)
    memcpy((char *)to + (size_t)(i * rows + i) * l->size,
           wide ? (const void *)&one_d : &one, l->size);
}

void td_linalg_nan(const td_linalg *l, int64_t n, void *at) {
  n = real_numbers(l, n);
  for (int64_t i = 0; i < n; i++)
    if (l->real == TD_FLOAT64)
      ((double *)at)[i] = NAN;
    else
      ((float *)at)[i] = NAN;
}

int64_t td_linalg_asked(const td_linalg *l, const void *work) {
  double n = l->real == TD_FLOAT32 ? (double)*(const float *)work
                                   : *(const double *)work;
  return (int64_t)(n * (1 + 0x1p-20)) + 1; /* a float may have rounded it */
}
