/* batch_norm_run.c - the loops of batch normalisation over whole tensors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/batch_norm.h"

enum { LINE = TD_BATCH_NORM_LINE, FIELDS = TD_BATCH_NORM_FIELDS };

const td_batch_norm_loops *td_batch_norm_loops_of(td_isa isa) {
  if (isa == TD_AVX512) return &td_batch_norm_avx512;
  return isa == TD_AVX2 ? &td_batch_norm_avx2 : &td_batch_norm_scalar;
}

/* ---- memory -------------------------------------------------------------- */

static bool last(const td_batch_norm *b) {
  return b->v.inner == 1;
}

static td_status *floats(td_kernel_ctx *c, double count, td_tensor *t) {
  if (count > (double)(INT64_MAX / 16))
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "batch normalisation needs %.0f floats to work with",
                    count);
  td_shape s = td_shape_vector((int64_t)count);
  return td_temp(c, TD_FLOAT32, &s, t);
}

/* Channels first: a line of each channel, as wide as its runs need. */
td_status *td_batch_norm_begin(td_kernel_ctx *c, const td_batch_norm_view *v,
                               td_batch_norm *b) {
  b->loops = td_batch_norm_loops_of(td_cpu_isa());
  b->v = *v;
  int64_t n = v->channels, rows = n > 0 && n < LINE / 2 ? LINE / n : 1;
  b->width = last(b) ? rows * n : v->inner < LINE ? v->inner : LINE;
  double lanes = last(b) ? (double)b->width : (double)n * (double)b->width;
  TD_TRY(floats(c, lanes * FIELDS + 4 * (double)n, &b->memory));
  double *sums = b->memory.data;
  b->sum[0] = sums;
  b->sum[1] = sums + n;
  float *at = (float *)(sums + 2 * n);
  for (int k = 0; k < FIELDS; k++) b->lane[k] = at + k * (int64_t)lanes;
  return NULL;
}

void td_batch_norm_end(td_batch_norm *b) {
  td_tensor_release(&b->memory);
}

void td_batch_norm_set(td_batch_norm *b, int k, int64_t channel, float value) {
  float *at = b->lane[k];
  if (last(b)) {
    for (int64_t i = channel; i < b->width; i += b->v.channels) at[i] = value;
  } else {
    at += channel * b->width;
    for (int64_t i = 0; i < b->width; i++) at[i] = value;
  }
}

/* ---- pieces -------------------------------------------------------------- */

typedef enum what { SUMS, SQUARES, DOTS, APPLY, BACK } what;

typedef struct run {
  const td_batch_norm *b;
  what w;
  int64_t lines; /* channels last: of a piece */
  int64_t total; /* rows of channels */
  float *part;   /* sums of pieces: 2 * width each; channels first: 2 a run */
} run;

/* n lines from element `x` on, whose fields begin at `lane`. */
static void do_lines(const run *r, int64_t n, int64_t width, int64_t x,
                     int64_t lane, float *sum, float *dot) {
  const td_batch_norm *b = r->b;
  const td_batch_norm_loops *f = b->loops;
  float *m = b->lane[0] + lane, *p = b->lane[1] + lane;
  float *q = b->lane[2] + lane, *s = b->lane[3] + lane;
  switch (r->w) {
  case SUMS:
    f->sum(n, width, b->x + x, sum);
    break;
  case SQUARES:
    f->squares(n, width, b->x + x, m, sum);
    break;
  case DOTS:
    f->dots(n, width, b->dy + x, b->x + x, m, sum, dot);
    break;
  case APPLY:
    f->apply(n, width, b->x + x, m, p, q, b->to + x);
    break;
  case BACK:
    f->back(n, width, b->dy + x, b->x + x, m, p, q, s, b->to + x);
    break;
  }
}

/* Rows of channels; the last line may be short. */
static void do_rows(void *arg, int64_t begin, int64_t end) {
  const run *r = arg;
  const td_batch_norm *b = r->b;
  int64_t n = b->v.channels, width = b->width, rows = width / n;
  for (int64_t k = begin; k < end; k++) {
    float *sum = r->part ? r->part + 2 * k * width : NULL;
    int64_t from = k * r->lines * rows;
    int64_t left =
        r->total - from < r->lines * rows ? r->total - from : r->lines * rows;
    if (sum) memset(sum, 0, (size_t)(2 * width) * sizeof(float));
    do_lines(r, left / rows, width, from * n, 0, sum, sum ? sum + width : NULL);
    do_lines(r, 1, left % rows * n, (from + left / rows * rows) * n, 0, sum,
             sum ? sum + width : NULL);
  }
}

/* A line's lanes all belong to one channel: they are added in halves. */
static float fold(float *lane) {
  for (int w = LINE / 2; w > 0; w /= 2)
    for (int i = 0; i < w; i++) lane[i] += lane[i + w];
  return lane[0];
}

/* Runs of one channel. */
static void do_runs(void *arg, int64_t begin, int64_t end) {
  const run *r = arg;
  const td_batch_norm *b = r->b;
  int64_t inner = b->v.inner, width = b->width, full = inner / width;
  for (int64_t k = begin; k < end; k++) {
    float sum[LINE] = {0}, dot[LINE] = {0};
    int64_t lane = k % b->v.channels * width;
    do_lines(r, full, width, k * inner, lane, sum, dot);
    do_lines(r, 1, inner % width, k * inner + full * width, lane, sum, dot);
    if (!r->part) continue;
    r->part[2 * k] = fold(sum);
    r->part[2 * k + 1] = fold(dot);
  }
}

static int64_t pieces_of(run *r) {
  const td_batch_norm *b = r->b;
  if (!last(b)) return b->v.outer * b->v.channels;
  int64_t rows = b->width / b->v.channels;
  r->total = b->v.outer;
  r->lines = TD_GRAIN / b->width < LINE ? LINE : TD_GRAIN / b->width;
  int64_t each = r->lines * rows;
  return r->total / each + (r->total % each != 0);
}

static void go(td_kernel_ctx *c, run *r, int64_t pieces) {
  if (last(r->b))
    td_for(c, pieces, 1, do_rows, r);
  else
    td_for(c, pieces, td_grain_of(2 * r->b->v.inner), do_runs, r);
}

static void total(const run *r, int64_t pieces) {
  const td_batch_norm *b = r->b;
  int64_t n = b->v.channels, each = last(b) ? b->width : 1;
  memset(b->sum[0], 0, (size_t)(2 * n) * sizeof(double));
  for (int64_t k = 0; k < pieces; k++)
    for (int s = 0; s < 2; s++) {
      const float *part = r->part + (2 * k + s) * each;
      if (!last(b)) b->sum[s][k % n] += part[0];
      for (int64_t i = 0, to = 0; last(b) && i < each; i++) {
        b->sum[s][to] += part[i];
        to = to + 1 == n ? 0 : to + 1;
      }
    }
}

static td_status *sums(td_kernel_ctx *c, td_batch_norm *b, what w) {
  run r = {.b = b, .w = w};
  td_tensor memory = {0};
  memset(b->sum[0], 0, (size_t)(2 * b->v.channels) * sizeof(double));
  if (b->v.outer == 0 || b->v.channels == 0 || b->v.inner == 0) return NULL;
  int64_t pieces = pieces_of(&r);
  double each = last(b) ? (double)b->width : 1;
  TD_TRY(floats(c, 2 * (double)pieces * each, &memory));
  r.part = memory.data;
  go(c, &r, pieces);
  total(&r, pieces);
  td_tensor_release(&memory);
  return NULL;
}

static void write(td_kernel_ctx *c, td_batch_norm *b, what w) {
  run r = {.b = b, .w = w};
  if (b->v.outer == 0 || b->v.channels == 0 || b->v.inner == 0) return;
  go(c, &r, pieces_of(&r));
}

td_status *td_batch_norm_sums(td_kernel_ctx *c, td_batch_norm *b) {
  return sums(c, b, SUMS);
}
td_status *td_batch_norm_squares(td_kernel_ctx *c, td_batch_norm *b) {
  return sums(c, b, SQUARES);
}
td_status *td_batch_norm_dots(td_kernel_ctx *c, td_batch_norm *b) {
  return sums(c, b, DOTS);
}
void td_batch_norm_apply(td_kernel_ctx *c, td_batch_norm *b) {
  write(c, b, APPLY);
}
void td_batch_norm_back(td_kernel_ctx *c, td_batch_norm *b) {
  write(c, b, BACK);
}
