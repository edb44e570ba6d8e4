/* gemm.c - plain products, for every dtype; see gemm.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gemm.h"

#include <complex.h>
#include <string.h>

#include "kernels/cpu.h"

/* Rows [begin, end) of one product. */
typedef void (*rows_fn)(const td_gemm *g, const void *a, const void *b, void *c,
                        int64_t begin, int64_t end);

#define SAME(x) (x)
#define PLAIN(kind, type, conj)                                                \
  static void rows_##kind(const td_gemm *g, const void *from_a,                \
                          const void *from_b, void *to, int64_t begin,         \
                          int64_t end) {                                       \
    const type *a = from_a, *b = from_b;                                       \
    int64_t step_a = g->trans_a ? g->lda : 1, row_a = g->trans_a ? 1 : g->lda; \
    int64_t step_b = g->trans_b ? 1 : g->ldb, col_b = g->trans_b ? g->ldb : 1; \
    for (int64_t i = begin; i < end; i++) {                                    \
      type *restrict c = (type *)to + i * g->ldc;                              \
      memset(c, 0, (size_t)g->n * sizeof *c);                                  \
      for (int64_t p = 0; p < g->k; p++) {                                     \
        type x = a[i * row_a + p * step_a];                                    \
        const type *y = b + p * step_b;                                        \
        if (g->conj_a) x = conj(x);                                            \
        if (g->conj_b)                                                         \
          for (int64_t j = 0; j < g->n; j++)                                   \
            c[j] = (type)(c[j] + x * conj(y[j * col_b]));                      \
        else if (col_b == 1)                                                   \
          for (int64_t j = 0; j < g->n; j++) c[j] = (type)(c[j] + x * y[j]);   \
        else                                                                   \
          for (int64_t j = 0; j < g->n; j++)                                   \
            c[j] = (type)(c[j] + x * y[j * col_b]);                            \
      }                                                                        \
    }                                                                          \
  }
PLAIN(f32, float, SAME)
PLAIN(f64, double, SAME)
PLAIN(i16, int16_t, SAME)
PLAIN(i32, int32_t, SAME)
PLAIN(i64, int64_t, SAME)
PLAIN(c64, float complex, conjf)
PLAIN(c128, double complex, conj)

static const rows_fn plain[TD_DTYPES] = {
    [TD_FLOAT32] = rows_f32,    [TD_FLOAT64] = rows_f64,
    [TD_INT16] = rows_i16,      [TD_INT32] = rows_i32,
    [TD_INT64] = rows_i64,      [TD_COMPLEX64] = rows_c64,
    [TD_COMPLEX128] = rows_c128};

/* ---- panels -------------------------------------------------------------- */

typedef struct job {
  const td_gemm *g;
  int64_t rows;   /* of a panel */
  int64_t panels; /* of one product */
  size_t size;    /* bytes of an element */
} job;

static void run_panels(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const td_gemm *g = j->g;
  for (int64_t u = begin; u < end; u++) {
    int64_t which = u / j->panels, first = u % j->panels * j->rows;
    int64_t last = first + j->rows < g->m ? first + j->rows : g->m;
    const int64_t *at = g->offsets ? g->offsets + 3 * which : NULL;
    plain[g->dtype](g, (const char *)g->a + (at ? (size_t)at[0] * j->size : 0),
                    (const char *)g->b + (at ? (size_t)at[1] * j->size : 0),
                    (char *)g->c + (at ? (size_t)at[2] * j->size : 0), first,
                    last);
  }
}

static td_status *run_plain(const td_kernel_ctx *c, const td_gemm *g) {
  int64_t row = g->n * (g->k > 0 ? g->k : 1);
  job j = {.g = g, .size = td_dtype_size(g->dtype)};
  j.rows = row >= 1 << 20 ? 1 : (1 << 20) / row;
  if (j.rows > g->m) j.rows = g->m;
  j.panels = (g->m + j.rows - 1) / j.rows;
  td_for(c, g->batch * j.panels, td_grain_of(j.rows * row), run_panels, &j);
  return NULL;
}

/* ---- float16, bfloat16 --------------------------------------------------- */

typedef struct convert {
  td_dtype dtype;
  const uint16_t *half_in;
  uint16_t *half_out;
  float *floats;
} convert;

static void load_piece(void *arg, int64_t begin, int64_t end) {
  const convert *v = arg;
  td_half_load(v->dtype, end - begin, v->half_in + begin, v->floats + begin);
}

static void store_piece(void *arg, int64_t begin, int64_t end) {
  const convert *v = arg;
  td_half_store(v->dtype, end - begin, v->floats + begin, v->half_out + begin);
}

static td_status *widen(td_kernel_ctx *c, const td_tensor *t, td_tensor *out) {
  TD_TRY(td_temp(c, TD_FLOAT32, &t->shape, out));
  convert v = {t->dtype, t->data, NULL, out->data};
  td_for(c, td_tensor_count(t), TD_GRAIN, load_piece, &v);
  return NULL;
}

td_status *td_gemm_half(td_kernel_ctx *c, td_gemm *g, const td_tensor *a,
                        const td_tensor *b, td_tensor *out) {
  td_tensor wide_a = {0}, wide_b = {0}, wide_c = {0};
  convert v = {.dtype = out->dtype, .half_out = out->data};
  td_status *s = widen(c, a, &wide_a);
  if (td_ok(s)) s = widen(c, b, &wide_b);
  if (td_ok(s)) s = td_temp(c, TD_FLOAT32, &out->shape, &wide_c);
  if (td_ok(s)) {
    g->dtype = TD_FLOAT32;
    g->a = wide_a.data;
    g->b = wide_b.data;
    g->c = v.floats = wide_c.data;
    s = td_gemm_run(c, g);
  }
  if (td_ok(s)) td_for(c, td_tensor_count(out), TD_GRAIN, store_piece, &v);
  td_tensor_release(&wide_a);
  td_tensor_release(&wide_b);
  td_tensor_release(&wide_c);
  return s;
}

td_status *td_gemm_run(const td_kernel_ctx *c, const td_gemm *g) {
  if (g->batch == 0 || g->m == 0 || g->n == 0) return NULL;
  return run_plain(c, g);
}
