/* crop_resize.c - CropAndResize: boxes cut out of pictures, in one size.
 *
 * A box is {y1, x1, y2, x2} in shares of the picture's height - 1 and width -
 * 1; y2 may be above y1, which turns the crop over. What lies outside the
 * picture is extrapolation_value.
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
  int64_t batch, height, width, channels, boxes, crop_h, crop_w;
  const float *box;
  const int32_t *of; /* the picture of each box */
  const float *from; /* pictures, or gradients of crops */
  const float *picture;
  float *to;
  double *sums;
  float outside;
  bool nearest;
} job;

/* ---- shapes -------------------------------------------------------------- */

static td_status *infer(td_infer *c) {
  td_shape image, boxes, ind;
  td_small size;
  bool known;
  TD_TRY(td_infer_rank(c, 0, 4, "image", &image));
  TD_TRY(td_infer_rank(c, 1, 2, "boxes", &boxes));
  TD_TRY(td_infer_rank(c, 2, 1, "box_ind", &ind));
  TD_TRY(td_infer_rank(c, 3, 1, "crop_size", NULL));
  TD_TRY(td_operand_infer_ints(c, 3, "crop_size", &size, &known));
  td_shape s = td_shape_ranked(4);
  s.dim[0] = boxes.dim[0] >= 0 ? boxes.dim[0] : ind.dim[0];
  for (int i = 0; i < 2; i++)
    if (known && size.count == 2 && size.known[i] && size.at[i] > 0)
      s.dim[i + 1] = size.at[i];
  s.dim[3] = image.dim[3];
  td_infer_out(c, 0, s);
  return NULL;
}

static td_status *image_grad_infer(td_infer *c) {
  td_shape s = td_shape_ranked(4);
  td_small size;
  bool known;
  TD_TRY(td_infer_rank(c, 0, 4, "grads", NULL));
  TD_TRY(td_infer_rank(c, 3, 1, "image_size", NULL));
  TD_TRY(td_operand_infer_ints(c, 3, "image_size", &size, &known));
  for (int i = 0; i < 4; i++)
    if (known && size.count == 4 && size.known[i] && size.at[i] >= 0)
      s.dim[i] = size.at[i];
  td_infer_out(c, 0, s);
  return NULL;
}

static td_status *boxes_grad_infer(td_infer *c) {
  td_shape boxes;
  TD_TRY(td_infer_rank(c, 2, 2, "boxes", &boxes));
  td_infer_out(c, 0, boxes);
  return NULL;
}

/* ---- checks -------------------------------------------------------------- */

static td_status *read_boxes(const td_tensor *boxes, const td_tensor *of,
                             job *j) {
  td_shape_text a, b;
  if (boxes->shape.rank != 2 || boxes->shape.dim[1] != 4 ||
      of->shape.rank != 1 || of->shape.dim[0] != boxes->shape.dim[0])
    return td_error(TD_INVALID_ARGUMENT,
                    "boxes must be {n, 4} and box_ind {n}, not %s and %s",
                    td_shape_str(&boxes->shape, &a),
                    td_shape_str(&of->shape, &b));
  j->boxes = boxes->shape.dim[0];
  j->box = boxes->data;
  j->of = of->data;
  for (int64_t i = 0; i < 4 * j->boxes; i++)
    if (!isfinite(j->box[i]))
      return td_error(TD_INVALID_ARGUMENT, "boxes[%lld][%d] is not finite: %g",
                      (long long)i / 4, (int)(i % 4), (double)j->box[i]);
  for (int64_t i = 0; i < j->boxes; i++)
    if (j->of[i] < 0 || j->of[i] >= j->batch)
      return td_error(TD_OUT_OF_RANGE,
                      "box_ind %lld is %d; there are %lld pictures",
                      (long long)i, j->of[i], (long long)j->batch);
  return NULL;
}

static td_status *read_picture(const td_shape *s, job *j) {
  td_shape_text text;
  if (s->rank != 4 || s->dim[1] < 1 || s->dim[2] < 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "image must be {batch, height, width, channels} with "
                    "pixels, not %s",
                    td_shape_str(s, &text));
  j->batch = s->dim[0], j->height = s->dim[1];
  j->width = s->dim[2], j->channels = s->dim[3];
  return NULL;
}

/* Before anything else is looked at. */
static td_status *check_grads(const td_shape *s) {
  td_shape_text text;
  if (s->rank == 4 && s->dim[1] > 0 && s->dim[2] > 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "grads must be {boxes, height, width, channels} with pixels, "
                  "not %s",
                  td_shape_str(s, &text));
}

static td_status *read_grads(const td_tensor *g, job *j) {
  const td_shape *s = &g->shape;
  td_shape_text text;
  if (s->dim[0] != j->boxes || s->dim[3] != j->channels)
    return td_error(TD_INVALID_ARGUMENT,
                    "grads of shape %s must be {%lld, height, width, %lld}",
                    td_shape_str(s, &text), (long long)j->boxes,
                    (long long)j->channels);
  j->crop_h = s->dim[1], j->crop_w = s->dim[2];
  j->from = g->data;
  return NULL;
}

static bool is_nearest(const td_kernel_ctx *c) {
  return strcmp(td_node_string(td_ctx_node(c), "method"), "nearest") == 0;
}

/* ---- places -------------------------------------------------------------- */

/* Where row (column) i of n of a crop lies; false outside. */
static bool place(float from, float to, int64_t size, int64_t n, int64_t i,
                  float *at) {
  float last = (float)(size - 1);
  if (n > 1)
    *at = from * last + (float)i * ((to - from) * last / (float)(n - 1));
  else
    *at = 0.5f * (from + to) * last;
  return *at >= 0 && *at <= last;
}

/* ---- forward ------------------------------------------------------------- */

static void crop_pixel(const job *j, const float *image, float y, float x,
                       float *to) {
  int64_t n = j->channels, line = j->width * n;
  if (j->nearest) {
    const float *at = image + lrintf(roundf(y)) * line + lrintf(roundf(x)) * n;
    memcpy(to, at, (size_t)n * sizeof *to);
    return;
  }
  td_resize_span v = td_resize_between(y, j->height);
  td_resize_span h = td_resize_between(x, j->width);
  const float *top = image + v.low * line, *low = image + v.high * line;
  for (int64_t ch = 0; ch < n; ch++) {
    int64_t a = h.low * n + ch, b = h.high * n + ch;
    float above = top[a] + (top[b] - top[a]) * h.share;
    float below = low[a] + (low[b] - low[a]) * h.share;
    to[ch] = above + (below - above) * v.share;
  }
}

static void crop_rows(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  int64_t n = j->channels;
  for (int64_t i = begin; i < end; i++) {
    int64_t b = i / j->crop_h;
    const float *box = j->box + 4 * b;
    const float *image = j->from + j->of[b] * j->height * j->width * n;
    float y, x, *to = j->to + i * j->crop_w * n;
    bool in = place(box[0], box[2], j->height, j->crop_h, i % j->crop_h, &y);
    for (int64_t k = 0; k < j->crop_w; k++, to += n)
      if (in && place(box[1], box[3], j->width, j->crop_w, k, &x))
        crop_pixel(j, image, y, x, to);
      else
        for (int64_t ch = 0; ch < n; ch++) to[ch] = j->outside;
  }
}

static td_status *run(td_kernel_ctx *c) {
  job j = {.nearest = is_nearest(c),
           .outside = td_node_float(td_ctx_node(c), "extrapolation_value")};
  td_small size;
  td_tensor *y, in = {0};
  TD_TRY(read_picture(&td_in(c, 0)->shape, &j));
  TD_TRY(td_operand_ints(td_in(c, 3), "crop_size", &size));
  if (size.rank != 1 || size.count != 2 || size.at[0] < 1 || size.at[1] < 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "crop_size must be {height, width} of 1 pixel or more");
  TD_TRY(read_boxes(td_in(c, 1), td_in(c, 2), &j));
  j.crop_h = size.at[0], j.crop_w = size.at[1];
  td_shape shape =
      td_shape_of(4, (int64_t[]){j.boxes, j.crop_h, j.crop_w, j.channels});
  TD_TRY(td_array_count(&shape, NULL));
  TD_TRY(td_out(c, 0, &shape, &y));
  if (td_tensor_count(y) == 0) return NULL; /* sizes may be vast */
  TD_TRY(td_resize_floats(c, td_in(c, 0), &in));
  j.from = in.data, j.to = y->data;
  td_for(c, j.boxes * j.crop_h, td_grain_of(4 * j.crop_w * j.channels),
         crop_rows, &j);
  td_tensor_release(&in);
  return NULL;
}

/* ---- backward ------------------------------------------------------------ */

static void add_pixel(const job *j, double *image, float y, float x,
                      const float *g) {
  int64_t n = j->channels, line = j->width * n;
  if (j->nearest) {
    double *at = image + lrintf(roundf(y)) * line + lrintf(roundf(x)) * n;
    for (int64_t ch = 0; ch < n; ch++) at[ch] += (double)g[ch];
    return;
  }
  td_resize_span v = td_resize_between(y, j->height);
  td_resize_span h = td_resize_between(x, j->width);
  double *top = image + v.low * line, *low = image + v.high * line;
  for (int64_t ch = 0; ch < n; ch++) {
    float above = (1 - v.share) * g[ch], below = v.share * g[ch];
    top[h.low * n + ch] += (double)((1 - h.share) * above);
    top[h.high * n + ch] += (double)(h.share * above);
    low[h.low * n + ch] += (double)((1 - h.share) * below);
    low[h.high * n + ch] += (double)(h.share * below);
  }
}

/* All that the boxes say of pictures [begin, end). */
static void add_pictures(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  int64_t n = j->channels, pixels = j->height * j->width * n;
  memset(j->sums + begin * pixels, 0,
         (size_t)((end - begin) * pixels) * sizeof *j->sums);
  for (int64_t b = 0; b < j->boxes; b++) {
    if (j->of[b] < begin || j->of[b] >= end) continue;
    const float *box = j->box + 4 * b;
    const float *g = j->from + b * j->crop_h * j->crop_w * n;
    float y, x;
    for (int64_t i = 0; i < j->crop_h; i++)
      for (int64_t k = 0; k < j->crop_w; k++, g += n)
        if (place(box[0], box[2], j->height, j->crop_h, i, &y) &&
            place(box[1], box[3], j->width, j->crop_w, k, &x))
          add_pixel(j, j->sums + j->of[b] * pixels, y, x, g);
  }
}

static td_status *run_image_grad(td_kernel_ctx *c) {
  job j = {.nearest = is_nearest(c)};
  td_shape shape;
  td_tensor *dx, sums = {0};
  TD_TRY(check_grads(&td_in(c, 0)->shape));
  TD_TRY(td_operand_shape(td_in(c, 3), "image_size", &shape));
  TD_TRY(read_picture(&shape, &j));
  TD_TRY(td_array_count(&shape, NULL));
  TD_TRY(read_boxes(td_in(c, 1), td_in(c, 2), &j));
  TD_TRY(read_grads(td_in(c, 0), &j));
  TD_TRY(td_out(c, 0, &shape, &dx));
  TD_TRY(td_temp(c, TD_FLOAT64, &shape, &sums));
  j.sums = sums.data;
  if (td_tensor_count(dx) > 0) td_for(c, j.batch, 1, add_pictures, &j);
  for (int64_t i = 0; i < td_tensor_count(dx); i++)
    td_tensor_set_f(dx, i, j.sums[i]);
  td_tensor_release(&sums);
  return NULL;
}

/* What the edges of a box from `from` to `to` gain when place i of n moves. */
static void add_edges(int64_t size, int64_t n, int64_t i, double g,
                      double *from, double *to) {
  double last = (double)(size - 1);
  double share = n > 1 ? (double)i / (double)(n - 1) : 0.5;
  *from += g * last * (1 - share);
  *to += g * last * share;
}

static void add_box(const job *j, int64_t b, int64_t i, int64_t k, float y,
                    float x, double sum[4]) {
  int64_t n = j->channels, line = j->width * n;
  const float *image = j->picture + j->of[b] * j->height * line;
  const float *g = j->from + ((b * j->crop_h + i) * j->crop_w + k) * n;
  td_resize_span v = td_resize_between(y, j->height);
  td_resize_span h = td_resize_between(x, j->width);
  double down = 0, right = 0;
  for (int64_t ch = 0; ch < n; ch++) {
    float tl = image[v.low * line + h.low * n + ch];
    float tr = image[v.low * line + h.high * n + ch];
    float bl = image[v.high * line + h.low * n + ch];
    float br = image[v.high * line + h.high * n + ch];
    down += (double)(((1 - h.share) * (bl - tl) + h.share * (br - tr)) * g[ch]);
    right +=
        (double)(((1 - v.share) * (tr - tl) + v.share * (br - bl)) * g[ch]);
  }
  add_edges(j->height, j->crop_h, i, down, &sum[0], &sum[2]);
  add_edges(j->width, j->crop_w, k, right, &sum[1], &sum[3]);
}

static void add_boxes(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t b = begin; b < end; b++) {
    const float *box = j->box + 4 * b;
    double sum[4] = {0};
    float y, x;
    for (int64_t i = 0; i < j->crop_h; i++)
      for (int64_t k = 0; k < j->crop_w; k++)
        if (place(box[0], box[2], j->height, j->crop_h, i, &y) &&
            place(box[1], box[3], j->width, j->crop_w, k, &x))
          add_box(j, b, i, k, y, x, sum);
    for (int e = 0; e < 4; e++) j->to[4 * b + e] = (float)sum[e];
  }
}

static td_status *run_boxes_grad(td_kernel_ctx *c) {
  job j = {0};
  td_tensor *db, in = {0};
  TD_TRY(check_grads(&td_in(c, 0)->shape));
  TD_TRY(read_picture(&td_in(c, 1)->shape, &j));
  TD_TRY(read_boxes(td_in(c, 2), td_in(c, 3), &j));
  TD_TRY(read_grads(td_in(c, 0), &j));
  TD_TRY(td_out(c, 0, &td_in(c, 2)->shape, &db));
  memset(db->data, 0, td_tensor_bytes(db));
  if (td_tensor_count(td_in(c, 0)) == 0) return NULL;
  TD_TRY(td_resize_floats(c, td_in(c, 1), &in));
  j.picture = in.data, j.to = db->data;
  td_for(c, j.boxes, td_grain_of(8 * j.crop_h * j.crop_w * j.channels),
         add_boxes, &j);
  td_tensor_release(&in);
  return NULL;
}

/* ---- cost -----------------------------------------------------------------
 */

TD_COST_OUTPUT(crop_cost, 8, 0)
TD_COST_INPUT(image_grad_cost, 8, 0)
TD_COST_INPUT(boxes_grad_cost, 16, 0)

/* ---- tables -------------------------------------------------------------- */

#define IMAGE_TYPES                                                            \
  "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}; "
#define METHODS "method: {\"bilinear\", \"nearest\"} = \"bilinear\""

static const td_op_def ops[] = {
    {.type = "CropAndResize",
     .sig = "image: T, boxes: float, box_ind: int32, crop_size: int32 -> "
            "crops: float; " IMAGE_TYPES METHODS
            "; extrapolation_value: float = 0",
     .shape = infer,
     .cost = crop_cost,
     .doc = "Boxes {y1, x1, y2, x2} of pictures, all in the size crop_size.",
     .example = "td.crop_and_resize({{{{1.0}, {2.0}, {3.0}}}}, {{0, 0.5, 0, "
                "1}}, {0}, {1, 2})  --> 2 3",
     .host = "crop_size",
     .section = "Image"},
    {.type = "CropAndResizeGradImage",
     .sig = "grads: float, boxes: float, box_ind: int32, image_size: int32 -> "
            "output: T; T: {float, half, double}; " METHODS,
     .shape = image_grad_infer,
     .cost = image_grad_cost,
     .doc = "The gradient of CropAndResize by the pictures.",
     .flags = TD_NO_GRADIENT,
     .lua = "",
     .host = "image_size",
     .section = "Image"},
    {.type = "CropAndResizeGradBoxes",
     .sig =
         "grads: float, image: T, boxes: float, box_ind: int32 -> "
         "output: float; " IMAGE_TYPES "method: {\"bilinear\"} = \"bilinear\"",
     .shape = boxes_grad_infer,
     .cost = boxes_grad_cost,
     .doc = "The gradient of CropAndResize by the boxes.",
     .flags = TD_NO_GRADIENT,
     .lua = "",
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "CropAndResize", .device = "CPU", .run = run},
    {.op = "CropAndResizeGradImage", .device = "CPU", .run = run_image_grad},
    {.op = "CropAndResizeGradBoxes", .device = "CPU", .run = run_boxes_grad},
    {0},
};

TD_MODULE(crop_resize, ops, kernels)
