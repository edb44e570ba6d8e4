/* resize_nearest.c - ResizeNearestNeighbor: each pixel is the nearest one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/cpu.h"
#include "kernels/resize.h"

typedef struct job {
  td_resize r;
  const char *from;
  char *to;
  size_t pixel; /* bytes */
  td_dtype dtype;
} job;

static int64_t nearest(const td_resize *r, float scale, int64_t in, int64_t i) {
  float at = r->half ? ((float)i + 0.5f) * scale : (float)i * scale;
  int64_t k = (int64_t)(r->align ? roundf(at) : floorf(at));
  return k < 0 ? 0 : k > in - 1 ? in - 1 : k;
}

/* ---- forward ------------------------------------------------------------- */

static void resize_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const td_resize *r = &j->r;
  size_t line = (size_t)r->in_w * j->pixel;
  for (int64_t i = begin; i < end; i++) {
    int64_t y = nearest(r, r->scale_h, r->in_h, i % r->out_h);
    const char *row = j->from + (size_t)(i / r->out_h * r->in_h + y) * line;
    char *to = j->to + (size_t)(i * r->out_w) * j->pixel;
    for (int64_t k = 0; k < r->out_w; k++, to += j->pixel)
      memcpy(to, row + (size_t)nearest(r, r->scale_w, r->in_w, k) * j->pixel,
             j->pixel);
  }
}

static td_status *run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  job j = {.from = x->data};
  td_shape shape;
  td_tensor *y;
  TD_TRY(td_resize_read(c, &j.r, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  j.to = y->data;
  j.pixel = (size_t)j.r.channels * td_dtype_size(x->dtype);
  td_for(c, j.r.batch * j.r.out_h, td_grain_of(j.r.out_w * j.r.channels),
         resize_rows, &j);
  return NULL;
}

/* ---- backward ------------------------------------------------------------ */

/* Sums of what came from each pixel. Halves are added as doubles, too. */
static void spread_picture(const job *j, int64_t b, double *sums) {
  const td_resize *r = &j->r;
  int64_t n = r->channels;
  td_tensor g = {.dtype = j->dtype, .data = (void *)j->from};
  int64_t at = b * r->out_h * r->out_w * n;
  memset(sums, 0, (size_t)(r->in_h * r->in_w * n) * sizeof *sums);
  for (int64_t i = 0; i < r->out_h; i++) {
    int64_t y = nearest(r, r->scale_h, r->in_h, i);
    for (int64_t k = 0; k < r->out_w; k++) {
      int64_t x = nearest(r, r->scale_w, r->in_w, k);
      double *to = sums + (y * r->in_w + x) * n;
      for (int64_t ch = 0; ch < n; ch++) to[ch] += td_tensor_get_f(&g, at++);
    }
  }
}

typedef struct grad_job {
  job j;
  double *sums;
} grad_job;

static void spread_pictures(void *arg, int64_t begin, int64_t end) {
  const grad_job *q = arg;
  const td_resize *r = &q->j.r;
  int64_t in = r->in_h * r->in_w * r->channels;
  td_tensor dx = {.dtype = q->j.dtype, .data = q->j.to};
  for (int64_t b = begin; b < end; b++) {
    double *sums = q->sums + b * in;
    spread_picture(&q->j, b, sums);
    for (int64_t i = 0; i < in; i++)
      if (td_dtype_is_integer(dx.dtype))
        td_tensor_set_i(&dx, b * in + i, (int64_t)sums[i]);
      else
        td_tensor_set_f(&dx, b * in + i, sums[i]);
  }
}

static td_status *grad_infer(td_infer *c) {
  td_shape s;
  td_small size;
  bool known;
  TD_TRY(td_infer_rank(c, 0, 4, "grads", &s));
  TD_TRY(td_infer_rank(c, 1, 1, "size", NULL));
  TD_TRY(td_operand_infer_ints(c, 1, "size", &size, &known));
  for (int i = 0; i < 2; i++)
    s.dim[i + 1] = known && size.count == 2 && size.known[i] && size.at[i] >= 0
                       ? size.at[i]
                       : -1;
  td_infer_out(c, 0, s);
  return NULL;
}

static td_status *check_size(const td_shape *shape) {
  if (shape->dim[1] < 1 || shape->dim[2] < 1)
    return td_error(TD_INVALID_ARGUMENT, "size must be of 1 pixel or more");
  return td_array_count(shape, NULL);
}

td_status *td_resize_read_nearest_grad(const td_kernel_ctx *c, td_resize *r,
                                       td_shape *shape, bool *none) {
  const td_tensor *g = td_in(c, 0);
  td_small size;
  *shape = g->shape;
  TD_TRY(td_operand_ints(td_in(c, 1), "size", &size));
  if (size.rank != 1 || size.count != 2)
    return td_error(TD_INVALID_ARGUMENT, "size must be {height, width}");
  if (shape->rank == 4) shape->dim[1] = size.at[0], shape->dim[2] = size.at[1];
  *none = shape->rank == 4 && td_tensor_count(g) == 0;
  if (*none) return check_size(shape);
  return td_resize_read_grad(c, &g->shape, shape, r, shape);
}

static td_status *run_grad(td_kernel_ctx *c) {
  const td_tensor *g = td_in(c, 0);
  grad_job q = {.j = {.from = g->data, .dtype = g->dtype}};
  td_shape shape;
  td_tensor *dx, sums = {0};
  bool none = false;
  TD_TRY(td_resize_read_nearest_grad(c, &q.j.r, &shape, &none));
  TD_TRY(td_out(c, 0, &shape, &dx));
  if (none) {
    memset(dx->data, 0, td_tensor_bytes(dx));
    return NULL;
  }
  TD_TRY(td_temp(c, TD_FLOAT64, &shape, &sums));
  q.j.to = dx->data, q.sums = sums.data;
  td_for(c, q.j.r.batch, 1, spread_pictures, &q);
  td_tensor_release(&sums);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "ResizeNearestNeighbor",
     .sig = "images: T, size: int32 -> resized_images: T; "
            "T: {int8, uint8, int16, uint16, int32, int64, half, float, "
            "double, bfloat16}; align_corners: bool = false; "
            "half_pixel_centers: bool = false",
     .shape = td_resize_infer,
     .cost = td_cost_move,
     .doc = "Pictures in another size, each pixel the nearest one.",
     .example = "td.resize_nearest_neighbor({{{{1}, {2}}}}, {1, 4})"
                "  --> 1 1 2 2",
     .host = "size",
     .section = "Image"},
    {.type = "ResizeNearestNeighborGrad",
     .sig = "grads: T, size: int32 -> output: T; "
            "T: {uint8, int8, int32, half, float, double, bfloat16}; "
            "align_corners: bool = false; half_pixel_centers: bool = false",
     .shape = grad_infer,
     .cost = td_cost_reduce,
     .doc = "The gradient of ResizeNearestNeighbor.",
     .flags = TD_NO_GRADIENT,
     .lua = "",
     .host = "size",
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ResizeNearestNeighbor", .device = "CPU", .run = run},
    {.op = "ResizeNearestNeighborGrad", .device = "CPU", .run = run_grad},
    {0},
};

TD_MODULE(resize_nearest, ops, kernels)
