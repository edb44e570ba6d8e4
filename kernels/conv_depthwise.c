/* conv_depthwise.c - convolutions of each channel with filters of its own.
 *
 * At each offset of a window as many elements are multiplied and added as the
 * result has channels, all of them neighbours: loops over offsets and channels,
 * nothing copied. A piece is some rows of what is computed; the gradient of the
 * filter is computed in parts, added in order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/conv.h"
#include "kernels/cpu.h"
#include "kernels/element.h"
#include "kernels/blas/gemm.h"

/* ---- one offset at one place --------------------------------------------- */

typedef void (*multiply_fn)(int64_t channels, int64_t times, void *x, void *w,
                            void *y);

#define LOOPS(kind)                                                            \
  static void forward_##kind(int64_t channels, int64_t times, void *x,         \
                             void *w, void *y) {                               \
    const td_##kind *a = x, *b = w;                                            \
    td_##kind *to = y;                                                         \
    if (times == 1) {                                                          \
      for (int64_t i = 0; i < channels; i++) to[i] += a[i] * b[i];             \
      return;                                                                  \
    }                                                                          \
    for (int64_t i = 0; i < channels; i++, b += times, to += times)            \
      for (int64_t k = 0; k < times; k++) to[k] += a[i] * b[k];                \
  }                                                                            \
  static void data_##kind(int64_t channels, int64_t times, void *x, void *w,   \
                          void *y) {                                           \
    const td_##kind *a = y, *b = w;                                            \
    td_##kind *to = x;                                                         \
    if (times == 1) {                                                          \
      for (int64_t i = 0; i < channels; i++) to[i] += a[i] * b[i];             \
      return;                                                                  \
    }                                                                          \
    for (int64_t i = 0; i < channels; i++, a += times, b += times)             \
      for (int64_t k = 0; k < times; k++) to[i] += a[k] * b[k];                \
  }                                                                            \
  static void weights_##kind(int64_t channels, int64_t times, void *x,         \
                             void *w, void *y) {                               \
    const td_##kind *a = x, *b = y;                                            \
    td_##kind *to = w;                                                         \
    if (times == 1) {                                                          \
      for (int64_t i = 0; i < channels; i++) to[i] += a[i] * b[i];             \
      return;                                                                  \
    }                                                                          \
    for (int64_t i = 0; i < channels; i++, b += times, to += times)            \
      for (int64_t k = 0; k < times; k++) to[k] += a[i] * b[k];                \
  }

LOOPS(f32)
LOOPS(f64)

static multiply_fn multiply_of(td_conv_pass pass, td_dtype t) {
  static const multiply_fn floats[] = {forward_f32, data_f32, weights_f32};
  static const multiply_fn doubles[] = {forward_f64, data_f64, weights_f64};
  return (t == TD_FLOAT32 ? floats : doubles)[pass];
}

/* ---- rows ---------------------------------------------------------------- */

typedef struct job {
  const td_conv *c;
  multiply_fn multiply;
  char *x, *w, *y;
  size_t size;   /* bytes of an element */
  int64_t times; /* channels of the result for each of the input */
  int64_t rows;  /* of the result, in a part of the filter's gradient */
} job;

/* A row of the input with a row of the result, and the line of the filter that
 * leads from one to the other; rows count through all images. */
static void run_line(const job *j, int64_t from, int64_t line, int64_t to,
                     char *filter) {
  const td_conv *c = j->c;
  size_t deep = (size_t)c->in_channels * j->size;
  size_t wide = (size_t)c->out_channels * j->size;
  char *x = j->x + (size_t)(from * c->in[2]) * deep;
  char *y = j->y + (size_t)(to * c->out[2]) * wide;
  char *w = filter + (size_t)(line * c->filter[2]) * wide;
  for (int64_t out = 0; out < c->out[2]; out++)
    for (int64_t t = 0; t < c->filter[2]; t++) {
      int64_t in = td_conv_input_at(c, 2, out, t);
      if (in >= 0)
        j->multiply(c->in_channels, j->times, x + (size_t)in * deep,
                    w + (size_t)t * wide, y + (size_t)out * wide);
    }
}

/* Everything that one row of the result, or (`back`) of the input, meets. */
static void run_row(const job *j, int64_t row, bool back, char *filter) {
  const td_conv *c = j->c;
  const int64_t *of = back ? c->in : c->out, *other = back ? c->out : c->in;
  int64_t h = row % of[1], d = row / of[1] % of[0];
  int64_t image = row / of[1] / of[0];
  for (int64_t line = 0; line < c->filter[0] * c->filter[1]; line++) {
    int64_t kd = line / c->filter[1], kh = line % c->filter[1];
    int64_t od =
        back ? td_conv_output_at(c, 0, d, kd) : td_conv_input_at(c, 0, d, kd);
    int64_t oh =
        back ? td_conv_output_at(c, 1, h, kh) : td_conv_input_at(c, 1, h, kh);
    if (od < 0 || oh < 0) continue;
    int64_t met = (image * other[0] + od) * other[1] + oh;
    run_line(j, back ? row : met, line, back ? met : row, filter);
  }
}

static void forward_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  size_t row = (size_t)(j->c->out[2] * j->c->out_channels) * j->size;
  memset(j->y + (size_t)begin * row, 0, (size_t)(end - begin) * row);
  for (int64_t i = begin; i < end; i++) run_row(j, i, false, j->w);
}

static void data_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  size_t row = (size_t)(j->c->in[2] * j->c->in_channels) * j->size;
  memset(j->x + (size_t)begin * row, 0, (size_t)(end - begin) * row);
  for (int64_t i = begin; i < end; i++) run_row(j, i, true, j->w);
}

static int64_t rows_of(const td_conv *c, const int64_t *axes) {
  return c->batch * axes[0] * axes[1];
}

static size_t filter_bytes(const job *j) {
  return (size_t)(td_conv_window(j->c) * j->c->out_channels) * j->size;
}

static void weights_parts(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  int64_t all = rows_of(j->c, j->c->out);
  for (int64_t part = begin; part < end; part++) {
    char *filter = j->w + (size_t)part * filter_bytes(j);
    int64_t last = (part + 1) * j->rows < all ? (part + 1) * j->rows : all;
    memset(filter, 0, filter_bytes(j));
    for (int64_t i = part * j->rows; i < last; i++)
      run_row(j, i, false, filter);
  }
}

/* ---- passes -------------------------------------------------------------- */

bool td_conv_is_depthwise(const td_conv *c, td_dtype t) {
  return c->groups == c->in_channels && c->groups > 1 &&
         (t == TD_FLOAT32 || t == TD_FLOAT64);
}

/* Parts are few, so that adding them does not matter. */
static td_status *run_weights(td_kernel_ctx *ctx, job *j, td_dtype dtype) {
  enum { PARTS = 8, ROWS_LEAST = 16 };
  int64_t all = rows_of(j->c, j->c->out), filter = td_conv_window(j->c);
  j->rows = all / PARTS + (all % PARTS != 0);
  if (j->rows < ROWS_LEAST) j->rows = ROWS_LEAST;
  int64_t parts = all / j->rows + (all % j->rows != 0);
  td_shape shape =
      td_shape_of(3, (int64_t[]){parts, filter, j->c->out_channels});
  td_tensor t;
  TD_TRY(td_temp(ctx, dtype, &shape, &t));
  void *result = j->w;
  j->w = t.data;
  td_for(ctx, parts, 1, weights_parts, j);
  td_gemm_sum(ctx, dtype, t.data, filter * j->c->out_channels, parts, result);
  td_tensor_release(&t);
  return NULL;
}

td_status *td_conv_depthwise(td_kernel_ctx *ctx, const td_conv *c,
                             td_conv_pass pass, const td_conv_data *d) {
  job j = {.c = c,
           .multiply = multiply_of(pass, d->dtype),
           .x = d->x,
           .w = d->filter,
           .y = d->y,
           .size = td_dtype_size(d->dtype),
           .times = c->out_channels / c->in_channels};
  if (pass == TD_CONV_WEIGHTS) return run_weights(ctx, &j, d->dtype);
  bool back = pass == TD_CONV_DATA;
  int64_t each = c->out[2] * c->out_channels * td_conv_window(c);
  td_for(ctx, rows_of(c, back ? c->in : c->out), td_grain_of(each),
         back ? data_rows : forward_rows, &j);
  return NULL;
}
