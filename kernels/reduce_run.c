/* reduce_run.c - folding a tensor by a plan, in pieces that threads share.
 *
 * The work is cut by sizes alone: into groups, into strips of columns, and,
 * where that gives few items, into slices of a group's rows. Each item folds
 * its part into a row of accumulators; the slices of a group are then folded
 * like the rows of a tensor.
 *
 * Narrow rows are taken several at once, so that they fill the vector lanes;
 * the lanes are folded by halves at the end. Long items start a fresh row of
 * accumulators now and then, so that rounding errors stay small.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/element.h"
#include "kernels/reduce.h"
#include "kernels/transpose_tile.h"

enum {
  LANES = 64,      /* columns that narrow rows are widened to */
  STRIP = 1024,    /* most columns of an item */
  SPAN = 512,      /* rows taken in by one row of accumulators */
  FEW_ITEMS = 32,  /* with fewer, slices are cut */
  LEAST_ROWS = 16, /* of a slice */
  WIDEST = 16,     /* bytes of the largest accumulator */
};

td_reduce_loop td_reduce_find(int loop, td_dtype t, td_isa isa) {
  td_reduce_loop found = {NULL, NULL};
  if (isa >= TD_AVX512) found = td_reduce_avx512[loop][t];
  if (!found.take && isa >= TD_AVX2) found = td_reduce_avx2[loop][t];
  return found.take ? found : td_reduce_scalar[loop][t];
}

typedef struct job {
  const td_reduce_plan *plan;
  int loop;
  td_dtype dtype; /* of x */
  td_dtype acc_dtype;
  size_t size, acc_size;
  td_reduce_loop in;   /* x, or floats of a half, into accumulators */
  td_reduce_loop join; /* accumulators into accumulators */
  const char *x;
  char *acc;     /* [groups][slices][width] */
  int64_t lines; /* rows of a group, over all its blocks */
  int64_t slices, slice_lines;
  int64_t strips, strip; /* of a row; columns of each but the last */
  int64_t lanes;         /* rows taken at once, a power of 2 */
} job;

/* ---- accumulators -------------------------------------------------------- */

#define FILL(kind, value)                                                      \
  case TD_ELEMENT_##kind:                                                      \
    for (int64_t i = 0; i < n; i++) ((td_##kind *)acc)[i] = (value);           \
    break;

static void fill_one(td_dtype t, int64_t n, void *acc) {
  switch ((int)t) { EACH_NUMBERS(FILL, 1) }
}

static void fill_lowest(td_dtype t, int64_t n, void *acc) {
  switch ((int)t) {
    EACH_FLOATS(FILL, -INFINITY)
    FILL(i8, INT8_MIN)
    FILL(i16, INT16_MIN)
    FILL(i32, INT32_MIN)
    FILL(i64, INT64_MIN)
    EACH_UNSIGNED(FILL, 0)
  }
}

static void fill_highest(td_dtype t, int64_t n, void *acc) {
  switch ((int)t) {
    EACH_FLOATS(FILL, INFINITY)
    FILL(i8, INT8_MAX)
    FILL(i16, INT16_MAX)
    FILL(i32, INT32_MAX)
    FILL(i64, INT64_MAX)
    FILL(u8, UINT8_MAX)
    FILL(u16, UINT16_MAX)
    FILL(u32, UINT32_MAX)
    FILL(u64, UINT64_MAX)
  }
}

/* What folding nothing gives. */
static void clear(const job *j, int64_t n, void *acc) {
  switch (j->loop) {
  case TD_REDUCE_PROD:
    fill_one(j->acc_dtype, n, acc);
    break;
  case TD_REDUCE_MAX:
    fill_lowest(j->acc_dtype, n, acc);
    break;
  case TD_REDUCE_MIN:
    if (j->dtype == TD_BOOL)
      memset(acc, true, (size_t)n);
    else
      fill_highest(j->acc_dtype, n, acc);
    break;
  default:
    memset(acc, 0, (size_t)n * j->acc_size);
  }
}

/* ---- one item ------------------------------------------------------------ */

/* A row of accumulators, and the one being filled. */
typedef struct fold {
  const job *j;
  int64_t width; /* accumulators in use */
  int64_t taken; /* rows in `now` */
  char *now;     /* `total` itself until SPAN rows were taken */
  _Alignas(64) char total[STRIP * WIDEST];
  _Alignas(64) char more[STRIP * WIDEST];
} fold;

static void fold_next(fold *f) {
  if (f->now == f->more)
    f->j->join.take(f->total, f->more, 1, f->width, f->width);
  f->now = f->more;
  f->taken = 0;
  clear(f->j, f->width, f->more);
}

static void take_half(const job *j, void *acc, const char *x, int64_t n,
                      int64_t width, int64_t stride) {
  float block[STRIP];
  int64_t most = width == stride ? STRIP / width : 1;
  for (int64_t r = 0; r < n; r += most) {
    int64_t m = n - r < most ? n - r : most;
    td_half_load(j->dtype, m * width, x, block);
    j->in.take(acc, block, m, width, width);
    x += (size_t)(m * stride) * j->size;
  }
}

/* n rows of `width` elements, at most f->width. */
static void take(fold *f, const char *x, int64_t n, int64_t width,
                 int64_t stride) {
  const job *j = f->j;
  while (n > 0) {
    if (f->taken == SPAN) fold_next(f);
    int64_t m = n < SPAN - f->taken ? n : SPAN - f->taken;
    if (td_is_half(j->dtype))
      take_half(j, f->now, x, m, width, stride);
    else
      j->in.take(f->now, x, m, width, stride);
    x += (size_t)(m * stride) * j->size;
    f->taken += m;
    n -= m;
  }
}

/* n rows of a block, in one piece. What does not fill the lanes goes into the
 * first of them. */
static void take_lines(fold *f, const char *x, int64_t n, int64_t width) {
  const job *j = f->j;
  int64_t stride = j->plan->width;
  if (j->lanes == 1) {
    take(f, x, n, width, stride);
    return;
  }
  int64_t full = n / j->lanes, wide = j->lanes * width;
  take(f, x, full, wide, wide);
  int64_t left = (n - full * j->lanes) * width;
  if (left) take(f, x + (size_t)(full * wide) * j->size, 1, left, left);
}

static int64_t offset(int64_t i, int n, const int64_t *size,
                      const int64_t *step) {
  if (n == 1) return i * step[0];
  int64_t at = 0;
  for (int k = 0; k < n && i; k++) {
    at += i % size[k] * step[k];
    i /= size[k];
  }
  return at;
}

/* Lines [from, to) of group g, `width` columns from `column` on, to `out`. */
static void fold_lines(const job *j, int64_t g, int64_t from, int64_t to,
                       int64_t column, int64_t width, char *out) {
  const td_reduce_plan *p = j->plan;
  fold f;
  f.j = j;
  f.width = width * j->lanes;
  f.taken = 0;
  f.now = f.total;
  clear(j, f.width, f.total);
  int64_t base = offset(g, p->n_kept, p->kept_size, p->kept_step) + column;
  while (from < to) {
    int64_t block = p->blocks > 1 ? from / p->rows : 0;
    int64_t row = from - block * p->rows;
    int64_t n = p->rows - row < to - from ? p->rows - row : to - from;
    int64_t at = offset(block, p->n_folded, p->folded_size, p->folded_step);
    at += base + row * p->width;
    take_lines(&f, j->x + (size_t)at * j->size, n, width);
    from += n;
  }
  if (f.now == f.more) j->join.take(f.total, f.more, 1, f.width, f.width);
  if (j->lanes > 1) j->join.halve(f.total, j->lanes, width);
  memcpy(out, f.total, (size_t)width * j->acc_size);
}

static void items(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t i = begin; i < end; i++) {
    int64_t row = j->strips > 1 ? i / j->strips : i;
    int64_t group = j->slices > 1 ? row / j->slices : row;
    int64_t column = (i - row * j->strips) * j->strip;
    int64_t from = (row - group * j->slices) * j->slice_lines;
    int64_t to = from + j->slice_lines, width = j->plan->width - column;
    size_t at = (size_t)(row * j->plan->width + column) * j->acc_size;
    fold_lines(j, group, from, to < j->lines ? to : j->lines, column,
               width < j->strip ? width : j->strip, j->acc + at);
  }
}

/* ---- short runs ----------------------------------------------------------
 *
 * Many short runs in one piece of memory are turned into columns, a tile at a
 * time. */

static bool runs_are_short(const job *j) {
  const td_reduce_plan *p = j->plan;
  return p->width == 1 && p->blocks == 1 && p->rows > 0 && p->groups > 1 &&
         p->rows <= TD_TRANSPOSE_LONGEST && p->n_kept == 1 &&
         p->kept_step[0] == p->rows;
}

static void tiles(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  _Alignas(64) char tile[TD_TRANSPOSE_ROWS * TD_TRANSPOSE_LONGEST * WIDEST];
  int64_t rows = j->plan->rows;
  for (int64_t g = begin; g < end; g += TD_TRANSPOSE_ROWS) {
    int64_t n = end - g < TD_TRANSPOSE_ROWS ? end - g : TD_TRANSPOSE_ROWS;
    const char *x = j->x + (size_t)(g * rows) * j->size;
    char *acc = j->acc + (size_t)g * j->acc_size;
    if (td_is_half(j->dtype))
      td_transpose_tile_half(j->dtype, x, n, rows, (float *)tile);
    else
      td_transpose_tile(x, n, rows, j->size, tile);
    clear(j, n, acc);
    j->in.take(acc, tile, rows, n, n);
  }
}

/* ---- cutting ------------------------------------------------------------- */

static int64_t pieces_of(int64_t n, int64_t piece) {
  return n / piece + (n % piece != 0);
}

/* How many rows fill the lanes, but not more than there are. */
static int64_t lanes_for(int64_t width, int64_t rows) {
  int64_t lanes = 1;
  while (lanes * 2 * width <= LANES && lanes < rows) lanes *= 2;
  return lanes;
}

static void partition(job *j, bool may_slice) {
  const td_reduce_plan *p = j->plan;
  j->strip = p->width < STRIP ? p->width : STRIP;
  j->strips = pieces_of(p->width, j->strip);
  j->lines = p->blocks * p->rows;
  j->lanes = j->strips == 1 ? lanes_for(p->width, p->rows) : 1;
  j->slice_lines = TD_GRAIN / j->strip;
  if (j->slice_lines < LEAST_ROWS) j->slice_lines = LEAST_ROWS;
  if (!may_slice || j->lines <= j->slice_lines ||
      p->groups >= FEW_ITEMS / j->strips)
    j->slice_lines = j->lines;
  j->slices = j->lines ? pieces_of(j->lines, j->slice_lines) : 1;
}

static void run_items(td_kernel_ctx *c, job *j) {
  if (runs_are_short(j)) {
    int64_t grain = td_grain_of(j->plan->rows);
    td_for(c, j->plan->groups, grain, tiles, j);
    return;
  }
  int64_t each = j->slice_lines * j->strip;
  td_for(c, j->plan->groups * j->slices * j->strips, td_grain_of(each), items,
         j);
}

/* Folds the slices of each group, [slices][width], into acc. */
static void join_slices(td_kernel_ctx *c, const job *sliced, char *acc) {
  const td_reduce_plan *p = sliced->plan;
  td_reduce_plan plan = {.groups = p->groups,
                         .blocks = 1,
                         .rows = sliced->slices,
                         .width = p->width,
                         .n_kept = 1,
                         .kept_size = {p->groups},
                         .kept_step = {sliced->slices * p->width}};
  job j = *sliced;
  j.plan = &plan;
  j.dtype = j.acc_dtype;
  j.size = j.acc_size;
  j.in = j.join;
  j.x = sliced->acc;
  j.acc = acc;
  partition(&j, false);
  run_items(c, &j);
}

/* Into acc, [groups][width]. */
static td_status *fold_all(td_kernel_ctx *c, job *j, char *acc) {
  td_tensor slices;
  partition(j, true);
  if (j->slices == 1) {
    j->acc = acc;
    run_items(c, j);
    return NULL;
  }
  td_shape shape = {.dim = {j->plan->groups, j->slices, j->plan->width},
                    .rank = 3};
  TD_TRY(td_temp(c, j->acc_dtype, &shape, &slices));
  j->acc = slices.data;
  run_items(c, j);
  join_slices(c, j, acc);
  td_tensor_release(&slices);
  return NULL;
}

/* ---- the end of a sum ---------------------------------------------------- */

#define SCALE(kind, ...)                                                       \
  case TD_ELEMENT_##kind:                                                      \
    for (int64_t i = 0; i < n; i++)                                            \
      ((td_##kind *)acc)[i] /= (td_##kind)divisor;                             \
    break;

static void scale(td_dtype t, int64_t n, int64_t divisor, void *acc) {
  switch ((int)t) { EACH_FLOATS(SCALE) }
}

/* Sums in 64 bits to means, rounded toward 0; of nothing 0. */
#define MEAN(kind, sum_kind)                                                   \
  case TD_ELEMENT_##kind:                                                      \
    for (int64_t i = 0; i < n; i++)                                            \
      ((td_##kind *)y)[i] = (td_##kind)(                                       \
          divisor ? ((const td_##sum_kind *)acc)[i] / (td_##sum_kind)divisor   \
                  : 0);                                                        \
    break;

static void integer_means(td_dtype t, int64_t n, int64_t divisor,
                          const void *acc, void *y) {
  switch ((int)t) {
    EACH_LONG_SIGNED(MEAN, i64)
    EACH_SHORT_SIGNED(MEAN, i64)
    EACH_UNSIGNED(MEAN, u64)
  }
}

/* A sum of integers that wrapped below 0 has no root: 0. */
#define ROOT(kind, ...)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    for (int64_t i = 0; i < n; i++) {                                          \
      double v = (double)((td_##kind *)acc)[i];                                \
      ((td_##kind *)acc)[i] = (td_##kind)(v < 0 ? 0 : sqrt(v));                \
    }                                                                          \
    break;

static void roots(td_dtype t, int64_t n, void *acc) {
  switch ((int)t) { EACH_REALS(ROOT) }
}

/* Squares of real and imaginary parts, side by side. */
#define JOIN_PARTS(kind)                                                       \
  for (int64_t i = 0; i < n; i += 2) {                                         \
    ((td_##kind *)acc)[i] += ((td_##kind *)acc)[i + 1];                        \
    ((td_##kind *)acc)[i + 1] = 0;                                             \
  }

static void join_parts(td_dtype part, int64_t n, void *acc) {
  if (part == TD_FLOAT64)
    JOIN_PARTS(f64)
  else
    JOIN_PARTS(f32)
}

static void finish(const job *j, td_reduce_end end, int64_t n, char *acc,
                   td_dtype t, void *y) {
  if (j->loop == TD_REDUCE_TOTAL) {
    integer_means(t, n, j->lines, acc, y);
    return;
  }
  if (end == TD_REDUCE_MEAN) scale(j->acc_dtype, n, j->lines, acc);
  if (end == TD_REDUCE_HALVE) scale(j->acc_dtype, n, 2, acc);
  if (end == TD_REDUCE_ROOT) roots(j->acc_dtype, n, acc);
  if (td_is_half(t)) td_half_store(t, n, (const float *)acc, y);
}

/* ---- the way in ---------------------------------------------------------- */

/* A complex sum is two real ones side by side. */
static void split_complex(td_reduce_plan *p, td_dtype *t) {
  *t = *t == TD_COMPLEX64 ? TD_FLOAT32 : TD_FLOAT64;
  p->width *= 2;
  for (int i = 0; i < p->n_kept; i++) p->kept_step[i] *= 2;
  for (int i = 0; i < p->n_folded; i++) p->folded_step[i] *= 2;
}

static td_dtype accumulator(int loop, td_dtype t) {
  if (loop == TD_REDUCE_TOTAL) return TD_INT64;
  if (t == TD_BOOL) return TD_UINT8;
  return td_is_half(t) ? TD_FLOAT32 : t;
}

static void init(job *j, int loop, td_dtype t, const void *x,
                 const td_reduce_plan *plan) {
  td_isa isa = td_cpu_isa();
  *j = (job){.plan = plan, .loop = loop, .dtype = t, .x = x};
  j->acc_dtype = accumulator(loop, t);
  j->size = td_dtype_size(t);
  j->acc_size = td_dtype_size(j->acc_dtype);
  bool adds = loop == TD_REDUCE_SQUARES || loop == TD_REDUCE_TOTAL;
  bool direct = loop == TD_REDUCE_TOTAL;
  j->in = td_reduce_find(loop, direct ? t : j->acc_dtype, isa);
  j->join = td_reduce_find(adds ? TD_REDUCE_SUM : loop, j->acc_dtype, isa);
}

td_status *td_reduce_run(td_kernel_ctx *c, int loop, td_reduce_end end,
                         const td_tensor *x, const td_reduce_plan *plan,
                         td_tensor *y) {
  td_reduce_plan p = *plan;
  td_dtype t = x->dtype;
  td_tensor temp = {.dtype = TD_INVALID};
  job j;
  if (!p.groups || !p.width) return NULL;
  if (end == TD_REDUCE_MEAN && td_dtype_is_integer(t)) loop = TD_REDUCE_TOTAL;
  bool adds = loop == TD_REDUCE_SUM || loop == TD_REDUCE_SQUARES;
  if (td_dtype_is_complex(t) && adds) split_complex(&p, &t);
  init(&j, loop, t, x->data, &p);
  int64_t n = p.groups * p.width;
  bool convert = j.acc_size != j.size || loop == TD_REDUCE_TOTAL;
  td_shape shape = td_shape_vector(n);
  if (convert) TD_TRY(td_temp(c, j.acc_dtype, &shape, &temp));
  char *acc = convert ? temp.data : y->data;
  td_status *s = fold_all(c, &j, acc);
  if (td_ok(s) && td_dtype_is_complex(x->dtype) && loop == TD_REDUCE_SQUARES)
    join_parts(t, n, acc);
  if (td_ok(s)) finish(&j, end, n, acc, t, y->data);
  td_tensor_release(&temp);
  return s;
}
