/* pooling_run.c - windows over whole tensors, in pieces.
 *
 * float16 and bfloat16 run as float copies of the whole operands: gradients of
 * overlapping windows are then summed in float and rounded once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/half_copy.h"
#include "kernels/cpu.h"
#include "kernels/pooling.h"
#include "kernels/strided_copy.h"

const td_pooling_loops *td_pooling_loops_of(td_dtype t, td_isa isa) {
  const td_pooling_loops *wide = isa == TD_AVX512 ? &td_pooling_avx512[t]
                                 : isa == TD_AVX2 ? &td_pooling_avx2[t]
                                                  : &td_pooling_scalar[t];
  return wide->max ? wide : &td_pooling_scalar[t];
}

double td_pooling_lowest(td_dtype t) {
  switch (t) {
  case TD_FLOAT16:
    return -65504;
  case TD_BFLOAT16:
    return -0x1.fep127;
  case TD_FLOAT32:
    return -FLT_MAX;
  case TD_FLOAT64:
    return -DBL_MAX;
  case TD_INT8:
    return INT8_MIN;
  case TD_INT16:
    return INT16_MIN;
  case TD_INT32:
    return INT32_MIN;
  case TD_INT64:
    return (double)INT64_MIN;
  default:
    return 0;
  }
}

/* ---- operands ------------------------------------------------------------ */

/* Copies images of rows * columns elements, transposed. */
static void transpose(const td_kernel_ctx *c, const td_pooling_job *j,
                      int64_t images, int64_t rows, int64_t columns,
                      const void *from, void *to) {
  td_strided_copy m = {0};
  td_strided_copy_loop(&m, images, rows * columns, rows * columns);
  td_strided_copy_loop(&m, columns, 1, rows);
  td_strided_copy_loop(&m, rows, columns, 1);
  td_strided_copy_run(c, &m, j->size, from, to);
}

/* Elements of a channel of an operand with so many. */
static int64_t cells_of(const td_pooling_job *j, int64_t count) {
  const td_pooling *p = &j->pool;
  return count / (p->outer * p->channels);
}

/* Puts the channels inside. */
static td_status *turn(td_kernel_ctx *c, td_pooling_job *j, int first, int n) {
  td_pooling *p = &j->pool;
  td_dtype dtype = j->result->dtype;
  td_dtype seen = td_is_half(dtype) ? TD_FLOAT32 : dtype;
  td_shape shape = j->result->shape;
  p->outer /= p->channels;
  p->inner = p->channels;
  j->turned = true;
  for (int i = 0; i < n; i++) {
    const td_tensor *t = td_in(c, first + i);
    TD_TRY(td_temp(c, seen, &t->shape, &j->turn[i]));
    transpose(c, j, p->outer, p->channels, cells_of(j, td_tensor_count(t)),
              j->in[i], j->turn[i].data);
    j->in[i] = j->turn[i].data;
  }
  TD_TRY(td_temp(c, seen, &shape, &j->turn[3]));
  j->out = j->turn[3].data;
  return NULL;
}

/* Rows of one channel are too short for the loops, and channels are not. */
static bool to_be_turned(const td_pooling_job *j, int64_t results) {
  enum { SHORT = 64, MANY = 8 };
  const td_pooling *p = &j->pool;
  return j->plain && p->inner == 1 && p->channels >= MANY && results > 0 &&
         p->axis[2].out < SHORT;
}

td_status *td_pooling_begin(td_kernel_ctx *c, td_pooling_job *j, int first,
                            int n, const td_shape *shape) {
  td_dtype dtype = td_kernel_type(c->kernel, 0);
  bool half = td_is_half(dtype);
  td_dtype seen = half ? TD_FLOAT32 : dtype;
  j->loops = td_pooling_loops_of(seen, td_cpu_isa());
  j->size = td_dtype_size(seen);
  for (int i = 0; i < n; i++) {
    const td_tensor *t = td_in(c, first + i);
    if (half) TD_TRY(td_half_copy_widen(c, t, &j->held[i]));
    j->in[i] = half ? j->held[i].data : t->data;
  }
  TD_TRY(td_out(c, 0, shape, &j->result));
  if (half) TD_TRY(td_temp(c, TD_FLOAT32, shape, &j->held[3]));
  j->out = half ? j->held[3].data : j->result->data;
  if (!to_be_turned(j, td_shape_count(shape))) return NULL;
  return turn(c, j, first, n);
}

td_status *td_pooling_end(td_kernel_ctx *c, td_pooling_job *j, td_status *s) {
  bool half = td_ok(s) && td_is_half(j->result->dtype);
  void *wide = half ? j->held[3].data : j->result ? j->result->data : NULL;
  if (td_ok(s) && j->turned)
    transpose(c, j, j->pool.outer, cells_of(j, td_tensor_count(j->result)),
              j->pool.channels, j->out, wide);
  if (half) td_half_copy_narrow(c, wide, j->result);
  for (size_t i = 0; i < TD_COUNT(j->held); i++) td_tensor_release(&j->held[i]);
  for (size_t i = 0; i < TD_COUNT(j->turn); i++) td_tensor_release(&j->turn[i]);
  return s;
}

/* ---- pieces -------------------------------------------------------------- */

typedef struct run {
  td_pooling_job *j;
  td_pooling_step step;
  int64_t whole;     /* the first window of a row that is not cut before it */
  int64_t whole_end; /* and the first after them that is cut behind it */
  int64_t rows;      /* of an image */
  int64_t block;     /* channels of a piece */
  int64_t blocks;    /* of an image */
} run;

static int64_t window_cells(const td_pooling *p) {
  int64_t cells = 1;
  for (int k = 0; k < TD_POOLING_AXES; k++) {
    const td_pooling_axis *a = &p->axis[k];
    cells *= a->window < a->in ? a->window : a->in;
  }
  return cells;
}

static void find_whole(run *r) {
  const td_pooling_axis *a = &r->j->pool.axis[2];
  int64_t last = (a->in - a->window + a->before) / a->stride;
  r->whole = (a->before + a->stride - 1) / a->stride;
  r->whole_end = a->window > a->in ? 0 : last < a->out ? last + 1 : a->out;
}

static int64_t at_most(int64_t n, int64_t most) {
  return n < most ? n : most;
}

/* One channel: the windows of a row, those that lie in it wholly as lanes. */
static void do_windows(const run *r, td_pooling_at *at) {
  const td_pooling *p = &r->j->pool;
  for (int64_t k = 0, n; k < p->axis[2].out; k += n) {
    bool whole = k >= r->whole && k < r->whole_end;
    n = whole ? at_most(r->whole_end - k, TD_POOLING_BLOCK) : 1;
    at->w.lane = whole ? p->axis[2].stride : 1;
    td_pooling_place(p, k, at);
    r->step(r->j, at, 0, n);
  }
}

static void do_row(const run *r, int64_t row, int64_t from, int64_t n) {
  const td_pooling *p = &r->j->pool;
  td_pooling_at at;
  td_pooling_row(p, row, &at);
  if (p->inner == 1) {
    do_windows(r, &at);
    return;
  }
  for (int64_t k = 0; k < p->axis[2].out; k++) {
    td_pooling_place(p, k, &at);
    for (int64_t i = 0; i < n; i += TD_POOLING_BLOCK)
      r->step(r->j, &at, from + i, at_most(n - i, TD_POOLING_BLOCK));
  }
}

static void do_rows(void *arg, int64_t begin, int64_t end) {
  const run *r = arg;
  for (int64_t i = begin; i < end; i++) do_row(r, i, 0, r->j->pool.inner);
}

void td_pooling_outputs(const td_kernel_ctx *c, td_pooling_job *j,
                        td_pooling_step step) {
  const td_pooling *p = &j->pool;
  run r = {.j = j, .step = step};
  int64_t rows = p->outer * p->axis[0].out * p->axis[1].out;
  double each = (double)(p->axis[2].out * p->inner) * (double)window_cells(p);
  if (td_shape_count(&p->out) == 0) return;
  find_whole(&r);
  td_for(c, rows, td_grain_of(each > TD_GRAIN ? TD_GRAIN : (int64_t)each),
         do_rows, &r);
}

static void clear(const run *r, int64_t image, int64_t from, int64_t n) {
  const td_pooling *p = &r->j->pool;
  int64_t cells = p->axis[0].in * p->axis[1].in * p->axis[2].in;
  size_t size = r->j->size;
  char *to = r->j->out + (size_t)(image * cells * p->inner + from) * size;
  if (n == p->inner) {
    memset(to, 0, (size_t)(cells * n) * size);
    return;
  }
  for (int64_t k = 0; k < cells; k++, to += (size_t)p->inner * size)
    memset(to, 0, (size_t)n * size);
}

static void do_blocks(void *arg, int64_t begin, int64_t end) {
  const run *r = arg;
  int64_t inner = r->j->pool.inner;
  for (int64_t i = begin; i < end; i++) {
    int64_t image = i / r->blocks, from = i % r->blocks * r->block;
    int64_t n = inner - from < r->block ? inner - from : r->block;
    clear(r, image, from, n);
    for (int64_t row = 0; row < r->rows; row++)
      do_row(r, image * r->rows + row, from, n);
  }
}

/* Few images are cut by channels, at cache lines, so that threads find work. */
void td_pooling_inputs(const td_kernel_ctx *c, td_pooling_job *j,
                       td_pooling_step step) {
  enum { IMAGES = 8, LEAST = 32 };
  const td_pooling *p = &j->pool;
  run r = {.j = j, .step = step, .rows = p->axis[0].out * p->axis[1].out};
  if (td_shape_count(&p->in) == 0) return;
  find_whole(&r);
  bool cut = p->outer < IMAGES && p->inner > LEAST;
  r.block = cut ? LEAST : p->inner;
  r.blocks = (p->inner + r.block - 1) / r.block;
  int64_t cells = p->axis[0].in * p->axis[1].in * p->axis[2].in;
  double each = (double)cells * (double)r.block * 2;
  td_for(c, p->outer * r.blocks,
         td_grain_of(each > TD_GRAIN ? TD_GRAIN : (int64_t)each), do_blocks,
         &r);
}
