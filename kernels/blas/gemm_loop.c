/* gemm_loop.c - plain products: integers, and complex numbers without a
 * library.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <complex.h>
#include <string.h>

#include "kernels/blas/gemm.h"

/* A row of C grows by rows of B. Where those are columns as stored, they are
 * gathered a block at a time. */
enum { BLOCK = 256 };

#define SAME(x) (x)
#define PRODUCT(kind, type, conj)                                              \
  static void gather_##kind(const type *from, int64_t step, int64_t n,         \
                            bool conjugate, type *to) {                        \
    for (int64_t j = 0; j < n; j++)                                            \
      to[j] = conjugate ? (type)conj(from[j * step]) : from[j * step];         \
  }                                                                            \
  static void multiply_##kind(const td_product *g) {                           \
    const type *a = g->a, *b = g->b;                                           \
    const int64_t row_a = g->trans_a ? 1 : g->lda;                             \
    const int64_t step_a = g->trans_a ? g->lda : 1;                            \
    const int64_t row_b = g->trans_b ? 1 : g->ldb;                             \
    type line[BLOCK];                                                          \
    for (int64_t i = 0; i < g->m; i++)                                         \
      memset((type *)g->c + i * g->ldc, 0, (size_t)g->n * sizeof(type));       \
    for (int64_t j = 0; j < g->n; j += BLOCK) {                                \
      const int64_t n = g->n - j < BLOCK ? g->n - j : BLOCK;                   \
      for (int64_t p = 0; p < g->k; p++) {                                     \
        const type *y = b + p * row_b + (g->trans_b ? j * g->ldb : j);         \
        if (g->trans_b) gather_##kind(y, g->ldb, n, g->conj_b, line);          \
        if (g->trans_b) y = line;                                              \
        for (int64_t i = 0; i < g->m; i++) {                                   \
          type x = a[i * row_a + p * step_a];                                  \
          type *restrict c = (type *)g->c + i * g->ldc + j;                    \
          if (g->conj_a) x = (type)conj(x);                                    \
          for (int64_t q = 0; q < n; q++) c[q] = (type)(c[q] + x * y[q]);      \
        }                                                                      \
      }                                                                        \
    }                                                                          \
  }
PRODUCT(f32, float, SAME)
PRODUCT(f64, double, SAME)
PRODUCT(i16, int16_t, SAME)
PRODUCT(i32, int32_t, SAME)
PRODUCT(i64, int64_t, SAME)
PRODUCT(c64, float complex, conjf)
PRODUCT(c128, double complex, conj)

void td_gemm_loop(const td_product *p) {
  static void (*const multiply[TD_DTYPES])(const td_product *) = {
      [TD_FLOAT32] = multiply_f32,     [TD_FLOAT64] = multiply_f64,
      [TD_INT16] = multiply_i16,       [TD_INT32] = multiply_i32,
      [TD_INT64] = multiply_i64,       [TD_COMPLEX64] = multiply_c64,
      [TD_COMPLEX128] = multiply_c128,
  };
  multiply[p->dtype](p);
}
