/* row_reduce.c - rows reduced by number; see row_reduce.h.
 *
 * The work is cut by the rows of the result, never by those of the input: a
 * piece looks through all row numbers and takes its own, in order. So no two
 * threads write the same row, and the order of additions is that of the input
 * for any number of threads. Where rows are too short to pay for the search,
 * everything is one piece.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/row_reduce.h"

#include <float.h>
#include <string.h>

#include "kernels/cpu.h"
#include "kernels/strided_copy.h"
#include "kernels/num.h"

enum {
  PIECES = 16,    /* of the result, when it is cut */
  SHORT_ROW = 16, /* elements; below, it is not cut */
  OPS = TD_ROW_REDUCE_SET + 1,
};

/* ---- loops --------------------------------------------------------------- */

typedef void (*row_loop)(void *to, const void *from, int64_t n, double by);

#define LOOP(kind, name, expression)                                           \
  static void name##_##kind(void *to, const void *from, int64_t n,             \
                            double by) {                                       \
    td_##kind *y = to;                                                         \
    const td_##kind *x = from;                                                 \
    (void)by;                                                                  \
    for (int64_t i = 0; i < n; i++) y[i] = (td_##kind)(expression);            \
  }
EACH_NUMBERS(LOOP, sum, y[i] + x[i])
EACH_NUMBERS(LOOP, sub, y[i] - x[i])
EACH_NUMBERS(LOOP, prod, y[i] * x[i])
EACH_REALS(LOOP, max, td_num_max(y[i], x[i]))
EACH_REALS(LOOP, min, td_num_min(y[i], x[i]))
LOOP(b8, sum, y[i] | x[i])
LOOP(f32, weighted, y[i] + x[i] * (float)by)
LOOP(f64, weighted, y[i] + x[i] * by)

#define ENTRY(kind, name) [TD_ELEMENT_##kind] = name##_##kind,
static const row_loop loops[OPS][TD_DTYPES] = {
    [TD_ROW_REDUCE_SUM] = {EACH_NUMBERS(ENTRY, sum) ENTRY(b8, sum)},
    [TD_ROW_REDUCE_SUB] = {EACH_NUMBERS(ENTRY, sub)},
    [TD_ROW_REDUCE_PROD] = {EACH_NUMBERS(ENTRY, prod)},
    [TD_ROW_REDUCE_MAX] = {EACH_REALS(ENTRY, max)},
    [TD_ROW_REDUCE_MIN] = {EACH_REALS(ENTRY, min)},
};
static const row_loop weighted[TD_DTYPES] = {EACH_FLOATS(ENTRY, weighted)};

/* ---- where a row begins, and ends when nothing went to it ---------------- */

#define START(kind, low, high)                                                 \
  case TD_ELEMENT_##kind: {                                                    \
    const td_##kind v[OPS] = {0, 0, 1, low, high, 0};                          \
    memcpy(to, &v[op], sizeof *v);                                             \
    break;                                                                     \
  }

static void start_of(td_dtype t, td_row_reduce_op op, void *to) {
  switch ((int)t) {
    START(f32, -INFINITY, INFINITY)
    START(f64, -INFINITY, INFINITY)
    START(i8, INT8_MIN, INT8_MAX)
    START(i16, INT16_MIN, INT16_MAX)
    START(i32, INT32_MIN, INT32_MAX)
    START(i64, INT64_MIN, INT64_MAX)
    START(u8, 0, UINT8_MAX)
    START(u16, 0, UINT16_MAX)
    START(u32, 0, UINT32_MAX)
    START(u64, 0, UINT64_MAX)
    START(c64, 0, 0)
    START(c128, 0, 0)
    START(b8, 0, 0)
  }
}

/* The largest finite number of a float dtype; the halves' as a float. */
static double largest_of(td_dtype t) {
  if (t == TD_FLOAT16) return 65504;
  if (t == TD_BFLOAT16) return 0x1.fep127;
  return t == TD_FLOAT32 ? (double)FLT_MAX : DBL_MAX;
}

typedef struct job {
  const td_row_reduce *f;
  row_loop loop;
  td_dtype dtype;     /* of the elements */
  td_dtype acc_dtype; /* that they are reduced in: float for halves */
  const char *from;
  const void *base;      /* what to begin with, of dtype; NULL: `start` */
  char *acc;             /* where rows are reduced: the output, or floats */
  char *to;              /* the output */
  char *seen;            /* did something go to a row? NULL: no matter */
  size_t size, acc_size; /* bytes of an element */
  _Alignas(16) char start[16], empty[16];
} job;

/* Reduces row `from` of the input, in blocks where it must be converted. */
static void reduce_row(const job *j, int64_t to, int64_t from, double by) {
  int64_t each = j->f->each;
  char *acc = j->acc + (size_t)(to * each) * j->acc_size;
  const char *x = j->from + (size_t)(from * each) * j->size;
  if (j->f->op == TD_ROW_REDUCE_SET) {
    memcpy(acc, x, (size_t)each * j->size);
    return;
  }
  if (j->acc_dtype == j->dtype) {
    j->loop(acc, x, each, by);
    return;
  }
  float block[TD_HALF_BLOCK];
  for (int64_t i = 0; i < each; i += TD_HALF_BLOCK) {
    int64_t some = each - i < TD_HALF_BLOCK ? each - i : TD_HALF_BLOCK;
    td_half_load(j->dtype, some, (const uint16_t *)(const void *)x + i, block);
    j->loop((float *)(void *)acc + i, block, some, by);
  }
}

static void begin_rows(const job *j, int64_t begin, int64_t end) {
  int64_t each = j->f->each, at = begin * each, n = (end - begin) * each;
  char *acc = j->acc + (size_t)at * j->acc_size;
  if (!j->base)
    td_strided_copy_fill(j->start, j->acc_size, acc, n);
  else if (j->acc_dtype != j->dtype)
    td_half_load(j->dtype, n, (const uint16_t *)j->base + at,
                 (float *)(void *)acc);
  else if (j->base != j->to)
    memcpy(acc, (const char *)j->base + (size_t)at * j->size,
           (size_t)n * j->size);
}

/* Quotients: of floats as they are, of integers rounded toward 0. */
#define DIVIDE(kind, wide)                                                     \
  case TD_ELEMENT_##kind:                                                      \
    for (int64_t i = 0; i < n; i++)                                            \
      ((td_##kind *)y)[i] =                                                    \
          (td_##kind)(((td_##kind *)y)[i] / (td_##wide)divisor);               \
    break;
#define DIVIDE_SAME(kind, ...) DIVIDE(kind, kind)

static void divide(td_dtype t, int64_t n, double divisor, void *y) {
  switch ((int)t) {
    EACH_FLOATS(DIVIDE_SAME)
    EACH_COMPLEX(DIVIDE_SAME)
    EACH_LONG_SIGNED(DIVIDE, i64)
    EACH_SHORT_SIGNED(DIVIDE, i64)
    EACH_UNSIGNED(DIVIDE, u64)
  }
}

static void end_rows(const job *j, int64_t begin, int64_t end) {
  int64_t each = j->f->each, at = begin * each;
  for (int64_t row = begin; row < end; row++) {
    char *acc = j->acc + (size_t)(row * each) * j->acc_size;
    if (j->seen && !j->seen[row])
      td_strided_copy_fill(j->empty, j->acc_size, acc, each);
    if (j->f->over && j->f->over[row] != 1)
      divide(j->acc_dtype, each, j->f->over[row], acc);
  }
  if (j->acc_dtype != j->dtype)
    td_half_store(j->dtype, (end - begin) * each,
                  (const float *)(void *)j->acc + at,
                  (uint16_t *)(void *)j->to + at);
}

/* Rows [begin, end) of the result. */
static void reduce_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const td_row_reduce *f = j->f;
  begin_rows(j, begin, end);
  for (int64_t i = 0; i < f->n; i++) {
    int64_t to = f->to[i];
    if (to < begin || to >= end) continue;
    if (j->seen) j->seen[to] = 1;
    reduce_row(j, to, f->from ? f->from[i] : i, f->by ? f->by[i] : 1);
  }
  end_rows(j, begin, end);
}

static int64_t grain_of(int64_t rows, const td_row_reduce *f) {
  if (f->each < SHORT_ROW || f->n < TD_GRAIN / f->each) return rows;
  return rows / PIECES + 1;
}

/* Rows that nothing goes to are told apart only where they end as something
 * else than they begin. */
static td_status *prepare(job *j, int64_t rows) {
  td_row_reduce_op op = j->f->op;
  bool extreme = op == TD_ROW_REDUCE_MAX || op == TD_ROW_REDUCE_MIN;
  start_of(j->acc_dtype, op, j->start);
  if (!extreme || j->f->onto) return NULL;
  if (!j->f->zero && !td_dtype_is_float(j->dtype)) return NULL;
  if (!j->f->zero) {
    double most = largest_of(j->dtype);
    if (op == TD_ROW_REDUCE_MAX) most = -most;
    if (j->acc_dtype == TD_FLOAT64)
      memcpy(j->empty, &most, sizeof most);
    else
      memcpy(j->empty, &(float){(float)most}, sizeof(float));
  }
  j->seen = td_calloc((size_t)rows, 1);
  return j->seen ? NULL : td_oom();
}

static td_status *make_places(td_kernel_ctx *c, job *j, const td_shape *shape,
                              td_tensor *floats) {
  td_tensor *y;
  TD_TRY(td_out_forward(c, 0, shape, j->f->onto ? 0 : -1, -1, &y));
  if (j->f->onto) j->base = td_in(c, 0)->data;
  j->to = j->acc = y->data;
  if (j->acc_dtype == j->dtype) return NULL;
  TD_TRY(td_temp(c, TD_FLOAT32, shape, floats));
  j->acc = floats->data;
  return NULL;
}

td_status *td_row_reduce_run(td_kernel_ctx *c, int in, const td_row_reduce *f,
                             const td_shape *shape) {
  const td_tensor *x = td_in(c, in);
  bool set = f->op == TD_ROW_REDUCE_SET, widen = td_is_half(x->dtype) && !set;
  td_dtype acc_dtype = widen ? TD_FLOAT32 : x->dtype;
  td_tensor floats = {0};
  job j = {.f = f,
           .loop = f->by ? weighted[acc_dtype] : loops[f->op][acc_dtype],
           .dtype = x->dtype,
           .acc_dtype = acc_dtype,
           .from = x->data,
           .size = td_dtype_size(x->dtype),
           .acc_size = td_dtype_size(acc_dtype)};
  if (!j.loop && !set)
    return td_error(TD_UNIMPLEMENTED, "elements of dtype %s cannot be reduced",
                    td_dtype_name(x->dtype));
  TD_TRY(make_places(c, &j, shape, &floats));
  int64_t count = td_shape_count(shape), rows = count ? count / f->each : 0;
  td_status *s = count ? prepare(&j, rows) : NULL;
  if (td_ok(s) && count) td_for(c, rows, grain_of(rows, f), reduce_rows, &j);
  td_tensor_release(&floats);
  td_free(j.seen);
  return s;
}
