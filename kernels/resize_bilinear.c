/* resize_bilinear.c - ResizeBilinear: each pixel from the four around it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/resize.h"

typedef struct job {
  td_resize r;
  td_resize_span *rows, *columns;
  const float *from;
  float *to;    /* forward */
  void *dx;     /* backward, of `dtype` */
  double *sums; /* backward: a picture of each piece's own */
  td_dtype dtype;
} job;

/* One allocation for both; rows first. */
static td_status *make_spans(td_kernel_ctx *c, job *j, td_tensor *mem) {
  const td_resize *r = &j->r;
  int64_t bytes = (r->out_h + r->out_w) * (int64_t)sizeof(td_resize_span);
  td_shape shape = td_shape_vector(bytes);
  TD_TRY(td_temp(c, TD_UINT8, &shape, mem));
  j->rows = mem->data;
  j->columns = j->rows + r->out_h;
  td_resize_spans(r, r->scale_h, r->in_h, r->out_h, j->rows);
  td_resize_spans(r, r->scale_w, r->in_w, r->out_w, j->columns);
  return NULL;
}

/* ---- forward ------------------------------------------------------------- */

/* Rows [begin, end) of the results of all pictures. */
static void resize_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const td_resize *r = &j->r;
  int64_t n = r->channels, line = r->in_w * n;
  for (int64_t i = begin; i < end; i++) {
    td_resize_span y = j->rows[i % r->out_h];
    const float *picture = j->from + i / r->out_h * r->in_h * line;
    const float *top = picture + y.low * line, *low = picture + y.high * line;
    float *to = j->to + i * r->out_w * n;
    for (int64_t k = 0; k < r->out_w; k++) {
      td_resize_span x = j->columns[k];
      int64_t a = x.low * n, b = x.high * n;
      for (int64_t ch = 0; ch < n; ch++) {
        float above = top[a + ch] + (top[b + ch] - top[a + ch]) * x.share;
        float below = low[a + ch] + (low[b + ch] - low[a + ch]) * x.share;
        *to++ = above + (below - above) * y.share;
      }
    }
  }
}

static td_status *run(td_kernel_ctx *c) {
  job j = {0};
  td_shape shape;
  td_tensor *y, in = {0}, mem = {0};
  TD_TRY(td_resize_read(c, &j.r, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  if (j.r.batch == 0) return NULL; /* sizes may be vast */
  td_status *s = td_resize_floats(c, td_in(c, 0), &in);
  if (td_ok(s)) s = make_spans(c, &j, &mem);
  if (td_ok(s)) {
    j.from = in.data, j.to = y->data;
    td_for(c, j.r.batch * j.r.out_h, td_grain_of(4 * j.r.out_w * j.r.channels),
           resize_rows, &j);
  }
  td_tensor_release(&mem);
  td_tensor_release(&in);
  return s;
}

/* ---- backward ------------------------------------------------------------ */

/* Adds what one pixel of the result says of the four around it. */
static void spread(const float *g, int64_t n, float y, float x,
                   double *const at[4]) {
  for (int64_t ch = 0; ch < n; ch++) {
    float above = g[ch] * (1 - y), below = g[ch] * y;
    at[0][ch] += (double)(above * (1 - x));
    at[1][ch] += (double)(above * x);
    at[2][ch] += (double)(below * (1 - x));
    at[3][ch] += (double)(below * x);
  }
}

static void spread_picture(const job *j, const float *g, double *dx) {
  const td_resize *r = &j->r;
  int64_t n = r->channels, line = r->in_w * n;
  memset(dx, 0, (size_t)(r->in_h * line) * sizeof *dx);
  for (int64_t i = 0; i < r->out_h; i++) {
    td_resize_span y = j->rows[i];
    double *top = dx + y.low * line, *low = dx + y.high * line;
    for (int64_t k = 0; k < r->out_w; k++, g += n) {
      td_resize_span x = j->columns[k];
      double *const at[4] = {top + x.low * n, top + x.high * n, low + x.low * n,
                             low + x.high * n};
      spread(g, n, y.share, x.share, at);
    }
  }
}

static void store(const job *j, int64_t n, const double *from, int64_t first) {
  for (int64_t i = 0; i < n; i++) {
    float f = (float)from[i];
    if (j->dtype == TD_FLOAT64)
      ((double *)j->dx)[first + i] = from[i];
    else
      td_resize_store(j->dtype, 1, &f,
                      (char *)j->dx +
                          (size_t)(first + i) * td_dtype_size(j->dtype));
  }
}

/* A picture is one piece: its pixels are added in order. */
static void spread_pictures(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  const td_resize *r = &j->r;
  int64_t in = r->in_h * r->in_w * r->channels;
  int64_t out = r->out_h * r->out_w * r->channels;
  for (int64_t b = begin; b < end; b++) {
    spread_picture(j, j->from + b * out, j->sums + b * in);
    store(j, in, j->sums + b * in, b * in);
  }
}

static td_status *run_grad(td_kernel_ctx *c) {
  job j = {.from = td_in(c, 0)->data, .dtype = td_in(c, 1)->dtype};
  td_tensor *dx, mem = {0}, sums = {0};
  td_shape shape;
  TD_TRY(td_resize_read_grad(c, &td_in(c, 0)->shape, &td_in(c, 1)->shape, &j.r,
                             &shape));
  TD_TRY(td_out(c, 0, &shape, &dx));
  if (td_tensor_count(dx) == 0) return NULL;
  td_status *s = make_spans(c, &j, &mem);
  if (td_ok(s)) s = td_temp(c, TD_FLOAT64, &dx->shape, &sums);
  if (td_ok(s)) {
    j.dx = dx->data, j.sums = sums.data;
    td_for(c, j.r.batch, 1, spread_pictures, &j);
  }
  td_tensor_release(&sums);
  td_tensor_release(&mem);
  return s;
}

/* ---- cost -----------------------------------------------------------------
 */

/* Four corners, weighted. */
TD_COST_OUTPUT(resize_cost, 8, 0)
TD_COST_INPUT(resize_grad_cost, 8, 0)

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "ResizeBilinear",
     .sig = "images: T, size: int32 -> resized_images: float; "
            "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, "
            "float, double, bfloat16}; align_corners: bool = false; "
            "half_pixel_centers: bool = false",
     .shape = td_resize_infer,
     .cost = resize_cost,
     .doc = "Pictures in another size, each pixel from the four around it.",
     .example = "td.resize_bilinear({{{{0.0}, {1.0}}}}, {1, 4})"
                "  --> 0 0.5 1 1",
     .host = "size",
     .section = "Image"},
    {.type = "ResizeBilinearGrad",
     .sig = "grads: float, original_image: T -> output: T; "
            "T: {float, bfloat16, half, double}; align_corners: bool = false; "
            "half_pixel_centers: bool = false",
     .shape = td_resize_infer_grad,
     .cost = resize_grad_cost,
     .doc = "The gradient of ResizeBilinear.",
     .lua = "",
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ResizeBilinear", .device = "CPU", .run = run},
    {.op = "ResizeBilinearGrad", .device = "CPU", .run = run_grad},
    {0},
};

TD_MODULE(resize_bilinear, ops, kernels)
