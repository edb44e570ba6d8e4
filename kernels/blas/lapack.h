/* lapack.h - the LAPACK routines that kernels call, for one dtype each.
 *
 * They come through the door to OpenBLAS (blas.h). The four dtypes share one
 * type of each routine, with elements as void *; what only complex routines
 * take (rwork) is in their own fields. Fortran appends the length of each
 * string argument.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LAPACK_H
#define TD_LAPACK_H

#include <stddef.h>

#include "engine/tensor/dtype.h"

TD_BEGIN

typedef struct td_lapack {
  /* C = alpha op(A) op(B) + beta C */
  void (*gemm)(const char *op_a, const char *op_b, const int *m, const int *n,
               const int *k, const void *alpha, const void *a, const int *lda,
               const void *b, const int *ldb, const void *beta, void *c,
               const int *ldc, size_t, size_t);
  /* A = P L U */
  void (*getrf)(const int *m, const int *n, void *a, const int *lda, int *pivot,
                int *info);
  /* op(A) X = B, A as getrf left it */
  void (*getrs)(const char *op, const int *n, const int *columns, const void *a,
                const int *lda, const int *pivot, void *b, const int *ldb,
                int *info, size_t);
  /* A = L L^H */
  void (*potrf)(const char *half, const int *n, void *a, const int *lda,
                int *info, size_t);
  /* A = L L^H as potrf left it: A X = B */
  void (*potrs)(const char *half, const int *n, const int *columns,
                const void *a, const int *lda, void *b, const int *ldb,
                int *info, size_t);
  /* op(A) X = B, A triangular */
  void (*trtrs)(const char *half, const char *op, const char *diagonal,
                const int *n, const int *columns, const void *a, const int *lda,
                void *b, const int *ldb, int *info, size_t, size_t, size_t);
  /* A = Q R, Q as reflections */
  void (*geqrf)(const int *m, const int *n, void *a, const int *lda, void *tau,
                void *work, const int *lwork, int *info);
  /* Q out of k reflections */
  void (*orgqr)(const int *m, const int *n, const int *k, void *a,
                const int *lda, const void *tau, void *work, const int *lwork,
                int *info);
  /* A = U S V^H */
  void (*gesdd)(const char *job, const int *m, const int *n, void *a,
                const int *lda, void *s, void *u, const int *ldu, void *vh,
                const int *ldvh, void *work, const int *lwork, int *iwork,
                int *info, size_t);
  void (*gesdd_complex)(const char *job, const int *m, const int *n, void *a,
                        const int *lda, void *s, void *u, const int *ldu,
                        void *vh, const int *ldvh, void *work, const int *lwork,
                        void *rwork, int *iwork, int *info, size_t);
  /* A = V E V^H, A symmetric or Hermitian */
  void (*syevd)(const char *job, const char *half, const int *n, void *a,
                const int *lda, void *e, void *work, const int *lwork,
                int *iwork, const int *liwork, int *info, size_t, size_t);
  void (*heevd)(const char *job, const char *half, const int *n, void *a,
                const int *lda, void *e, void *work, const int *lwork,
                void *rwork, const int *lrwork, int *iwork, const int *liwork,
                int *info, size_t, size_t);
  /* A V = V E of any square A: wr and wi have the parts of real matrices' E */
  void (*geev)(const char *left, const char *right, const int *n, void *a,
               const int *lda, void *wr, void *wi, void *vl, const int *ldvl,
               void *v, const int *ldv, void *work, const int *lwork, int *info,
               size_t, size_t);
  void (*geev_complex)(const char *left, const char *right, const int *n,
                       void *a, const int *lda, void *e, void *vl,
                       const int *ldvl, void *v, const int *ldv, void *work,
                       const int *lwork, void *rwork, int *info, size_t,
                       size_t);
  /* The shortest X with the least |A X - B|, singular A too */
  void (*gelsy)(const int *m, const int *n, const int *columns, void *a,
                const int *lda, void *b, const int *ldb, int *pivot,
                const void *least, int *rank, void *work, const int *lwork,
                int *info);
  void (*gelsy_complex)(const int *m, const int *n, const int *columns, void *a,
                        const int *lda, void *b, const int *ldb, int *pivot,
                        const void *least, int *rank, void *work,
                        const int *lwork, void *rwork, int *info);
} td_lapack;

/* The routines of float, double, complex64 or complex128; NULL when the library
 * or one of them is not there. Opens it. */
const td_lapack *td_lapack_of(td_dtype dtype);

TD_END
#endif
