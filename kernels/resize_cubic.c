/* resize_cubic.c - ResizeBicubic, ResizeArea: smooth, and true to areas.
 *
 * Cubic weights come from a table of 1024 places between two pixels, as in
 * TensorFlow. Source: Keys, "Cubic convolution interpolation for digital image
 * processing", 1981; his constant is -0.75, with half_pixel_centers -0.5, and
 * weights beyond the edge then count for nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/cpu.h"
#include "kernels/resize.h"

enum { TABLE = 1024, WEIGHTS = 4 };

/* The pixels that a pixel of the result is made from along an axis. */
typedef struct weights {
  int64_t at[WEIGHTS];
  float weight[WEIGHTS];
} weights;

typedef struct job {
  td_resize r;
  weights *rows, *columns;
  const float *from;
  float *to;
  double *sums;
  td_tensor dx;
} job;

/* ---- cubic weights ------------------------------------------------------- */

static float near_weight(double a, double x) {
  return (float)(((a + 2) * x - (a + 3)) * x * x + 1);
}

static float far_weight(double a, double x) {
  x += 1;
  return (float)(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
}

static int64_t bound(int64_t i, int64_t n) {
  return i < 0 ? 0 : i > n - 1 ? n - 1 : i;
}

static void drop_outside(weights *t, int64_t first) {
  float sum = 0;
  for (int k = 0; k < WEIGHTS; k++) {
    if (t->at[k] != first + k) t->weight[k] = 0;
    sum += t->weight[k];
  }
  if (fabsf(sum) < 1000 * FLT_MIN) return;
  float one = 1 / sum;
  for (int k = 0; k < WEIGHTS; k++) t->weight[k] *= one;
}

static weights weights_of(const td_resize *r, float scale, int64_t n,
                          int64_t i) {
  float at = td_resize_at(r, scale, i);
  double a = r->half ? -0.5 : -0.75;
  int64_t base = (int64_t)floorf(at);
  int64_t offset = lrintf((at - (float)base) * TABLE);
  double x = (double)offset / TABLE, rest = (double)(TABLE - offset) / TABLE;
  weights t = {.weight = {far_weight(a, x), near_weight(a, x),
                          near_weight(a, rest), far_weight(a, rest)}};
  for (int k = 0; k < WEIGHTS; k++) t.at[k] = bound(base - 1 + k, n);
  if (r->half) drop_outside(&t, base - 1);
  return t;
}

static td_status *make_weights(td_kernel_ctx *c, job *j, td_tensor *mem) {
  const td_resize *r = &j->r;
  td_shape shape =
      td_shape_vector((r->out_h + r->out_w) * (int64_t)sizeof(weights));
  TD_TRY(td_temp(c, TD_UINT8, &shape, mem));
  j->rows = mem->data;
  j->columns = j->rows + r->out_h;
  for (int64_t i = 0; i < r->out_h; i++)
    j->rows[i] = weights_of(r, r->scale_h, r->in_h, i);
  for (int64_t i = 0; i < r->out_w; i++)
    j->columns[i] = weights_of(r, r->scale_w, r->in_w, i);
  return NULL;
}

/* ---- forward ------------------------------------------------------------- */

static float down(const float *const row[WEIGHTS], int64_t at,
                  const weights *y) {
  return row[0][at] * y->weight[0] + row[1][at] * y->weight[1] +
         row[2][at] * y->weight[2] + row[3][at] * y->weight[3];
}

static void cubic_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const td_resize *r = &j->r;
  int64_t n = r->channels, line = r->in_w * n;
  for (int64_t i = begin; i < end; i++) {
    const weights *y = &j->rows[i % r->out_h];
    const float *row[WEIGHTS];
    for (int k = 0; k < WEIGHTS; k++)
      row[k] = j->from + (i / r->out_h * r->in_h + y->at[k]) * line;
    float *to = j->to + i * r->out_w * n;
    for (int64_t k = 0; k < r->out_w; k++) {
      const weights *x = &j->columns[k];
      for (int64_t ch = 0; ch < n; ch++)
        *to++ = down(row, x->at[0] * n + ch, y) * x->weight[0] +
                down(row, x->at[1] * n + ch, y) * x->weight[1] +
                down(row, x->at[2] * n + ch, y) * x->weight[2] +
                down(row, x->at[3] * n + ch, y) * x->weight[3];
    }
  }
}

static td_status *run(td_kernel_ctx *c, int64_t cost,
                      td_status *(*prepare)(td_kernel_ctx *, job *,
                                            td_tensor *),
                      void (*rows)(void *, int64_t, int64_t)) {
  job j = {0};
  td_shape shape;
  td_tensor *y, in = {0}, mem = {0};
  TD_TRY(td_resize_read(c, &j.r, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  if (j.r.batch == 0) return NULL; /* sizes may be vast */
  td_status *s = td_resize_floats(c, td_in(c, 0), &in);
  if (td_ok(s)) s = prepare(c, &j, &mem);
  if (td_ok(s)) {
    j.from = in.data, j.to = y->data;
    td_for(c, j.r.batch * j.r.out_h,
           td_grain_of(cost * j.r.out_w * j.r.channels), rows, &j);
  }
  td_tensor_release(&mem);
  td_tensor_release(&in);
  return s;
}

static td_status *cubic_run(td_kernel_ctx *c) {
  return run(c, WEIGHTS * WEIGHTS, make_weights, cubic_rows);
}

/* ---- backward ------------------------------------------------------------ */

static void spread_picture(const job *j, const float *g, double *dx) {
  const td_resize *r = &j->r;
  int64_t n = r->channels, line = r->in_w * n;
  memset(dx, 0, (size_t)(r->in_h * line) * sizeof *dx);
  for (int64_t i = 0; i < r->out_h; i++)
    for (int64_t k = 0; k < r->out_w; k++, g += n)
      for (int a = 0; a < WEIGHTS; a++)
        for (int b = 0; b < WEIGHTS; b++) {
          const weights *y = &j->rows[i], *x = &j->columns[k];
          double *to = dx + y->at[a] * line + x->at[b] * n;
          for (int64_t ch = 0; ch < n; ch++)
            to[ch] +=
                (double)g[ch] * (double)y->weight[a] * (double)x->weight[b];
        }
}

static void spread_pictures(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const td_resize *r = &j->r;
  int64_t in = r->in_h * r->in_w * r->channels;
  int64_t out = r->out_h * r->out_w * r->channels;
  td_tensor dx = j->dx;
  for (int64_t b = begin; b < end; b++) {
    double *sums = j->sums + b * in;
    spread_picture(j, j->from + b * out, sums);
    for (int64_t i = 0; i < in; i++) td_tensor_set_f(&dx, b * in + i, sums[i]);
  }
}

static td_status *cubic_grad(td_kernel_ctx *c) {
  job j = {.from = td_in(c, 0)->data};
  td_tensor *dx, mem = {0}, sums = {0};
  td_shape shape;
  TD_TRY(td_resize_read_grad(c, &td_in(c, 0)->shape, &td_in(c, 1)->shape, &j.r,
                             &shape));
  TD_TRY(td_out(c, 0, &shape, &dx));
  if (td_tensor_count(dx) == 0) return NULL;
  td_status *s = make_weights(c, &j, &mem);
  if (td_ok(s)) s = td_temp(c, TD_FLOAT64, &dx->shape, &sums);
  if (td_ok(s)) {
    j.dx = *dx, j.sums = sums.data;
    td_for(c, j.r.batch, 1, spread_pictures, &j);
  }
  td_tensor_release(&sums);
  td_tensor_release(&mem);
  return s;
}

/* ---- area ---------------------------------------------------------------- */

/* How much of pixel k lies between two places. */
static float covered(int64_t k, float from, float to) {
  float low = (float)k < from ? from : (float)k;
  float high = (float)(k + 1) > to ? to : (float)(k + 1);
  return high - low;
}

static td_status *no_weights(td_kernel_ctx *c, job *j, td_tensor *mem) {
  (void)c, (void)j, (void)mem;
  return NULL;
}

/* An axis of 1 that grows has a scale of 0 under align_corners: every pixel of
 * the result covers the one there is. */
static float area_scale(float scale, int64_t out) {
  return scale > 0 ? scale : 1 / (float)out;
}

/* The mean over the part of the picture that a pixel of the result covers. */
static void area_pixel(const td_resize *r, const float *picture, int64_t i,
                       int64_t k, int64_t ch, float *to) {
  float y0 = (float)i * r->scale_h, y1 = (float)(i + 1) * r->scale_h;
  float x0 = (float)k * r->scale_w, x1 = (float)(k + 1) * r->scale_w;
  float sum = 0;
  for (int64_t y = (int64_t)floorf(y0); y < (int64_t)ceilf(y1); y++) {
    const float *row = picture + bound(y, r->in_h) * r->in_w * r->channels + ch;
    float line = 0;
    for (int64_t x = (int64_t)floorf(x0); x < (int64_t)ceilf(x1); x++)
      line += row[bound(x, r->in_w) * r->channels] * covered(x, x0, x1);
    sum += line * covered(y, y0, y1);
  }
  *to = sum * (1 / (r->scale_h * r->scale_w));
}

static void area_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  td_resize of = j->r, *r = &of;
  of.scale_h = area_scale(of.scale_h, of.out_h);
  of.scale_w = area_scale(of.scale_w, of.out_w);
  for (int64_t i = begin; i < end; i++) {
    const float *picture =
        j->from + i / r->out_h * r->in_h * r->in_w * r->channels;
    float *to = j->to + i * r->out_w * r->channels;
    for (int64_t k = 0; k < r->out_w; k++)
      for (int64_t ch = 0; ch < r->channels; ch++)
        area_pixel(r, picture, i % r->out_h, k, ch, to++);
  }
}

static td_status *area_run(td_kernel_ctx *c) {
  const td_shape *from = &td_in(c, 0)->shape;
  td_small size = {0};
  int64_t cost = 1;
  TD_TRY(td_operand_ints(td_in(c, 1), "size", &size));
  if (from->rank == 4 && size.count == 2 && size.at[0] > 0 && size.at[1] > 0)
    cost = (from->dim[1] / size.at[0] + 2) * (from->dim[2] / size.at[1] + 2);
  return run(c, cost, no_weights, area_rows);
}

/* ---- cost -----------------------------------------------------------------
 */

/* Sixteen pixels, weighted; or those that a place covers. */
TD_COST_OUTPUT(cubic_cost, 32, 0)
TD_COST_INPUT(cubic_grad_cost, 32, 0)
TD_COST_INPUT(area_cost, 2, 0)

/* ---- tables -------------------------------------------------------------- */

#define PICTURES                                                               \
  "images: T, size: int32 -> resized_images: float; "                          \
  "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, "        \
  "bfloat16}; align_corners: bool = false"

static const td_op_def ops[] = {
    {.type = "ResizeBicubic",
     .sig = PICTURES "; half_pixel_centers: bool = false",
     .shape = td_resize_infer,
     .cost = cubic_cost,
     .doc = "Pictures in another size, by cubic interpolation.",
     .example = "td.resize_bicubic({{{{0.0}, {1.0}}}}, {1, 2})  --> 0 1",
     .host = "size",
     .section = "Image"},
    {.type = "ResizeBicubicGrad",
     .sig = "grads: float, original_image: T -> output: T; "
            "T: {float, double}; align_corners: bool = false; "
            "half_pixel_centers: bool = false",
     .shape = td_resize_infer_grad,
     .cost = cubic_grad_cost,
     .doc = "The gradient of ResizeBicubic.",
     .flags = TD_NO_GRADIENT,
     .lua = "",
     .section = "Image"},
    {.type = "ResizeArea",
     .sig = PICTURES,
     .shape = td_resize_infer,
     .cost = area_cost,
     .doc = "Pictures in another size, each pixel the mean of what it covers.",
     .example = "td.resize_area({{{{1}, {2}, {5}, {6}}}}, {1, 2})"
                "  --> 1.5 5.5",
     .host = "size",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ResizeBicubic", .device = "CPU", .run = cubic_run},
    {.op = "ResizeBicubicGrad", .device = "CPU", .run = cubic_grad},
    {.op = "ResizeArea", .device = "CPU", .run = area_run},
    {0},
};

TD_MODULE(resize_cubic, ops, kernels)
