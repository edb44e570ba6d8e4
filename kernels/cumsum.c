/* cumsum.c - running sums and products along an axis.
 *
 * A strip of columns keeps its running values beside it while the rows pass.
 * Halves run in float and are rounded where they are stored.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cpu.h"
#include "kernels/element.h"
#include "kernels/vec.h"

enum { STRIP = 1024 }; /* columns at once */

/* ---- loops --------------------------------------------------------------- */

/* Takes row x into the running values, and writes them to y as they were
 * before (exclusive) or are now. */
typedef void (*scan_loop)(void *running, const void *x, void *y, int64_t width,
                          bool exclusive);

#define LOOP(kind, name, op)                                                   \
  static void name##_##kind(void *running, const void *x, void *y,             \
                            int64_t width, bool exclusive) {                   \
    td_##kind *r = running, *to = y;                                           \
    const td_##kind *from = x;                                                 \
    TD_VEC_LOOP                                                                \
    for (int64_t i = 0; i < width; i++) {                                      \
      td_##kind was = r[i], now = (td_##kind)(was op from[i]);                 \
      r[i] = now;                                                              \
      to[i] = exclusive ? was : now;                                           \
    }                                                                          \
  }
EACH_NUMBERS(LOOP, sum, +)
EACH_NUMBERS(LOOP, product, *)

#define ENTRY(kind, name) [TD_KIND_##kind] = name##_##kind,
static const scan_loop sums[TD_DTYPES] = {EACH_NUMBERS(ENTRY, sum)};
static const scan_loop products[TD_DTYPES] = {EACH_NUMBERS(ENTRY, product)};

/* One column, kept in a register. */
typedef void (*line_loop)(const void *x, void *y, int64_t n, bool exclusive,
                          bool reverse);

#define LINE(kind, name, op, first)                                            \
  static void name##_line_##kind(const void *x, void *y, int64_t n,            \
                                 bool exclusive, bool reverse) {               \
    const td_##kind *from = x;                                                 \
    td_##kind *to = y, now = first;                                            \
    for (int64_t k = 0; k < n; k++) {                                          \
      int64_t i = reverse ? n - 1 - k : k;                                     \
      td_##kind was = now;                                                     \
      now = (td_##kind)(was op from[i]);                                       \
      to[i] = exclusive ? was : now;                                           \
    }                                                                          \
  }
EACH_NUMBERS(LINE, sum, +, 0)
EACH_NUMBERS(LINE, product, *, 1)

#define LINE_ENTRY(kind, name) [TD_KIND_##kind] = name##_line_##kind,
static const line_loop sum_lines[TD_DTYPES] = {EACH_NUMBERS(LINE_ENTRY, sum)};
static const line_loop product_lines[TD_DTYPES] = {
    EACH_NUMBERS(LINE_ENTRY, product)};

/* ---- one scan ------------------------------------------------------------ */

typedef struct job {
  bool product, exclusive, reverse;
  td_dtype dtype, run_dtype; /* run_dtype: float for halves */
  size_t size;
  int64_t n, inner; /* along the axis; elements behind it */
  const char *x;
  char *y;
} job;

#define FILL(kind, ...)                                                        \
  case TD_KIND_##kind:                                                         \
    for (int i = 0; i < STRIP; i++) ((td_##kind *)running)[i] = value;         \
    break;

static void start(td_dtype t, int value, void *running) {
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
  scan_loop loop = (j->product ? products : sums)[j->run_dtype];
  start(j->run_dtype, j->product, running);
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
  line_loop loop = (j->product ? product_lines : sum_lines)[j->dtype];
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

static td_status *run(td_kernel_ctx *c, bool product) {
  const td_tensor *x = td_in(c, 0);
  const td_node *n = td_ctx_node(c);
  int axis;
  td_tensor *y;
  TD_TRY(find_axis(x, td_in(c, 1), &axis));
  job j = {.product = product,
           .exclusive = td_node_bool(n, "exclusive"),
           .reverse = td_node_bool(n, "reverse"),
           .dtype = x->dtype,
           .run_dtype = td_is_half(x->dtype) ? TD_FLOAT32 : x->dtype,
           .size = td_dtype_size(x->dtype),
           .n = x->shape.dim[axis],
           .inner = 1,
           .x = x->data};
  int64_t outer = 1;
  for (int i = 0; i < x->shape.rank; i++)
    if (i != axis) *(i < axis ? &outer : &j.inner) *= x->shape.dim[i];
  TD_TRY(td_out_like(c, 0, 0, &y));
  j.y = y->data;
  int64_t width = j.inner < STRIP ? j.inner : STRIP;
  if (j.n == 0) return NULL;
  if (j.inner == 1 && !td_is_half(j.dtype))
    td_for(c, outer, td_grain_of(j.n), lines, &j);
  else
    td_for(c, outer * ((j.inner + STRIP - 1) / STRIP), td_grain_of(j.n * width),
           strips, &j);
  return NULL;
}

static td_status *run_sum(td_kernel_ctx *c) {
  return run(c, false);
}
static td_status *run_product(td_kernel_ctx *c) {
  return run(c, true);
}

static td_status *shape_scan(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0);
  td_small v;
  int axis;
  TD_TRY(td_infer_rank(c, 1, 0, "axis", NULL));
  if (x->rank >= 0 && td_infer_small(c, 1, &v) && v.known[0])
    TD_TRY(td_infer_axis(v.at[0], x->rank, "axis", &axis));
  return td_shape_same(c);
}

/* ---- rows ---------------------------------------------------------------- */

#define SIG                                                                    \
  "x: T, axis: Tidx -> out: T; exclusive: bool = false; "                      \
  "reverse: bool = false; T: {" SIG_NUMBERS                                    \
  ", qint8, quint8, qint32, qint16, quint16}; Tidx: {int32, int64} = int32"

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
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Cumsum", .device = "CPU", .types = TYPES_NUMBERS, .run = run_sum},
    {.op = "Cumprod",
     .device = "CPU",
     .types = TYPES_NUMBERS,
     .run = run_product},
    {0},
};

TD_MODULE(cumsum, ops, kernels)
