/* cumsum.c - running sums, products and log-sums of exp along an axis.
 *
 * A strip of columns keeps its running values beside it while the rows pass.
 * Halves run in float and are rounded where they are stored.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/checks.h"
#include "kernels/cpu.h"
#include "kernels/element.h"
#include "kernels/num.h"

enum { STRIP = 1024 }; /* columns at once */

/* ---- loops --------------------------------------------------------------- */

/* Takes row x into the running values, and writes them to y as they were
 * before (exclusive) or are now. */
typedef void (*scan_loop)(void *running, const void *x, void *y, int64_t width,
                          bool exclusive);

/* log(exp(x) + exp(y)), from the larger one and how much the other adds. */
static inline double log_sum_exp(double x, double y) {
  double high = td_num_max(x, y), low = td_num_min(x, y);
  if (low == -INFINITY || high == INFINITY) return high;
  return high + log1p(exp(low - high));
}

#define JOIN_SUM(x, y) ((x) + (y))
#define JOIN_PRODUCT(x, y) ((x) * (y))
#define JOIN_LOGSUMEXP(x, y) log_sum_exp(x, y)

#define LOOP(kind, name, join)                                                 \
  static void name##_##kind(void *running, const void *x, void *y,             \
                            int64_t width, bool exclusive) {                   \
    td_##kind *r = running, *to = y;                                           \
    const td_##kind *from = x;                                                 \
    TD_VEC_LOOP                                                                \
    for (int64_t i = 0; i < width; i++) {                                      \
      td_##kind was = r[i], now = (td_##kind)JOIN_##join(was, from[i]);        \
      r[i] = now;                                                              \
      to[i] = exclusive ? was : now;                                           \
    }                                                                          \
  }
EACH_NUMBERS(LOOP, sum, SUM)
EACH_NUMBERS(LOOP, product, PRODUCT)
EACH_FLOATS(LOOP, logsumexp, LOGSUMEXP)

/* One column, kept in a register. */
typedef void (*line_loop)(const void *x, void *y, int64_t n, bool exclusive,
                          bool reverse);

#define LINE(kind, name, join, first)                                          \
  static void name##_line_##kind(const void *x, void *y, int64_t n,            \
                                 bool exclusive, bool reverse) {               \
    const td_##kind *from = x;                                                 \
    td_##kind *to = y, now = first;                                            \
    for (int64_t k = 0; k < n; k++) {                                          \
      int64_t i = reverse ? n - 1 - k : k;                                     \
      td_##kind was = now;                                                     \
      now = (td_##kind)JOIN_##join(was, from[i]);                              \
      to[i] = exclusive ? was : now;                                           \
    }                                                                          \
  }
EACH_NUMBERS(LINE, sum, SUM, 0)
EACH_NUMBERS(LINE, product, PRODUCT, 1)
EACH_FLOATS(LINE, logsumexp, LOGSUMEXP, -INFINITY)

typedef enum scan_op { SUM, PRODUCT, LOGSUMEXP, SCANS } scan_op;

#define ENTRY(kind, name) [TD_ELEMENT_##kind] = name##_##kind,
static const scan_loop scans[SCANS][TD_DTYPES] = {
    [SUM] = {EACH_NUMBERS(ENTRY, sum)},
    [PRODUCT] = {EACH_NUMBERS(ENTRY, product)},
    [LOGSUMEXP] = {EACH_FLOATS(ENTRY, logsumexp)},
};

#define LINE_ENTRY(kind, name) [TD_ELEMENT_##kind] = name##_line_##kind,
static const line_loop line_scans[SCANS][TD_DTYPES] = {
    [SUM] = {EACH_NUMBERS(LINE_ENTRY, sum)},
    [PRODUCT] = {EACH_NUMBERS(LINE_ENTRY, product)},
    [LOGSUMEXP] = {EACH_FLOATS(LINE_ENTRY, logsumexp)},
};

/* ---- one scan ------------------------------------------------------------ */

typedef struct job {
  scan_op op;
  bool exclusive, reverse;
  td_dtype dtype, run_dtype; /* run_dtype: float for halves */
  size_t size;
  int64_t n, inner; /* along the axis; elements behind it */
  const char *x;
  char *y;
} job;

#define FILL(kind, ...)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    for (int i = 0; i < STRIP; i++)                                            \
      ((td_##kind *)running)[i] = (td_##kind)value;                            \
    break;

static void start(td_dtype t, scan_op op, void *running) {
  const float value = op == SUM ? 0 : op == PRODUCT ? 1 : -INFINITY;
  switch ((int)t) { EACH_NUMBERS(FILL) }
}

static void scan_half_row(const job *j, scan_loop loop, float *running,
                          size_t skip, int64_t width) {
  float x[STRIP], y[STRIP];
  td_half_load(j->dtype, width, j->x + skip, x);
  loop(running, x, y, width, j->exclusive);
  td_half_store(j->dtype, width, y, j->y + skip);
}

static void scan_strip(const job *j, int64_t outer, int64_t column) {
  _Alignas(64) char running[STRIP * 16];
  int64_t width = j->inner - column < STRIP ? j->inner - column : STRIP;
  scan_loop loop = scans[j->op][j->run_dtype];
  start(j->run_dtype, j->op, running);
  for (int64_t k = 0; k < j->n; k++) {
    int64_t row = j->reverse ? j->n - 1 - k : k;
    int64_t at = (outer * j->n + row) * j->inner + column;
    size_t skip = (size_t)at * j->size;
    if (td_is_half(j->dtype))
      scan_half_row(j, loop, (float *)running, skip, width);
    else
      loop(running, j->x + skip, j->y + skip, width, j->exclusive);
  }
}

static void strips(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  int64_t n = (j->inner + STRIP - 1) / STRIP;
  for (int64_t i = begin; i < end; i++) scan_strip(j, i / n, i % n * STRIP);
}

static void lines(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  line_loop loop = line_scans[j->op][j->dtype];
  for (int64_t i = begin; i < end; i++) {
    size_t skip = (size_t)(i * j->n) * j->size;
    loop(j->x + skip, j->y + skip, j->n, j->exclusive, j->reverse);
  }
}

/* ---- kernels ------------------------------------------------------------- */

static td_status *find_axis(const td_tensor *x, const td_tensor *a, int *axis) {
  td_shape_text text;
  if (a->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "axis must be a scalar, not %s",
                    td_shape_str(&a->shape, &text));
  return td_infer_axis(td_tensor_get_i(a, 0), x->shape.rank, "axis", axis);
}

td_status *td_scan_check(const td_kernel_ctx *c, td_along *a) {
  const td_tensor *x = td_in(c, 0);
  int axis;
  TD_TRY(find_axis(x, td_in(c, 1), &axis));
  *a = (td_along){.outer = 1, .n = x->shape.dim[axis], .inner = 1};
  for (int i = 0; i < x->shape.rank; i++)
    if (i != axis) *(i < axis ? &a->outer : &a->inner) *= x->shape.dim[i];
  return NULL;
}

static td_status *run(td_kernel_ctx *c, scan_op op) {
  const td_tensor *x = td_in(c, 0);
  const td_node *n = td_ctx_node(c);
  td_along a;
  td_tensor *y;
  TD_TRY(td_scan_check(c, &a));
  job j = {.op = op,
           .exclusive = td_node_bool(n, "exclusive"),
           .reverse = td_node_bool(n, "reverse"),
           .dtype = x->dtype,
           .run_dtype = td_is_half(x->dtype) ? TD_FLOAT32 : x->dtype,
           .size = td_dtype_size(x->dtype),
           .n = a.n,
           .inner = a.inner,
           .x = x->data};
  TD_TRY(td_out_like(c, 0, 0, &y));
  j.y = y->data;
  int64_t width = j.inner < STRIP ? j.inner : STRIP;
  if (j.n == 0) return NULL;
  if (j.inner == 1 && !td_is_half(j.dtype))
    td_for(c, a.outer, td_grain_of(j.n), lines, &j);
  else
    td_for(c, a.outer * ((j.inner + STRIP - 1) / STRIP),
           td_grain_of(j.n * width), strips, &j);
  return NULL;
}

static td_status *run_sum(td_kernel_ctx *c) {
  return run(c, SUM);
}
static td_status *run_product(td_kernel_ctx *c) {
  return run(c, PRODUCT);
}
static td_status *run_logsumexp(td_kernel_ctx *c) {
  return run(c, LOGSUMEXP);
}

static td_status *shape_scan(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0);
  td_small v;
  int axis;
  TD_TRY(td_infer_rank(c, 1, 0, "axis", NULL));
  if (x->rank >= 0 && td_infer_small(c, 1, &v) && v.known[0])
    TD_TRY(td_infer_axis(v.at[0], x->rank, "axis", &axis));
  return td_infer_same(c);
}

/* ---- rows ---------------------------------------------------------------- */

#define SIG_OF(allowed)                                                        \
  "x: T, axis: Tidx -> out: T; exclusive: bool = false; "                      \
  "reverse: bool = false; T: {" allowed "}; Tidx: {int32, int64} = int32"
#define SIG SIG_OF(SIG_NUMBERS ", qint8, quint8, qint32, qint16, quint16")

static const td_op_def ops[] = {
    {.type = "Cumsum",
     .sig = SIG,
     .shape = shape_scan,
     .doc = "Running sum along an axis; exclusive: without the element itself; "
            "reverse: from the end.",
     .example = "td.cumsum(td.tensor{1, 2, 3}, 0)  --> 1 3 6",
     .host = "axis",
     .section = "Reductions, ranges, segments"},
    {.type = "Cumprod",
     .sig = SIG,
     .shape = shape_scan,
     .doc = "Running product along an axis; exclusive and reverse as in "
            "Cumsum.",
     .host = "axis",
     .section = "Reductions, ranges, segments"},
    {.type = "CumulativeLogsumexp",
     .sig = SIG_OF(SIG_FLOATS),
     .shape = shape_scan,
     .doc = "Running log of the sum of exp along an axis; exclusive and "
            "reverse as in Cumsum.",
     .host = "axis",
     .example = "td.cumulative_logsumexp({0.0, 0.0}, 0)  --> 0 0.6931472",
     .section = "Reductions, ranges, segments"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Cumsum", .device = "CPU", .types = TYPES_NUMBERS, .run = run_sum},
    {.op = "Cumprod",
     .device = "CPU",
     .types = TYPES_NUMBERS,
     .run = run_product},
    {.op = "CumulativeLogsumexp",
     .device = "CPU",
     .types = TYPES_FLOATS,
     .run = run_logsumexp},
    {0},
};

TD_MODULE(cumsum, ops, kernels)
