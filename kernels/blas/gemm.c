/* gemm.c - who computes a product, and in which panels.
 *
 * Two tables decide, by dtype, sizes and instruction set: which way is the
 * fastest, and how large panels are. Small products are one panel of own code,
 * run at once: calling a library would take longer than the product. Where a
 * library is missing or refuses, own code takes its place.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/blas/gemm.h"

#include <string.h>

#include "kernels/binary.h"
#include "kernels/blas/blas.h"
#include "kernels/cpu.h"
#include "kernels/blas/dnn.h"
#include "kernels/blas/gemm_tile.h"
#include "kernels/half_copy.h"

/* ---- which way ----------------------------------------------------------- */

static bool has_tiles(td_dtype t) {
  return t == TD_FLOAT32 || t == TD_FLOAT64;
}

/* Multiply-adds, as far as they can be counted. */
static int64_t work_of(const td_product *p) {
  double work = (double)p->m * (double)p->n * (double)(p->k > 0 ? p->k : 1);
  return work < 4e18 ? (int64_t)work : (int64_t)4e18;
}

/* Up to here own code is at least as fast as any call of a library. */
enum { SMALL = 96 * 96 * 96, SMALL_COMPLEX = 16 * 16 * 16, NARROW = 16 };

static td_gemm_way wanted(const td_product *p, td_isa isa) {
  int64_t work = work_of(p);
  bool line = p->m == 1 || p->n == 1;
  if (p->k == 0) return TD_GEMM_LOOP;
  if (td_dtype_is_complex(p->dtype))
    return work <= SMALL_COMPLEX ? TD_GEMM_LOOP : TD_GEMM_BLAS;
  if (!has_tiles(p->dtype)) return TD_GEMM_LOOP;
  if (work <= SMALL || line) return TD_GEMM_TILE;
  if (p->dtype == TD_FLOAT64 || isa < TD_AVX512) return TD_GEMM_BLAS;
  return p->n < NARROW ? TD_GEMM_TILE : TD_GEMM_DNN;
}

static bool blas_takes(const td_product *p) {
  return td_blas_ready() && td_blas_takes(p);
}

/* The way of the table, where its library is there. */
static td_gemm_way choose(const td_product *p, td_isa isa) {
  td_gemm_way way = wanted(p, isa);
  if (way == TD_GEMM_DNN && !td_dnn_ready()) way = TD_GEMM_BLAS;
  if (way == TD_GEMM_BLAS && !blas_takes(p))
    way = has_tiles(p->dtype) ? TD_GEMM_TILE : TD_GEMM_LOOP;
  return way;
}

/* ---- panels -------------------------------------------------------------- */

/* How C is cut: `rows` x `cols` panels of at most m x n each. */
typedef struct grid {
  int64_t m, n, rows, cols;
} grid;

static int64_t divide_up(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

static int64_t round_up(int64_t a, int64_t to) {
  return divide_up(a, to) * to;
}

enum {
  PANEL_LEAST = 1 << 20,  /* multiply-adds worth a hand-off to a thread */
  PANEL_GOOD = 1 << 23,   /* that make what is packed twice not matter */
  PANEL_MOST = 512 << 20, /* that take some 10 ms on a slow core */
  LOOP_MOST = 1 << 24,    /* the same of plain loops */
  /* Of a product that is not very large: OpenBLAS packs the more, the more
   * there are. */
  FEW_PANELS = 4,
  DNN_PANELS = 8,
};

/* A panel with both sides at most these is not cut. */
enum { LEAST_M = 48, LEAST_N = 128 };

/* Cuts into about `want` panels, nearly square: what is packed for a panel
 * grows with its sides. */
static grid cut(const td_product *p, int64_t want) {
  grid g = {.m = p->m, .n = p->n, .rows = 1, .cols = 1};
  while (g.rows * g.cols < want) {
    bool wide = g.n > LEAST_N, tall = g.m > LEAST_M;
    if (!wide && !tall) break;
    if (wide && (g.n >= g.m || !tall))
      g.n = round_up(divide_up(p->n, ++g.cols), 16);
    else
      g.m = round_up(divide_up(p->m, ++g.rows), 8);
  }
  g.rows = divide_up(p->m, g.m);
  g.cols = divide_up(p->n, g.n);
  return g;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* How much longer a multiply-add takes than one of float. */
static int64_t cost_of(td_dtype t) {
  return t == TD_FLOAT64      ? 2
         : t == TD_COMPLEX64  ? 4
         : t == TD_COMPLEX128 ? 8
                              : 1;
}

static int64_t panels_wanted(const td_product *p, td_gemm_way way) {
  int64_t work = work_of(p);
  int64_t most =
      (way == TD_GEMM_LOOP ? LOOP_MOST : PANEL_MOST) / cost_of(p->dtype);
  int64_t want = least(work / PANEL_LEAST, FEW_PANELS);
  int64_t many = way == TD_GEMM_DNN ? DNN_PANELS : FEW_PANELS;
  int64_t good = least(work / PANEL_GOOD, many), must = divide_up(work, most);
  if (want < good) want = good;
  return want > must ? want : must;
}

static grid grid_of(const td_product *p, td_gemm_way way) {
  return cut(p, panels_wanted(p, way));
}

/* ---- oneDNN's primitives ------------------------------------------------- */

typedef struct dnn_key {
  int64_t m, n, k, lda, ldb, ldc;
  int32_t trans_a, trans_b;
} dnn_key;

static int describe_matrix(const td_dnn_api *api, td_dnn_layout *md,
                           int64_t rows, int64_t cols, int64_t ld, bool trans) {
  int64_t dims[2] = {rows, cols}, strides[2] = {ld, 1};
  if (trans) strides[0] = 1, strides[1] = ld;
  return api->memory_desc_init_by_strides(md, 2, dims, TD_DNN_FLOAT32, strides);
}

static int describe(const td_dnn_api *api, const void *key, const void *attr,
                    void *engine, void **pd) {
  const dnn_key *k = key;
  td_dnn_layout a, b, c;
  td_dnn_desc desc;
  int failed = describe_matrix(api, &a, k->m, k->k, k->lda, k->trans_a);
  if (!failed)
    failed = describe_matrix(api, &b, k->k, k->n, k->ldb, k->trans_b);
  if (!failed) failed = describe_matrix(api, &c, k->m, k->n, k->ldc, false);
  if (!failed) failed = api->matmul_desc_init(&desc, &a, &b, NULL, &c);
  if (!failed)
    failed = api->primitive_desc_create(pd, &desc, attr, engine, NULL);
  return failed;
}

static td_status *find_primitive(const td_product *p, int64_t m, int64_t n,
                                 td_dnn_op **out) {
  dnn_key key = {.m = m,
                 .n = n,
                 .k = p->k,
                 .lda = p->lda,
                 .ldb = p->ldb,
                 .ldc = p->ldc,
                 .trans_a = p->trans_a,
                 .trans_b = p->trans_b};
  return td_dnn_find(describe, &key, sizeof key, out);
}

/* ---- running ------------------------------------------------------------- */

typedef struct job {
  td_kernel_ctx *ctx;
  const td_product *p;
  td_gemm_way way;
  td_isa isa;
  grid grid;
  const int64_t *offsets;
  size_t scratch;       /* bytes of working memory for a panel */
  td_dnn_op *dnn[2][2]; /* for panels of full and of last rows, columns */
  td_status *failed;    /* atomic: the first error */
} job;

/* The place of panel `u` in the batch. */
static td_product panel_of(const job *j, int64_t u) {
  td_product p = *j->p;
  const grid *g = &j->grid;
  size_t size = td_dtype_size(p.dtype);
  int64_t which = u / (g->rows * g->cols), i = u / g->cols % g->rows;
  int64_t row = i * g->m, col = u % g->cols * g->n;
  int64_t a = row * (p.trans_a ? 1 : p.lda);
  int64_t b = col * (p.trans_b ? p.ldb : 1), c = row * p.ldc + col;
  if (j->offsets) {
    a += j->offsets[3 * which];
    b += j->offsets[3 * which + 1];
    c += j->offsets[3 * which + 2];
  }
  p.a = (const char *)p.a + (size_t)a * size;
  p.b = (const char *)p.b + (size_t)b * size;
  p.c = (char *)p.c + (size_t)c * size;
  if (p.m - row < g->m)
    p.m -= row;
  else
    p.m = g->m;
  if (p.n - col < g->n)
    p.n -= col;
  else
    p.n = g->n;
  return p;
}

static td_status *run_dnn(const job *j, const td_product *p, void *scratch) {
  const td_dnn_arg args[] = {
      {TD_DNN_SRC, p->a}, {TD_DNN_WEIGHTS, p->b}, {TD_DNN_DST, p->c}};
  td_dnn_op *op = j->dnn[p->m < j->grid.m][p->n < j->grid.n];
  return td_dnn_run(op, args, 3, scratch);
}

static td_status *run_panel(const job *j, const td_product *p, void *scratch) {
  if (j->way == TD_GEMM_DNN) return run_dnn(j, p, scratch);
  if (j->way == TD_GEMM_BLAS)
    td_blas_multiply(p);
  else if (j->way == TD_GEMM_TILE)
    td_gemm_tile_multiply(p, j->isa, scratch);
  else
    td_gemm_loop(p);
  return NULL;
}

static void note_failure(job *j, td_status *s) {
  td_status *none = NULL;
  if (!s || __atomic_compare_exchange_n(&j->failed, &none, s, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return;
  td_status_release(s);
}

static void run_panels(void *arg, int64_t begin, int64_t end) {
  job *j = arg;
  td_tensor scratch = {.dtype = TD_INVALID};
  td_status *s = NULL;
  if (j->scratch > 0) {
    td_shape shape = td_shape_vector((int64_t)j->scratch);
    s = td_temp(j->ctx, TD_UINT8, &shape, &scratch);
  }
  for (int64_t u = begin; u < end && td_ok(s); u++) {
    td_product p = panel_of(j, u);
    s = run_panel(j, &p, scratch.data);
  }
  note_failure(j, s);
  td_tensor_release(&scratch);
}

static td_status *prepare_dnn(job *j) {
  const td_product *p = j->p;
  const grid *g = &j->grid;
  int64_t last_m = p->m - (g->rows - 1) * g->m;
  int64_t last_n = p->n - (g->cols - 1) * g->n;
  for (int r = 0; r < 2; r++)
    for (int c = 0; c < 2; c++) {
      if ((r && last_m == g->m) || (c && last_n == g->n)) continue;
      td_dnn_op **op = &j->dnn[r][c];
      TD_TRY(find_primitive(p, r ? last_m : g->m, c ? last_n : g->n, op));
      if (td_dnn_scratch(*op) > j->scratch) j->scratch = td_dnn_scratch(*op);
    }
  return NULL;
}

static td_status *prepare(job *j) {
  if (j->way == TD_GEMM_DNN) return prepare_dnn(j);
  if (j->way == TD_GEMM_TILE && td_gemm_tile_scratch(j->p))
    j->scratch = TD_GEMM_TILE_SCRATCH;
  return NULL;
}

/* Products too small for a hand-off go several to a piece. */
static int64_t grain_of(const job *j) {
  int64_t work = work_of(j->p) / (j->grid.rows * j->grid.cols);
  if (work >= PANEL_LEAST) return 1;
  return PANEL_LEAST / (work > 1024 ? work : 1024);
}

static td_status *run_products(td_kernel_ctx *c, td_gemm_way way,
                               const td_product *p, int64_t batch,
                               const int64_t *offsets) {
  job j = {.ctx = c,
           .p = p,
           .way = way,
           .isa = td_cpu_isa(),
           .grid = grid_of(p, way),
           .offsets = offsets};
  td_status *s = prepare(&j);
  if (td_ok(s)) {
    td_for(c, batch * j.grid.rows * j.grid.cols, grain_of(&j), run_panels, &j);
    s = j.failed;
  }
  for (int i = 0; i < 4; i++) td_dnn_release(j.dnn[i / 2][i % 2]);
  return s;
}

/* ---- long products ------------------------------------------------------- */

/* A small C has too few panels for a long k, and narrow ones read all of it
 * again. Then k is cut instead: each chunk is a product of its own, and these
 * are added in order. */
enum { CHUNK_LEAST = 1024, LONG = 4 };

static int64_t chunk_of(const td_product *p, td_gemm_way way) {
  grid g = grid_of(p, way);
  int64_t want = panels_wanted(p, way), have = g.rows * g.cols;
  int64_t side = p->m > p->n ? p->m : p->n;
  if (p->k / LONG >= side) have = 1;
  if (have >= want) return p->k;
  int64_t chunk = round_up(divide_up(p->k, divide_up(want, have)), 256);
  return chunk > CHUNK_LEAST ? chunk : CHUNK_LEAST;
}

typedef struct sum_job {
  td_dtype dtype;
  td_isa isa;
  const char *parts; /* `count` of them, n elements each */
  int64_t n, count;
  char *sum;
  size_t size; /* bytes of an element */
} sum_job;

static void sum_piece(void *arg, int64_t begin, int64_t end) {
  const sum_job *j = arg;
  char *to = j->sum + (size_t)begin * j->size;
  const char *from = j->parts + (size_t)begin * j->size;
  if (to != from) memcpy(to, from, (size_t)(end - begin) * j->size);
  for (int64_t i = 1; i < j->count; i++)
    td_binary_apply(TD_BINARY_AddV2, j->dtype, j->isa, end - begin, to,
                    from + (size_t)(i * j->n) * j->size, to);
}

void td_gemm_sum(td_kernel_ctx *c, td_dtype dtype, const void *parts, int64_t n,
                 int64_t count, void *sum) {
  sum_job j = {.dtype = dtype,
               .isa = td_cpu_isa(),
               .parts = parts,
               .n = n,
               .count = count,
               .sum = sum,
               .size = td_dtype_size(dtype)};
  td_for(c, n, td_grain_of(count), sum_piece, &j);
}

/* The products of `count` chunks of k, one after the other in `parts`. */
static td_status *multiply_chunks(td_kernel_ctx *c, td_gemm_way way,
                                  const td_product *p, int64_t chunk,
                                  int64_t count, td_tensor *parts) {
  td_product part = *p;
  td_tensor places;
  td_shape shape = td_shape_matrix(count, 3);
  int64_t step_a = p->trans_a ? p->lda : 1, step_b = p->trans_b ? 1 : p->ldb;
  TD_TRY(td_temp(c, TD_INT64, &shape, &places));
  int64_t *at = places.data;
  for (int64_t i = 0; i < count; i++) {
    at[3 * i] = i * chunk * step_a;
    at[3 * i + 1] = i * chunk * step_b;
    at[3 * i + 2] = i * p->m * p->n;
  }
  part.c = parts->data;
  part.ldc = p->n;
  part.k = chunk;
  td_status *s = run_products(c, way, &part, count - 1, at);
  part.k = p->k - (count - 1) * chunk;
  if (td_ok(s)) s = run_products(c, way, &part, 1, at + 3 * (count - 1));
  td_tensor_release(&places);
  return s;
}

/* C must be dense. */
static td_status *run_chunks(td_kernel_ctx *c, td_gemm_way way,
                             const td_product *p, int64_t chunk) {
  int64_t count = divide_up(p->k, chunk);
  td_shape shape = td_shape_of(3, (int64_t[]){count, p->m, p->n});
  td_tensor parts;
  TD_TRY(td_temp(c, p->dtype, &shape, &parts));
  td_status *s = multiply_chunks(c, way, p, chunk, count, &parts);
  if (td_ok(s)) td_gemm_sum(c, p->dtype, parts.data, p->m * p->n, count, p->c);
  td_tensor_release(&parts);
  return s;
}

/* ---- all of it ----------------------------------------------------------- */

td_status *td_gemm_by(td_kernel_ctx *c, td_gemm_way way, const td_product *p,
                      int64_t batch, const int64_t *offsets) {
  int64_t chunk = batch == 1 && p->ldc == p->n ? chunk_of(p, way) : p->k;
  if (chunk < p->k) return run_chunks(c, way, p, chunk);
  return run_products(c, way, p, batch, offsets);
}

td_status *td_gemm(td_kernel_ctx *c, const td_product *p, int64_t batch,
                   const int64_t *offsets) {
  if (batch == 0 || p->m == 0 || p->n == 0) return NULL;
  td_gemm_way way = choose(p, td_cpu_isa());
  td_status *s = td_gemm_by(c, way, p, batch, offsets);
  if (way != TD_GEMM_DNN || td_status_code(s) != TD_UNIMPLEMENTED) return s;
  td_status_release(s);
  way = blas_takes(p) ? TD_GEMM_BLAS : TD_GEMM_TILE;
  return td_gemm_by(c, way, p, batch, offsets);
}

/* ---- float16, bfloat16 --------------------------------------------------- */

td_status *td_gemm_half(td_kernel_ctx *c, td_product *p, int64_t batch,
                        const int64_t *offsets, const td_tensor *a,
                        const td_tensor *b, td_tensor *out) {
  td_tensor wide_a = {0}, wide_b = {0}, wide_c = {0};
  td_status *s = td_half_copy_widen(c, a, &wide_a);
  if (td_ok(s)) s = td_half_copy_widen(c, b, &wide_b);
  if (td_ok(s)) s = td_temp(c, TD_FLOAT32, &out->shape, &wide_c);
  if (td_ok(s)) {
    p->dtype = TD_FLOAT32;
    p->a = wide_a.data;
    p->b = wide_b.data;
    p->c = wide_c.data;
    s = td_gemm(c, p, batch, offsets);
  }
  if (td_ok(s)) td_half_copy_narrow(c, wide_c.data, out);
  td_tensor_release(&wide_a);
  td_tensor_release(&wide_b);
  td_tensor_release(&wide_c);
  return s;
}
