/* image_patches.c - ExtractImagePatches: the places under a sliding window,
 * side by side along the channels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/row_plans.h"
#include "kernels/sliding_window.h"

typedef struct job {
  td_sliding_window y, x;
  int64_t channels;
  size_t pixel; /* bytes */
  const char *from;
  char *to;
} job;

/* ---- geometry ------------------------------------------------------------ */

static td_status *set_job(const td_shape *s, const td_attr *ksizes,
                          const td_attr *strides, const td_attr *rates,
                          const char *padding, job *j) {
  bool same = strcmp(padding, "SAME") == 0;
  if (!same && strcmp(padding, "VALID") != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "padding must be SAME or VALID, not \"%s\"", padding);
  TD_TRY(td_sliding_window_read(ksizes, "ksizes", &j->y.window, &j->x.window));
  TD_TRY(
      td_sliding_window_read(strides, "strides", &j->y.stride, &j->x.stride));
  TD_TRY(td_sliding_window_read(rates, "rates", &j->y.rate, &j->x.rate));
  j->y.in = s->dim[1], j->x.in = s->dim[2];
  j->channels = s->dim[3];
  TD_TRY(td_sliding_window_place(&j->y, same));
  return td_sliding_window_place(&j->x, same);
}

/* Channels of the result. */
static td_status *depth_of(const job *j, int64_t *depth) {
  *depth = -1;
  if (j->channels < 0) return NULL;
  if (!__builtin_mul_overflow(j->y.window * j->x.window, j->channels, depth))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT, "patches would have too many channels");
}

static td_status *infer(td_infer *c) {
  td_shape s;
  job j;
  int64_t depth;
  TD_TRY(td_infer_rank(c, 0, 4, "images", &s));
  TD_TRY(set_job(&s, td_infer_attr(c, "ksizes"), td_infer_attr(c, "strides"),
                 td_infer_attr(c, "rates"), td_infer_string(c, "padding"), &j));
  TD_TRY(depth_of(&j, &depth));
  td_infer_out(c, 0,
               td_shape_of(4, (int64_t[]){s.dim[0], j.y.out, j.x.out, depth}));
  return NULL;
}

/* ---- the kernel ---------------------------------------------------------- */

/* One row of a window; what lies outside is zero. */
static char *copy_row(const job *j, const char *row, int64_t x, char *to) {
  for (int64_t k = 0; k < j->x.window; k++, to += j->pixel) {
    int64_t at = x + k * j->x.rate;
    if (row && at >= 0 && at < j->x.in)
      memcpy(to, row + (size_t)at * j->pixel, j->pixel);
    else
      memset(to, 0, j->pixel);
  }
  return to;
}

static void copy_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  size_t line = (size_t)j->x.in * j->pixel;
  size_t patch = (size_t)(j->y.window * j->x.window) * j->pixel;
  for (int64_t i = begin; i < end; i++) {
    const char *picture = j->from + (size_t)(i / j->y.out * j->y.in) * line;
    int64_t y = i % j->y.out * j->y.stride - j->y.before;
    char *to = j->to + (size_t)(i * j->x.out) * patch;
    for (int64_t k = 0; k < j->x.out; k++)
      for (int64_t a = 0; a < j->y.window; a++) {
        int64_t at = y + a * j->y.rate;
        const char *row =
            at >= 0 && at < j->y.in ? picture + (size_t)at * line : NULL;
        to = copy_row(j, row, k * j->x.stride - j->x.before, to);
      }
  }
}

static td_status *read_job(td_kernel_ctx *c, job *j, td_shape *shape) {
  const td_node *n = td_ctx_node(c);
  const td_tensor *x = td_in(c, 0);
  td_shape_text text;
  int64_t depth;
  if (x->shape.rank != 4)
    return td_error(TD_INVALID_ARGUMENT,
                    "images must be {batch, height, width, channels}, not %s",
                    td_shape_str(&x->shape, &text));
  TD_TRY(set_job(&x->shape, td_node_attr(n, "ksizes"),
                 td_node_attr(n, "strides"), td_node_attr(n, "rates"),
                 td_node_string(n, "padding"), j));
  TD_TRY(depth_of(j, &depth));
  *shape =
      td_shape_of(4, (int64_t[]){x->shape.dim[0], j->y.out, j->x.out, depth});
  return td_array_count(shape, NULL);
}

td_status *td_patches_read(td_kernel_ctx *c, td_patches_plan *p) {
  job j = {0};
  TD_TRY(read_job(c, &j, &p->shape));
  const td_sliding_window *at[] = {&j.y, &j.x};
  for (int k = 0; k < 2; k++) {
    p->in[k] = at[k]->in;
    p->out[k] = at[k]->out;
    p->window[k] = at[k]->window;
    p->stride[k] = at[k]->stride;
    p->rate[k] = at[k]->rate;
    p->before[k] = at[k]->before;
  }
  p->channels = j.channels;
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  job j = {.from = x->data};
  td_shape shape;
  td_tensor *y;
  TD_TRY(read_job(c, &j, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  if (td_tensor_count(y) == 0) return NULL;
  j.to = y->data;
  j.pixel = (size_t)j.channels * td_dtype_size(x->dtype);
  td_for(c, x->shape.dim[0] * j.y.out, td_grain_of(j.x.out * shape.dim[3]),
         copy_rows, &j);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "ExtractImagePatches",
     .sig = "images: T -> patches: T; ksizes: list(int) >= 4; "
            "strides: list(int) >= 4; rates: list(int) >= 4; "
            "T: {bfloat16, half, float, double, int8, int16, int32, int64, "
            "uint8, uint16, uint32, uint64, complex64, complex128, bool}; "
            "padding: {\"SAME\", \"VALID\"}",
     .shape = infer,
     .cost = td_cost_move,
     .doc = "The places under a window that slides over pictures, as channels.",
     .example = "td.extract_image_patches({{{{1}, {2}, {3}}}}, {ksizes = {1, 1,"
                " 2, 1}, strides = {1, 1, 1, 1}, rates = {1, 1, 1, 1}, "
                "padding = \"VALID\"})  --> 1 2 2 3",
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ExtractImagePatches", .device = "CPU", .run = run},
    {0},
};

TD_MODULE(image_patches, ops, kernels)
