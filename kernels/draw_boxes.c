/* draw_boxes.c - DrawBoundingBoxes: boxes {y1, x1, y2, x2} drawn into pictures.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/cost.h"
#include "kernels/cpu.h"

/* The colours that boxes take in turn. */
static const float palette[][4] = {
    {1, 1, 0, 1},       {0, 0, 1, 1},       {1, 0, 0, 1},    {0, 1, 0, 1},
    {0.5f, 0, 0.5f, 1}, {0.5f, 0.5f, 0, 1}, {0.5f, 0, 0, 1}, {0, 0, 0.5f, 1},
    {0, 1, 1, 1},       {1, 0, 1, 1},
};

typedef struct canvas {
  td_tensor to;
  int64_t height, width, channels;
  int64_t base; /* first element of the picture */
  const float *color;
} canvas;

static void dot(canvas *v, int64_t y, int64_t x) {
  if (y < 0 || x < 0 || y >= v->height || x >= v->width) return;
  int64_t at = v->base + (y * v->width + x) * v->channels;
  for (int64_t k = 0; k < v->channels; k++)
    td_tensor_set_f(&v->to, at + k, v->channels == 1 ? 1 : (double)v->color[k]);
}

/* Between low and high as far as they are on a side of n pixels. */
static void clamp(int64_t *low, int64_t *high, int64_t n) {
  if (*low < 0) *low = 0;
  if (*high > n - 1) *high = n - 1;
}

static bool edge(float share, int64_t n, int64_t *at) {
  float x = share * (float)(n - 1);
  if (!(x > -1e9f && x < 1e9f)) return false; /* NaN too */
  *at = (int64_t)x;
  return true;
}

static void draw(canvas *v, const float *box) {
  int64_t y0, x0, y1, x1;
  if (!edge(box[0], v->height, &y0) || !edge(box[1], v->width, &x0) ||
      !edge(box[2], v->height, &y1) || !edge(box[3], v->width, &x1))
    return;
  if (y0 > y1 || x0 > x1 || y0 >= v->height || y1 < 0 || x0 >= v->width ||
      x1 < 0)
    return;
  int64_t top = y0, low = y1, left = x0, right = x1;
  clamp(&top, &low, v->height);
  clamp(&left, &right, v->width);
  for (int64_t x = left; x <= right; x++) dot(v, y0, x), dot(v, y1, x);
  for (int64_t y = top; y <= low; y++) dot(v, y, x0), dot(v, y, x1);
}

static td_status *draw_run(td_kernel_ctx *c) {
  const td_shape *s = &td_in(c, 0)->shape, *b = &td_in(c, 1)->shape;
  td_shape_text text;
  td_tensor *y;
  if (s->rank != 4 || s->dim[3] == 2 || s->dim[3] < 1 || s->dim[3] > 4)
    return td_error(TD_INVALID_ARGUMENT,
                    "images must be {batch, height, width, 1, 3 or 4 "
                    "channels}, not %s",
                    td_shape_str(s, &text));
  if (b->rank != 3 || b->dim[0] != s->dim[0] || b->dim[2] != 4)
    return td_error(TD_INVALID_ARGUMENT, "boxes must be {%lld, n, 4}, not %s",
                    (long long)s->dim[0], td_shape_str(b, &text));
  const float *box = td_in(c, 1)->data;
  TD_TRY(td_out(c, 0, s, &y));
  memcpy(y->data, td_in(c, 0)->data, td_tensor_bytes(y));
  canvas v = {*y, s->dim[1], s->dim[2], s->dim[3], 0, NULL};
  int64_t pixels = v.height * v.width * v.channels;
  for (int64_t i = 0; pixels > 0 && i < b->dim[0] * b->dim[1]; i++) {
    v.base = i / b->dim[1] * pixels;
    v.color = palette[(size_t)(i % b->dim[1]) % TD_COUNT(palette)];
    draw(&v, box + 4 * i);
  }
  return NULL;
}

static td_status *draw_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 4, "images", NULL));
  TD_TRY(td_infer_rank(c, 1, 3, "boxes", NULL));
  td_infer_out(c, 0, *td_infer_in(c, 0));
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "DrawBoundingBoxes",
     .sig = "images: T, boxes: float -> output: T; T: {float, half} = float",
     .shape = draw_infer,
     .cost = td_cost_move,
     .doc = "Draws boxes {batch, n, 4} into pictures, in ten colours.",
     .example = "td.draw_bounding_boxes({{{{0.0}, {0.0}}, {{0.0}, {0.0}}}}, "
                "{{{0, 0, 0, 1}}})  --> 1 1 0 0",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "DrawBoundingBoxes", .device = "CPU", .run = draw_run},
    {0},
};

TD_MODULE(draw_boxes, ops, kernels)
