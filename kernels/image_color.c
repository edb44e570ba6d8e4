/* image_color.c - contrast, hue and saturation; RGB and HSV.
 *
 * Hue, saturation and value are all from 0 to 1. Halves are computed in float.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/cpu.h"
#include "kernels/image_color.h"

/* ---- one colour ---------------------------------------------------------- */

typedef struct hsv {
  double h, s, v;
} hsv;

static double most(double a, double b) {
  return a > b ? a : b;
}
static double least(double a, double b) {
  return a < b ? a : b;
}

static hsv to_hsv(double r, double g, double b) {
  double v = most(most(r, g), b), range = v - least(least(r, g), b), h = 0;
  if (range > 0) {
    double norm = 1 / (6 * range);
    h = r == v   ? norm * (g - b)
        : g == v ? norm * (b - r) + 2.0 / 6
                 : norm * (r - g) + 4.0 / 6;
    if (h < 0) h += 1;
  }
  return (hsv){h, v > 0 ? range / v : 0, v};
}

static double clip(double x) {
  return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* The colour of hue h whose channels lie from `low` to low + range. */
static void paint(double h, double low, double range, double *rgb) {
  rgb[0] = low + range * clip(fabs(h * 6 - 3) - 1);
  rgb[1] = low + range * clip(2 - fabs(h * 6 - 2));
  rgb[2] = low + range * clip(2 - fabs(h * 6 - 4));
}

/* ---- maps of colours ----------------------------------------------------- */

typedef enum map { RGB_TO_HSV, HSV_TO_RGB, HUE, SATURATION } map;

typedef struct job {
  td_tensor from, to;
  map how;
  double by;
} job;

static void map_color(const job *j, const double *in, double *out) {
  hsv c = {in[0], in[1], in[2]};
  if (j->how != HSV_TO_RGB) c = to_hsv(in[0], in[1], in[2]);
  if (j->how == HUE) { /* channels below 0 have a range, but no saturation */
    double low = least(least(in[0], in[1]), in[2]);
    c.h += j->by;
    paint(c.h - floor(c.h), low, c.v - low, out);
    return;
  }
  if (j->how == SATURATION) c.s = clip(c.s * j->by);
  if (j->how != RGB_TO_HSV) {
    paint(c.h, (1 - c.s) * c.v, c.s * c.v, out);
    return;
  }
  out[0] = c.h, out[1] = c.s, out[2] = c.v;
}

static void map_part(void *arg, int64_t begin, int64_t end) {
  job *j = arg;
  for (int64_t i = begin; i < end; i++) {
    double in[3], out[3];
    for (int k = 0; k < 3; k++) in[k] = td_tensor_get_f(&j->from, 3 * i + k);
    map_color(j, in, out);
    for (int k = 0; k < 3; k++) td_tensor_set_f(&j->to, 3 * i + k, out[k]);
  }
}

/* Adjustments are of rank 3; the wrong channels have another code otherwise. */
static td_status *check_colors(const td_shape *s, int least_rank) {
  td_shape_text text;
  if (s->rank >= least_rank && s->dim[s->rank - 1] == 3) return NULL;
  return td_error(s->rank >= least_rank && least_rank == 1
                      ? TD_FAILED_PRECONDITION
                      : TD_INVALID_ARGUMENT,
                  "images must be of rank %d or more with 3 channels last, "
                  "not %s",
                  least_rank, td_shape_str(s, &text));
}

static td_status *check_scalar(const td_kernel_ctx *c) {
  const td_tensor *t = td_in(c, 1);
  td_shape_text text;
  if (t->shape.rank == 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be a scalar, not %s",
                  td_ctx_node(c)->op->in[1].name,
                  td_shape_str(&t->shape, &text));
}

td_status *td_colors_check(const td_kernel_ctx *c) {
  if (c->n_in == 1) return check_colors(&td_in(c, 0)->shape, 1);
  TD_TRY(check_scalar(c));
  return check_colors(&td_in(c, 0)->shape, 3);
}

static td_status *run_map(td_kernel_ctx *c, map how) {
  const td_tensor *x = td_in(c, 0);
  td_tensor *y;
  TD_TRY(td_colors_check(c));
  double by = c->n_in > 1 ? td_tensor_get_f(td_in(c, 1), 0) : 0;
  job j = {.from = *x, .how = how, .by = by};
  TD_TRY(td_out(c, 0, &x->shape, &y));
  j.to = *y;
  td_for(c, td_tensor_count(y) / 3, TD_GRAIN_COSTLY, map_part, &j);
  return NULL;
}

static td_status *hsv_run(td_kernel_ctx *c) {
  return run_map(c, RGB_TO_HSV);
}
static td_status *rgb_run(td_kernel_ctx *c) {
  return run_map(c, HSV_TO_RGB);
}
static td_status *hue_run(td_kernel_ctx *c) {
  return run_map(c, HUE);
}
static td_status *saturation_run(td_kernel_ctx *c) {
  return run_map(c, SATURATION);
}

/* ---- contrast ------------------------------------------------------------ */

typedef struct contrast {
  td_tensor from, to;
  int64_t pixels, channels;
  double factor;
} contrast;

/* One channel of one picture is a piece: its mean is one sum in order. */
static void stretch(void *arg, int64_t begin, int64_t end) {
  contrast *j = arg;
  for (int64_t p = begin; p < end; p++) {
    int64_t at = p / j->channels * j->pixels * j->channels + p % j->channels;
    double sum = 0;
    for (int64_t i = 0; i < j->pixels; i++)
      sum += td_tensor_get_f(&j->from, at + i * j->channels);
    double mean = sum / (double)j->pixels;
    for (int64_t i = 0; i < j->pixels; i++) {
      double x = td_tensor_get_f(&j->from, at + i * j->channels);
      td_tensor_set_f(&j->to, at + i * j->channels,
                      (x - mean) * j->factor + mean);
    }
  }
}

td_status *td_contrast_check(const td_kernel_ctx *c) {
  const td_shape *x = &td_in(c, 0)->shape;
  td_shape_text text;
  TD_TRY(check_scalar(c));
  if (x->rank >= 3) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "images must be {..., height, width, channels}, not %s",
                  td_shape_str(x, &text));
}

static td_status *contrast_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  int rank = x->shape.rank;
  td_tensor *y;
  contrast j = {.from = *x};
  TD_TRY(td_contrast_check(c));
  j.factor = td_tensor_get_f(td_in(c, 1), 0);
  TD_TRY(td_out(c, 0, &x->shape, &y));
  if (td_tensor_count(y) == 0) return NULL;
  j.to = *y;
  j.channels = x->shape.dim[rank - 1];
  j.pixels = x->shape.dim[rank - 3] * x->shape.dim[rank - 2];
  td_for(c, td_tensor_count(y) / j.pixels, td_grain_of(4 * j.pixels), stretch,
         &j);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static td_status *colors_infer(td_infer *c) {
  const td_shape *s = td_infer_in(c, 0);
  TD_TRY(td_infer_rank_at_least(c, 0, 1, "images"));
  if (s->rank > 0 && s->dim[s->rank - 1] >= 0) TD_TRY(check_colors(s, 1));
  td_infer_out(c, 0, *s);
  return NULL;
}

static td_status *adjust_infer(td_infer *c) {
  TD_TRY(td_infer_rank_at_least(c, 0, 3, "images"));
  TD_TRY(td_infer_rank(c, 1, 0, td_infer_op(c)->in[1].name, NULL));
  td_infer_out(c, 0, *td_infer_in(c, 0));
  return NULL;
}

#define COLORS                                                                 \
  "images: T -> output: T; T: {half, bfloat16, float, double} = float"

static const td_op_def ops[] = {
    {.type = "RGBToHSV",
     .sig = COLORS,
     .shape = colors_infer,
     .doc = "Colours along the last axis as hue, saturation and value.",
     .lua = "rgb_to_hsv",
     .example = "td.rgb_to_hsv({{0.0, 1.0, 0.0}})  --> 0.33333334 1 1",
     .section = "Image"},
    {.type = "HSVToRGB",
     .sig = COLORS,
     .shape = colors_infer,
     .doc = "Hue, saturation and value along the last axis as colours.",
     .lua = "hsv_to_rgb",
     .example = "td.hsv_to_rgb({{0.5, 1.0, 1.0}})  --> 0 1 1",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {.type = "AdjustContrastv2",
     .sig = "images: T, contrast_factor: float -> output: T; "
            "T: {half, float} = float",
     .shape = adjust_infer,
     .doc = "(x - mean) * contrast_factor + mean, for each channel of each "
            "picture.",
     .lua = "adjust_contrast",
     .example = "td.adjust_contrast({{{1.0}, {3.0}}}, 2)  --> 0 4",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {.type = "AdjustHue",
     .sig = "images: T, delta: float -> output: T; T: {half, float} = float",
     .shape = adjust_infer,
     .doc = "Turns the hue of RGB pictures: delta 1 is all the way round.",
     .example = "td.adjust_hue({{{1.0, 0.0, 0.0}}}, 0.5)  --> 0 1 1",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {.type = "AdjustSaturation",
     .sig = "images: T, scale: float -> output: T; T: {half, float} = float",
     .shape = adjust_infer,
     .doc = "Multiplies the saturation of RGB pictures by scale.",
     .example = "td.adjust_saturation({{{1.0, 0.0, 0.0}}}, 0.5)"
                "  --> 1 0.5 0.5",
     .flags = TD_NO_GRADIENT,
     .section = "Image"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "RGBToHSV", .device = "CPU", .run = hsv_run},
    {.op = "HSVToRGB", .device = "CPU", .run = rgb_run},
    {.op = "AdjustContrastv2", .device = "CPU", .run = contrast_run},
    {.op = "AdjustHue", .device = "CPU", .run = hue_run},
    {.op = "AdjustSaturation", .device = "CPU", .run = saturation_run},
    {0},
};

TD_MODULE(image_color, ops, kernels)
