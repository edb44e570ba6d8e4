/* gemm_tile.h - products of float and double matrices by own code.
 *
 * C is computed tile by tile, each held in registers while it runs down k, in
 * blocks of k whose results are added in order. Every element is a chain of
 * fused multiply-adds in the order of k, whatever the tile; a matrix times a
 * vector waits for memory only and has loops of its own. AVX2 and AVX-512 agree
 * bit for bit, on any cut of C into panels of more than one row and column.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GEMM_TILE_H
#define TD_GEMM_TILE_H

#include "engine/base/cpu.h"
#include "kernels/blas/product.h"

TD_BEGIN

enum {
  TD_GEMM_TILE_K = 256, /* elements of a block of k */
  TD_GEMM_TILE_M = 128, /* rows of A packed at a time */
  /* Bytes of working memory: a block of A. */
  TD_GEMM_TILE_SCRATCH = TD_GEMM_TILE_M * TD_GEMM_TILE_K * 8,
  TD_GEMM_TILE_ROWS = 8,
  TD_GEMM_TILE_VECTORS = 2,
  TD_GEMM_TILE_STRIP = 128, /* bytes of a row of the widest tile */
};

/* One tile of C: c = or += the sum over k of
 * a[r * a_row + p * a_step] * b[p * b_step + j]. */
typedef struct td_gemm_tile {
  int64_t k;
  const void *a;
  int64_t a_row, a_step;
  const void *b;
  int64_t b_step;
  void *c;
  int64_t ldc;
  bool add;
} td_gemm_tile;
typedef void (*td_gemm_tile_fn)(const td_gemm_tile *t);

/* A matrix and a vector x. `dots`: y[i * step] is row i times x, k long, for n
 * rows; summed over lanes of 64 bytes, those added in halves. `grow`: y is the
 * sum over k of x[p] times row p, n long. */
typedef struct td_gemm_line {
  int64_t n, k;
  const void *matrix;
  int64_t ld;
  const void *x;
  void *y;
  int64_t step;
} td_gemm_line;
typedef void (*td_gemm_line_fn)(const td_gemm_line *l);

typedef struct td_gemm_tile_table {
  int rows, vectors, bytes; /* of the largest tile; of a vector */
  td_gemm_line_fn dots_f32, dots_f64, grow_f32, grow_f64;
  td_gemm_tile_fn f32[TD_GEMM_TILE_ROWS]
                     [TD_GEMM_TILE_VECTORS]; /* [rows - 1][vectors - 1] */
  td_gemm_tile_fn f64[TD_GEMM_TILE_ROWS][TD_GEMM_TILE_VECTORS];
} td_gemm_tile_table;

extern const td_gemm_tile_table td_gemm_tile_scalar, td_gemm_tile_avx2,
    td_gemm_tile_avx512;

/* `scratch`: TD_GEMM_TILE_SCRATCH bytes, 64-byte aligned; it may be NULL where
 * td_gemm_tile_scratch says so. */
void td_gemm_tile_multiply(const td_product *p, td_isa isa, void *scratch);
/* Is A worth packing? */
bool td_gemm_tile_scratch(const td_product *p);

TD_END
#endif
