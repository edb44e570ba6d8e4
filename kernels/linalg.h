/* linalg.h - matrices in the last two axes, one after the other through LAPACK.
 *
 * A kernel says how large the matrices are, how much working memory one takes
 * and what to do with it; batches are spread over threads, each matrix on one.
 * LAPACK wants columns, so matrices are turned round on their way in and out;
 * halves are computed in float there. Matrices are of sizes that an int holds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LINALG_H
#define TD_LINALG_H

#include "engine/device/kernel.h"
#include "kernels/blas/lapack.h"

TD_BEGIN

/* ---- shapes -------------------------------------------------------------- */

/* A matrix or more; in a shape function rank and sizes may be unknown. */
td_status *td_linalg_matrices(const td_shape *s, const char *what) TD_MUST_USE;
/* The same, square. */
td_status *td_linalg_squares(const td_shape *s, const char *what) TD_MUST_USE;
/* Shape function: input 0 is square matrices, every output is like it. */
td_status *td_linalg_infer_square(td_infer *c) TD_MUST_USE;
/* Shape function: input 0 is square matrices, output 0 a vector for each and
 * output 1 like input 0, or empty without compute_v. */
td_status *td_linalg_infer_eig(td_infer *c) TD_MUST_USE;
/* Of X in A X = B (solve.c), of batches that broadcast or must be equal. */
td_status *td_linalg_solve_shape(const td_shape *a, const td_shape *b,
                                 bool broadcast, td_shape *out) TD_MUST_USE;
/* Of Q and R (qr.c), of `s` with a known rank; sizes not known are -1. */
void td_linalg_qr_shapes(const td_shape *s, bool full, td_shape *q,
                         td_shape *r);
/* For costs: elements of input i times the smaller size of its matrices. */
double td_linalg_cube(const td_infer *c, int i);
/* The axes of `s` before the last two, and after them `n` more sizes. The rank
 * of `s` is known. */
td_shape td_linalg_shape(const td_shape *s, int n, const int64_t *sizes);
/* Matrices in a known shape. */
int64_t td_linalg_count(const td_shape *s);

/* ---- running ------------------------------------------------------------- */

enum {
  TD_LINALG_FAILED = 1,     /* the matrix is not as it must be */
  TD_LINALG_NO_MEMORY = -1, /* no working memory */
};

typedef struct td_linalg td_linalg;
struct td_linalg {
  td_dtype from; /* of the tensors */
  /* Does one matrix; 0, TD_LINALG_FAILED, or as LAPACK says. `work` is aligned
   * to 64 bytes, not cleared. */
  int (*one)(const td_linalg *l, int64_t i, void *work);
  int64_t count;     /* matrices */
  int64_t m, n, k;   /* the sizes, for checks and cost; k may be 0 */
  size_t work;       /* bytes that one call needs */
  const char *fault; /* "is singular": what a failed matrix is */
  const void *arg;   /* the kernel's own */
  /* set by td_linalg_begin */
  td_dtype dtype; /* LAPACK's: float for halves */
  size_t size;    /* bytes of one of its elements */
  const td_lapack *call;
  td_dtype real; /* of singular and eigenvalues */
};

/* Checks sizes and the library, and fills the last fields. */
td_status *td_linalg_begin(td_linalg *l) TD_MUST_USE;
/* Adds room for `n` elements of `size` bytes to l->work, aligned; where in it
 * is *at. False when it is too much. */
bool td_linalg_room(td_linalg *l, int64_t n, size_t size,
                    size_t *at) TD_MUST_USE;
td_status *td_linalg_too_large(const td_linalg *l) TD_MUST_USE;
/* Runs `one` for every matrix; the first that failed is named. */
td_status *td_linalg_run(td_kernel_ctx *c, td_linalg *l) TD_MUST_USE;

/* ---- matrices in and out ------------------------------------------------- */

/* Matrix i of `t` (rows x cols, l->from) as columns; `adjoint`: its conjugated
 * transpose instead. */
void td_linalg_load(const td_linalg *l, const td_tensor *t, int64_t i,
                    int64_t rows, int64_t cols, bool adjoint, void *to);
/* Are n elements, as loaded, without NaN and infinity? Iterations of LAPACK's
 * may not end on those. */
bool td_linalg_finite(const td_linalg *l, int64_t n, const void *at);
/* Columns (rows x cols, column j at j * ld elements) as matrix i of `t`;
 * `adjoint`: the conjugated transpose of the columns, t's being cols x rows. */
void td_linalg_store(const td_linalg *l, const void *from, int64_t rows,
                     int64_t cols, int64_t ld, bool adjoint, const td_tensor *t,
                     int64_t i);
/* n real numbers as elements [i * n, ...) of `t`. */
void td_linalg_store_real(const td_linalg *l, const void *from, int64_t n,
                          const td_tensor *t, int64_t i);
/* Columns become zeros, ones on the diagonal. */
void td_linalg_identity(const td_linalg *l, int64_t rows, int64_t cols,
                        void *to);
/* n elements become NaN, both parts of complex ones. */
void td_linalg_nan(const td_linalg *l, int64_t n, void *at);
/* What a routine said it needs, in elements: the first of `work`. */
int64_t td_linalg_asked(const td_linalg *l, const void *work);

/* LAPACK's leading dimensions are at least 1. */
static inline int td_linalg_ld(int64_t rows) {
  return rows > 0 ? (int)rows : 1;
}

TD_END
#endif
