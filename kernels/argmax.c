/* argmax.c - where along an axis the largest or smallest element stands.
 *
 * Ties go to the lowest index. A NaN is never chosen, unless there is nothing
 * else: then it is index 0, as in TensorFlow. Halves are compared as floats.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/checks.h"
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/element.h"
#include "kernels/transpose_tile.h"
#include "kernels/simd/vec.h"

enum {
  STRIP = 512,   /* columns searched at once */
  RUN = 1024,    /* elements of a run searched at once */
  FAR = 1 << 30, /* rows between which an index is kept in 32 bits */
};

/* ---- loops ---------------------------------------------------------------
 *
 * A strip: best[i] and at[i] take in n rows, x[i], x[i + stride], ..., the
 * first being row `row`; a mask keeps the compiler from branching. A run: *best
 * and *at take in n elements whose first is `row`; the best of them is found
 * first, then where it stands. */
typedef void (*strip_loop)(void *best, int32_t *at, const void *x,
                           int64_t width, int64_t stride, int64_t n,
                           int32_t row);
typedef void (*run_loop)(void *best, int64_t *at, const void *x, int64_t n,
                         int64_t row);

#define LOOPS(kind, name, better)                                              \
  static void name##_strip_##kind(void *best, int32_t *at, const void *from,   \
                                  int64_t width, int64_t stride, int64_t n,    \
                                  int32_t row) {                               \
    td_##kind *b = best;                                                       \
    const td_##kind *x = from;                                                 \
    for (int64_t k = 0; k < n; k++, x += stride, row++) {                      \
      TD_VEC_LOOP                                                              \
      for (int64_t i = 0; i < width; i++) {                                    \
        int32_t wins = -(int32_t)(x[i] better b[i]);                           \
        b[i] = x[i] better b[i] ? x[i] : b[i];                                 \
        at[i] = (row & wins) | (at[i] & ~wins);                                \
      }                                                                        \
    }                                                                          \
  }                                                                            \
  static void name##_run_##kind(void *best, int64_t *at, const void *from,     \
                                int64_t n, int64_t row) {                      \
    const td_##kind *x = from;                                                 \
    td_##kind was = *(td_##kind *)best, lane[16], b = was;                     \
    int64_t i = 0;                                                             \
    for (int k = 0; k < 16; k++) lane[k] = was;                                \
    for (; i + 16 <= n; i += 16)                                               \
      for (int k = 0; k < 16; k++)                                             \
        lane[k] = x[i + k] better lane[k] ? x[i + k] : lane[k];                \
    for (int k = 0; k < 16; k++) b = lane[k] better b ? lane[k] : b;           \
    for (; i < n; i++) b = x[i] better b ? x[i] : b;                           \
    if (!(b better was)) return;                                               \
    for (i = 0; x[i] != b; i++) continue;                                      \
    *(td_##kind *)best = b;                                                    \
    *at = row + i;                                                             \
  }
EACH_REALS(LOOPS, max, >)
EACH_REALS(LOOPS, min, <)

typedef struct loops {
  strip_loop strip;
  run_loop run;
} loops;

#define ENTRY(kind, name)                                                      \
  [TD_ELEMENT_##kind] = {name##_strip_##kind, name##_run_##kind},
static const loops max_loops[TD_DTYPES] = {EACH_REALS(ENTRY, max)};
static const loops min_loops[TD_DTYPES] = {EACH_REALS(ENTRY, min)};

/* ---- one search ---------------------------------------------------------- */

typedef struct job {
  bool least;
  td_dtype dtype, run_dtype; /* run_dtype: float for halves, uint8 for bool */
  loops loop;
  size_t size;
  int64_t n, inner; /* along the axis; elements behind it */
  const char *x;
  char *out;
  td_dtype out_dtype;
} job;

/* The element itself starts: nothing beats it but something better. A NaN
 * gives way to whatever is beyond the worst number. */
#define START(kind, ...)                                                       \
  case TD_ELEMENT_##kind:                                                      \
    for (int64_t i = 0; i < width; i++) {                                      \
      td_##kind v = ((const td_##kind *)x)[i];                                 \
      ((td_##kind *)best)[i] = v == v ? v : (td_##kind)worst;                  \
    }                                                                          \
    break;

static void start(const job *j, void *best, const void *x, int64_t width) {
  double worst = j->least ? INFINITY : -INFINITY;
  switch ((int)j->run_dtype) {
    EACH_FLOATS(START)
  default:
    memcpy(best, x, (size_t)width * td_dtype_size(j->run_dtype));
  }
}

static const void *load(const job *j, const char *x, int64_t n, float *block) {
  if (!td_is_half(j->dtype)) return x;
  td_half_load(j->dtype, n, x, block);
  return block;
}

static void store(const job *j, int64_t at, const int64_t *index, int64_t n) {
  for (int64_t i = 0; i < n; i++) switch (j->out_dtype) {
    case TD_INT16:
      ((int16_t *)j->out)[at + i] = (int16_t)index[i];
      break;
    case TD_UINT16:
      ((uint16_t *)j->out)[at + i] = (uint16_t)index[i];
      break;
    case TD_INT32:
      ((int32_t *)j->out)[at + i] = (int32_t)index[i];
      break;
    default:
      ((int64_t *)j->out)[at + i] = index[i];
      break;
    }
}

static void search_run(const job *j, int64_t outer) {
  float block[RUN];
  _Alignas(8) char best[8];
  int64_t at = 0;
  const char *x = j->x + (size_t)(outer * j->n) * j->size;
  start(j, best, load(j, x, 1, block), 1);
  for (int64_t row = 0; row < j->n; row += RUN) {
    int64_t n = j->n - row < RUN ? j->n - row : RUN;
    j->loop.run(best, &at, load(j, x + (size_t)row * j->size, n, block), n,
                row);
  }
  store(j, outer, &at, 1);
}

/* Halves are converted row by row. */
static void take_rows(const job *j, void *best, int32_t *at, const char *x,
                      int64_t width, int64_t n) {
  float block[STRIP];
  if (!td_is_half(j->dtype)) {
    j->loop.strip(best, at, x, width, j->inner, n, 0);
    return;
  }
  for (int64_t k = 0; k < n; k++, x += (size_t)j->inner * j->size)
    j->loop.strip(best, at, load(j, x, width, block), width, width, 1,
                  (int32_t)k);
}

static void search_strip(const job *j, int64_t outer, int64_t column) {
  float block[STRIP];
  _Alignas(64) char best[STRIP * 8];
  int64_t index[STRIP] = {0};
  int64_t width = j->inner - column < STRIP ? j->inner - column : STRIP;
  const char *x = j->x + (size_t)(outer * j->n * j->inner + column) * j->size;
  start(j, best, load(j, x, width, block), width);
  for (int64_t row = 0; row < j->n; row += FAR) {
    int32_t at[STRIP];
    int64_t n = j->n - row < FAR ? j->n - row : FAR;
    memset(at, 0xff, sizeof at); /* -1: none better */
    take_rows(j, best, at, x, width, n);
    for (int64_t i = 0; i < width; i++)
      if (at[i] >= 0) index[i] = row + at[i];
    x += (size_t)(n * j->inner) * j->size;
  }
  store(j, outer * j->inner + column, index, width);
}

/* `n` short runs, turned into columns. */
static void search_tile(const job *j, int64_t outer, int64_t n) {
  _Alignas(64) char tile[TD_TRANSPOSE_ROWS * TD_TRANSPOSE_LONGEST * 8];
  _Alignas(64) char best[TD_TRANSPOSE_ROWS * 8];
  int32_t at[TD_TRANSPOSE_ROWS] = {0};
  int64_t index[TD_TRANSPOSE_ROWS];
  const char *x = j->x + (size_t)(outer * j->n) * j->size;
  if (td_is_half(j->dtype))
    td_transpose_tile_half(j->dtype, x, n, j->n, (float *)tile);
  else
    td_transpose_tile(x, n, j->n, j->size, tile);
  start(j, best, tile, n);
  j->loop.strip(best, at, tile, n, n, j->n, 0);
  for (int64_t i = 0; i < n; i++) index[i] = at[i];
  store(j, outer, index, n);
}

static void tiles(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += TD_TRANSPOSE_ROWS)
    search_tile(arg, i,
                end - i < TD_TRANSPOSE_ROWS ? end - i : TD_TRANSPOSE_ROWS);
}

static void runs(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) search_run(arg, i);
}

static void strips(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  int64_t n = (j->inner + STRIP - 1) / STRIP;
  for (int64_t i = begin; i < end; i++) search_strip(j, i / n, i % n * STRIP);
}

/* ---- kernels ------------------------------------------------------------- */

static td_status *find_axis(const td_tensor *x, const td_tensor *dimension,
                            int *axis) {
  td_shape_text text;
  if (dimension->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "dimension must be a scalar, not %s",
                    td_shape_str(&dimension->shape, &text));
  return td_infer_axis(td_tensor_get_i(dimension, 0), x->shape.rank,
                       "dimension", axis);
}

/* The largest index must fit the output's dtype. */
static td_status *check_size(const td_shape *s, int axis, td_dtype t) {
  td_shape_text text;
  int64_t most = t == TD_INT16    ? INT16_MAX
                 : t == TD_UINT16 ? UINT16_MAX
                 : t == TD_INT32  ? INT32_MAX
                                  : INT64_MAX;
  if (s->dim[axis] == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "dimension %d of %s is empty: nothing to choose from", axis,
                    td_shape_str(s, &text));
  if (s->dim[axis] - 1 > most)
    return td_error(TD_INVALID_ARGUMENT,
                    "an index along dimension %d of %s does not fit %s", axis,
                    td_shape_str(s, &text), td_dtype_name(t));
  return NULL;
}

static void search_all(td_kernel_ctx *c, job *j, int64_t outer) {
  int64_t across = (j->inner + STRIP - 1) / STRIP;
  int64_t width = j->inner < STRIP ? j->inner : STRIP;
  void (*items)(void *, int64_t, int64_t) = strips;
  if (j->inner == 1) items = j->n <= TD_TRANSPOSE_LONGEST ? tiles : runs;
  td_for(c, outer * across, td_grain_of(j->n * width), items, j);
}

td_status *td_argmax_check(const td_kernel_ctx *c, td_along *a, td_shape *out) {
  const td_shape *x = &td_in(c, 0)->shape;
  int axis;
  TD_TRY(find_axis(td_in(c, 0), td_in(c, 1), &axis));
  TD_TRY(check_size(x, axis, td_ctx_node(c)->out[0].dtype));
  *a = (td_along){.outer = 1, .n = x->dim[axis], .inner = 1};
  *out = td_shape_scalar();
  for (int i = 0; i < x->rank; i++) {
    if (i == axis) continue;
    *(i < axis ? &a->outer : &a->inner) *= x->dim[i];
    out->dim[out->rank++] = x->dim[i];
  }
  return NULL;
}

static td_status *run(td_kernel_ctx *c, bool least) {
  const td_tensor *x = td_in(c, 0);
  td_along a;
  td_shape shape;
  td_tensor *y;
  TD_TRY(td_argmax_check(c, &a, &shape));
  job j = {.least = least,
           .dtype = x->dtype,
           .size = td_dtype_size(x->dtype),
           .out_dtype = td_ctx_node(c)->out[0].dtype,
           .n = a.n,
           .inner = a.inner,
           .x = x->data};
  TD_TRY(td_out(c, 0, &shape, &y));
  j.out = y->data;
  j.run_dtype = td_is_half(j.dtype)  ? TD_FLOAT32
                : j.dtype == TD_BOOL ? TD_UINT8
                                     : j.dtype;
  j.loop = (least ? min_loops : max_loops)[j.run_dtype];
  search_all(c, &j, a.outer);
  return NULL;
}

static td_status *run_max(td_kernel_ctx *c) {
  return run(c, false);
}
static td_status *run_min(td_kernel_ctx *c) {
  return run(c, true);
}

static td_status *shape_of(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0);
  td_small dimension;
  int axis;
  td_shape out = td_shape_unknown();
  TD_TRY(td_infer_rank(c, 1, 0, "dimension", NULL));
  if (x->rank < 0) {
    td_infer_out(c, 0, out);
    return NULL;
  }
  out.rank = x->rank ? x->rank - 1 : 0;
  for (int i = 0; i < out.rank; i++) out.dim[i] = -1;
  if (td_infer_small(c, 1, &dimension) && dimension.known[0]) {
    TD_TRY(td_infer_axis(dimension.at[0], x->rank, "dimension", &axis));
    for (int i = 0; i < out.rank; i++) out.dim[i] = x->dim[i + (i >= axis)];
  }
  td_infer_out(c, 0, out);
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

#define SIG(tidx, outputs)                                                     \
  "input: T, dimension: Tidx -> output: output_type; T: {" SIG_REALS           \
  ", qint8, quint8, qint32, qint16, quint16, bool}; Tidx: {" tidx              \
  "} = int32; output_type: {" outputs "} = int64"

static const td_op_def ops[] = {
    {.type = "ArgMax",
     .sig = SIG("int16, int32, int64", "int16, uint16, int32, int64"),
     .shape = shape_of,
     .cost = td_cost_reduce,
     .doc = "Index of the largest element along an axis, the first of many.",
     .lua = "argmax",
     .example = "td.argmax(td.tensor{{1, 3, 2}, {6, 5, 4}}, 1)  --> 1 0",
     .host = "dimension",
     .section = "Reductions, ranges, segments"},
    {.type = "ArgMin",
     .sig = SIG("int32, int64", "int32, int64"),
     .shape = shape_of,
     .cost = td_cost_reduce,
     .doc = "Index of the smallest element along an axis, the first of many.",
     .lua = "argmin",
     .host = "dimension",
     .section = "Reductions, ranges, segments"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ArgMax",
     .device = "CPU",
     .types = TYPES_REALS "|bool",
     .run = run_max},
    {.op = "ArgMin",
     .device = "CPU",
     .types = TYPES_REALS "|bool",
     .run = run_min},
    {0},
};

TD_MODULE(argmax, ops, kernels)
