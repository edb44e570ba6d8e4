/* gemm_tile.c - cutting a product into tiles; see gemm_tile.h.
 *
 * B is walked in strips as wide as a tile. A strip that is whole and will be
 * used a few times only is read where it is; any other is first packed, a block
 * of k at a time, into memory that stays in the first cache. A is packed when
 * several strips follow. The last strip is padded with zeros and its tiles go
 * to C by way of a small square.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define TILE_TABLE td_gemm_tile_scalar
#define BYTES 16
#define ROWS 6
#define EACH_ROWS EACH_SIX
#define FMA_f32(x, y, z) ((x) * (y) + (z))
#define FMA_f64(x, y, z) ((x) * (y) + (z))
#define FMA1_f32 FMA_f32
#define FMA1_f64 FMA_f64
#include "kernels/simd/gemm_tile_loops.h"

static const td_gemm_tile_table *table_of(td_isa isa) {
  return isa >= TD_AVX512 ? &td_gemm_tile_avx512
         : isa >= TD_AVX2 ? &td_gemm_tile_avx2
                          : &td_gemm_tile_scalar;
}

/* A product on its way. */
typedef struct walk {
  const td_product *p;
  const td_gemm_tile_table *table;
  td_gemm_tile_fn (*fn)[TD_GEMM_TILE_VECTORS]; /* of the dtype */
  int64_t size;                                /* bytes of an element */
  int64_t wide;                                /* elements of a tile's row */
  int64_t lanes;                               /* of a vector */
  int64_t row_a, step_a;                       /* of op(A), in bytes */
  int64_t row_b, step_b; /* of op(B): from k to k, column to column */
  char *packed_a;        /* NULL: A is read where it is */
  char *packed_b;        /* a strip */
} walk;

/* ---- packing ------------------------------------------------------------- */

/* to[p * n + i] = from[p * step + i * row], steps in elements. */
#define COLLECT(kind, type)                                                    \
  static void collect_##kind(const type *restrict from, int64_t row,           \
                             int64_t step, int64_t n, int64_t k,               \
                             type *restrict to, int64_t wide) {                \
    for (int64_t p = 0; p < k; p++, from += step, to += wide) {                \
      if (row == 1)                                                            \
        memcpy(to, from, (size_t)n * sizeof *to);                              \
      else                                                                     \
        for (int64_t i = 0; i < n; i++) to[i] = from[i * row];                 \
      for (int64_t i = n; i < wide; i++) to[i] = 0;                            \
    }                                                                          \
  }
COLLECT(f32, float)
COLLECT(f64, double)

/* The same for either dtype; lines of `to` are `wide` elements, padded. */
static void collect(const walk *w, const char *from, int64_t row, int64_t step,
                    int64_t n, int64_t k, char *to, int64_t wide) {
  int64_t size = w->size;
  if (size == sizeof(float))
    collect_f32((const float *)(const void *)from, row / size, step / size, n,
                k, (float *)(void *)to, wide);
  else
    collect_f64((const double *)(const void *)from, row / size, step / size, n,
                k, (double *)(void *)to, wide);
}

/* Rows [first, first + m) and k [from, from + k) of op(A), in groups of a
 * tile's rows, each group with its rows side by side. */
static void pack_a(const walk *w, int64_t first, int64_t m, int64_t from,
                   int64_t k) {
  const char *a = (const char *)w->p->a + first * w->row_a + from * w->step_a;
  char *to = w->packed_a;
  for (int64_t i = 0; i < m; i += w->table->rows) {
    int64_t rows = m - i < w->table->rows ? m - i : w->table->rows;
    collect(w, a + i * w->row_a, w->row_a, w->step_a, rows, k, to, rows);
    to += rows * k * w->size;
  }
}

/* k [from, from + k) of columns [first, first + n) of op(B), padded. */
static void pack_b(const walk *w, int64_t first, int64_t n, int64_t from,
                   int64_t k) {
  const char *b = (const char *)w->p->b + first * w->step_b + from * w->row_b;
  collect(w, b, w->step_b, w->row_b, n, k, w->packed_b, w->wide);
}

/* ---- walking ------------------------------------------------------------- */

/* A tile of which only n columns are C's. */
static void run_padded(td_gemm_tile_fn fn, td_gemm_tile t, const walk *w,
                       int64_t rows, int64_t n) {
  _Alignas(64) char square[TD_GEMM_TILE_ROWS * TD_GEMM_TILE_STRIP];
  char *c = t.c;
  int64_t ldc = t.ldc * w->size, line = w->wide * w->size;
  for (int64_t r = 0; t.add && r < rows; r++)
    memcpy(square + r * line, c + r * ldc, (size_t)(n * w->size));
  t.c = square;
  t.ldc = w->wide;
  fn(&t);
  for (int64_t r = 0; r < rows; r++)
    memcpy(c + r * ldc, square + r * line, (size_t)(n * w->size));
}

/* Rows [first, first + m) by n columns from `column`, for a block of k. */
static void run_strip(const walk *w, td_gemm_tile t, int64_t first, int64_t m,
                      int64_t column, int64_t n, int64_t from) {
  const td_product *p = w->p;
  int vectors = (int)((n + w->lanes - 1) / w->lanes);
  for (int64_t i = 0; i < m; i += w->table->rows) {
    int64_t rows = m - i < w->table->rows ? m - i : w->table->rows;
    td_gemm_tile_fn fn = w->fn[rows - 1][vectors - 1];
    t.c = (char *)p->c + ((first + i) * p->ldc + column) * w->size;
    if (w->packed_a) {
      t.a = w->packed_a + i * t.k * w->size;
      t.a_row = 1;
      t.a_step = rows;
    } else {
      t.a = (const char *)p->a + (first + i) * w->row_a + from * w->step_a;
      t.a_row = w->row_a / w->size;
      t.a_step = w->step_a / w->size;
    }
    if (n == vectors * w->lanes)
      fn(&t);
    else
      run_padded(fn, t, w, rows, n);
  }
}

enum { SMALL_B = 1 << 15 }; /* bytes */

/* Is a strip of B read where it is? When the tiles in a column are few, or when
 * all of a small B stays in the first cache. */
static bool reads_in_place(const walk *w, int64_t m, int64_t n, int64_t k) {
  return w->step_b == w->size && n % w->lanes == 0 &&
         (m <= 4 * w->table->rows || k * w->row_b <= SMALL_B);
}

static void run_block(const walk *w, int64_t first, int64_t m, int64_t from,
                      int64_t k) {
  const td_product *p = w->p;
  if (w->packed_a) pack_a(w, first, m, from, k);
  for (int64_t j = 0; j < p->n; j += w->wide) {
    int64_t n = p->n - j < w->wide ? p->n - j : w->wide;
    td_gemm_tile t = {.k = k, .ldc = p->ldc, .add = from > 0};
    if (reads_in_place(w, m, n, k)) {
      t.b = (const char *)p->b + j * w->step_b + from * w->row_b;
      t.b_step = w->row_b / w->size;
    } else {
      pack_b(w, j, n, from, k);
      t.b = w->packed_b;
      t.b_step = w->wide;
    }
    run_strip(w, t, first, m, j, n, from);
  }
}

enum {
  MANY = 256,      /* columns for which any A is packed */
  FEW = 32,        /* for which one is whose rows get into each other's way */
  BAD_STEP = 1024, /* bytes: multiples fall on the same few lines of a cache */
};

bool td_gemm_tile_scratch(const td_product *p) {
  if (p->m <= TD_GEMM_TILE_ROWS) return false;
  bool bad = p->lda * 4 % BAD_STEP == 0;
  return p->n > MANY || (p->n > FEW && bad);
}

/* ---- a matrix and a vector ----------------------------------------------- */

/* False when x or y lie so that the loops cannot take them. */
static bool run_line(const td_product *p, const td_gemm_tile_table *t) {
  bool wide = p->dtype == TD_FLOAT64, one_row = p->m == 1;
  int64_t step_x =
      one_row ? (p->trans_a ? p->lda : 1) : (p->trans_b ? 1 : p->ldb);
  /* Is the matrix stored by the rows that y has elements for? */
  bool dots = one_row ? p->trans_b : !p->trans_a;
  td_gemm_line l = {.n = one_row ? p->n : p->m,
                    .k = p->k,
                    .matrix = one_row ? p->b : p->a,
                    .ld = one_row ? p->ldb : p->lda,
                    .x = one_row ? p->a : p->b,
                    .y = p->c,
                    .step = one_row ? 1 : p->ldc};
  if ((p->m != 1 && p->n != 1) || step_x != 1) return false;
  if (!dots && l.step != 1) return false;
  if (dots)
    (wide ? t->dots_f64 : t->dots_f32)(&l);
  else
    (wide ? t->grow_f64 : t->grow_f32)(&l);
  return true;
}

/* ---- all of it ----------------------------------------------------------- */

void td_gemm_tile_multiply(const td_product *p, td_isa isa, void *scratch) {
  _Alignas(64) char strip[TD_GEMM_TILE_K * TD_GEMM_TILE_STRIP];
  const td_gemm_tile_table *table = table_of(isa);
  bool wide = p->dtype == TD_FLOAT64;
  int64_t size = wide ? 8 : 4;
  if (run_line(p, table)) return;
  walk w = {.p = p,
            .table = table,
            .fn = (td_gemm_tile_fn(*)[TD_GEMM_TILE_VECTORS])(wide ? table->f64
                                                                  : table->f32),
            .size = size,
            .lanes = table->bytes / size,
            .wide = table->bytes * table->vectors / size,
            .row_a = (p->trans_a ? 1 : p->lda) * size,
            .step_a = (p->trans_a ? p->lda : 1) * size,
            .row_b = (p->trans_b ? 1 : p->ldb) * size,
            .step_b = (p->trans_b ? p->ldb : 1) * size,
            .packed_a = scratch,
            .packed_b = strip};
  for (int64_t from = 0; from < p->k; from += TD_GEMM_TILE_K) {
    int64_t k = p->k - from < TD_GEMM_TILE_K ? p->k - from : TD_GEMM_TILE_K;
    for (int64_t i = 0; i < p->m; i += TD_GEMM_TILE_M)
      run_block(&w, i, p->m - i < TD_GEMM_TILE_M ? p->m - i : TD_GEMM_TILE_M,
                from, k);
  }
}
