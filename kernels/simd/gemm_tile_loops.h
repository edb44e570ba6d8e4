/* gemm_tile_loops.h - the tiles of one instruction set; see gemm_tile.h.
 *
 * Included once by each of kernels/blas/gemm_tile.c, for every processor, and
 * of gemm_tile_avx2.c and gemm_tile_avx512.c here. They say how many BYTES a
 * vector has, how many ROWS of TD_GEMM_TILE_VECTORS of them stay in registers
 * (EACH_ROWS lists the smaller ones), and what a multiply-add is of vectors
 * (FMA_f32) and of elements (FMA1_f32). A tile's sizes are constants where it
 * is made, so that the compiler unrolls it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/blas/gemm_tile.h"

/* clang-format off */
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

#define TILE(kind, type)                                                       \
  typedef type vec_##kind __attribute__((vector_size(BYTES)));                 \
  INLINE vec_##kind load_##kind(const type *from) {                            \
    vec_##kind v;                                                              \
    memcpy(&v, from, sizeof v);                                                \
    return v;                                                                  \
  }                                                                            \
  INLINE void tile_##kind(const int rows, const int vectors,                   \
                          const td_gemm_tile *t) {                             \
    enum { LANES = BYTES / sizeof(type) };                                     \
    const type *a = t->a, *b = t->b;                                           \
    const int64_t a_row = t->a_row, a_step = t->a_step, b_step = t->b_step;    \
    type *const c = t->c;                                                      \
    vec_##kind sum[ROWS][TD_GEMM_TILE_VECTORS];                                \
    UNROLL for (int r = 0; r < rows; r++)                                      \
      UNROLL for (int v = 0; v < vectors; v++)                                 \
        sum[r][v] = t->add ? load_##kind(c + r * t->ldc + v * LANES)           \
                           : (vec_##kind){0};                                  \
    for (int64_t p = t->k; p > 0; p--, a += a_step, b += b_step) {             \
      vec_##kind y[TD_GEMM_TILE_VECTORS];                                      \
      UNROLL for (int v = 0; v < vectors; v++)                                 \
        y[v] = load_##kind(b + v * LANES);                                     \
      UNROLL for (int r = 0; r < rows; r++) {                                  \
        const vec_##kind x = a[r * a_row] - (vec_##kind){0};                   \
        UNROLL for (int v = 0; v < vectors; v++)                               \
          sum[r][v] = FMA_##kind(x, y[v], sum[r][v]);                          \
      }                                                                        \
    }                                                                          \
    UNROLL for (int r = 0; r < rows; r++)                                      \
      UNROLL for (int v = 0; v < vectors; v++)                                 \
        memcpy(c + r * t->ldc + v * LANES, &sum[r][v], BYTES);                 \
  }
TILE(f32, float)
TILE(f64, double)

enum { LINE = 64, PARTS = LINE / BYTES, DOTS = 4, BLOCK = 1024 };

#define DOT(kind, type)                                                        \
  INLINE void add_products_##kind(int rows, const type *a, int64_t ld,         \
                                  const type *x,                               \
                                  vec_##kind sum[DOTS][PARTS]) {               \
    enum { LANES = BYTES / sizeof(type) };                                     \
    for (int v = 0; v < PARTS; v++) {                                          \
      const vec_##kind y = load_##kind(x + v * LANES);                         \
      UNROLL for (int r = 0; r < rows; r++)                                    \
        sum[r][v] =                                                            \
          FMA_##kind(load_##kind(a + r * ld + v * LANES), y, sum[r][v]);       \
    }                                                                          \
  }                                                                            \
  INLINE void dot_##kind(int rows, const td_gemm_line *l, int64_t first) {     \
    enum { ALL = LINE / sizeof(type) };                                        \
    const type *a = (const type *)l->matrix + first * l->ld, *x = l->x;        \
    vec_##kind sum[DOTS][PARTS] = {{{0}}};                                     \
    type last_a[DOTS][ALL] = {{0}}, last_x[ALL] = {0}, lane[ALL];              \
    int64_t p = 0, rest = l->k % ALL;                                          \
    for (; p < l->k - rest; p += ALL)                                          \
      add_products_##kind(rows, a + p, l->ld, x + p, sum);                     \
    if (rest) {                                                                \
      memcpy(last_x, x + p, (size_t)rest * sizeof *x);                         \
      for (int r = 0; r < rows; r++)                                           \
        memcpy(last_a[r], a + r * l->ld + p, (size_t)rest * sizeof *a);        \
      add_products_##kind(rows, last_a[0], ALL, last_x, sum);                  \
    }                                                                          \
    for (int r = 0; r < rows; r++) {                                           \
      memcpy(lane, sum[r], LINE);                                              \
      for (int half = ALL / 2; half > 0; half /= 2)                            \
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];              \
      ((type *)l->y)[(first + r) * l->step] = lane[0];                         \
    }                                                                          \
  }                                                                            \
  static void dots_##kind(const td_gemm_line *l) {                             \
    int64_t i = 0;                                                             \
    for (; i + DOTS <= l->n; i += DOTS) dot_##kind(DOTS, l, i);                \
    for (; i < l->n; i++) dot_##kind(1, l, i);                                 \
  }                                                                            \
  static void grow_##kind(const td_gemm_line *l) {                             \
    const type *x = l->x;                                                      \
    memset(l->y, 0, (size_t)l->n * sizeof(type));                              \
    for (int64_t j = 0; j < l->n; j += BLOCK) {                                \
      const int64_t n = l->n - j < BLOCK ? l->n - j : BLOCK;                   \
      const type *b = (const type *)l->matrix + j;                             \
      type *restrict y = (type *)l->y + j;                                     \
      int64_t p = 0;                                                           \
      for (; p + 4 <= l->k; p += 4) {                                          \
        const type *b0 = b + p * l->ld, *b1 = b0 + l->ld, *b2 = b1 + l->ld,    \
                   *b3 = b2 + l->ld;                                           \
        for (int64_t i = 0; i < n; i++) {                                      \
          type s = FMA1_##kind(x[p], b0[i], y[i]);                             \
          s = FMA1_##kind(x[p + 1], b1[i], s);                                 \
          s = FMA1_##kind(x[p + 2], b2[i], s);                                 \
          y[i] = FMA1_##kind(x[p + 3], b3[i], s);                              \
        }                                                                      \
      }                                                                        \
      for (; p < l->k; p++)                                                    \
        for (int64_t i = 0; i < n; i++)                                        \
          y[i] = FMA1_##kind(x[p], b[p * l->ld + i], y[i]);                    \
    }                                                                          \
  }
DOT(f32, float)
DOT(f64, double)

#define EACH_SIX(M, kind) M(kind, 1) M(kind, 2) M(kind, 3) M(kind, 4)          \
  M(kind, 5) M(kind, 6)
#define EACH_EIGHT(M, kind) EACH_SIX(M, kind) M(kind, 7) M(kind, 8)
#define MAKE(kind, rows)                                                       \
  static void kind##_##rows##_1(const td_gemm_tile *t) {                       \
    tile_##kind(rows, 1, t);                                                   \
  }                                                                            \
  static void kind##_##rows##_2(const td_gemm_tile *t) {                       \
    tile_##kind(rows, 2, t);                                                   \
  }
EACH_ROWS(MAKE, f32)
EACH_ROWS(MAKE, f64)

#define ENTRY(kind, rows) {kind##_##rows##_1, kind##_##rows##_2},
const td_gemm_tile_table TILE_TABLE = {.rows = ROWS,
                                  .vectors = TD_GEMM_TILE_VECTORS,
                                  .bytes = BYTES,
                                  .dots_f32 = dots_f32,
                                  .dots_f64 = dots_f64,
                                  .grow_f32 = grow_f32,
                                  .grow_f64 = grow_f64,
                                  .f32 = {EACH_ROWS(ENTRY, f32)},
                                  .f64 = {EACH_ROWS(ENTRY, f64)}};
/* clang-format on */
