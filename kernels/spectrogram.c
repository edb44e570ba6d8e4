/* spectrogram.c - AudioSpectrogram: how loud each frequency is over time.
 *
 * A sound {samples, channels} is cut into windows, `stride` samples after each
 * other. Each is weighted by Hann's periodic window, filled up with zeros to a
 * power of two and transformed; of the transform the moduli are the result,
 * {channels, windows, frequencies}. As many windows as fit a moderate memory
 * are transformed side by side.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/fft.h"

enum { LONGEST = 1 << 26, AT_ONCE = 1 << 18 /* numbers transformed */ };

typedef struct cut {
  int64_t window, stride; /* samples */
  int64_t length, bins;   /* of a transform, and of its result */
} cut;

static td_status *cut_of(int64_t window, int64_t stride, cut *out) {
  if (window < 2 || window > LONGEST)
    return td_error(TD_INVALID_ARGUMENT,
                    "window_size must be from 2 to %d samples, not %lld",
                    (int)LONGEST, (long long)window);
  if (stride < 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "stride must be 1 sample or more, not %lld",
                    (long long)stride);
  *out = (cut){.window = window, .stride = stride, .length = 2};
  while (out->length < window) out->length *= 2;
  out->bins = out->length / 2 + 1;
  return NULL;
}

static int64_t windows_in(const cut *k, int64_t samples) {
  return samples < k->window ? 0 : 1 + (samples - k->window) / k->stride;
}

static td_status *infer(td_infer *c) {
  cut k = {0};
  td_shape x;
  TD_TRY(cut_of(td_infer_int(c, "window_size"), td_infer_int(c, "stride"), &k));
  TD_TRY(td_infer_rank(c, 0, 2, "input", &x));
  int64_t samples = x.dim[0];
  td_infer_out(
      c, 0,
      td_shape_of(3, (int64_t[]){x.dim[1],
                                 samples < 0 ? -1 : windows_in(&k, samples),
                                 k.bins}));
  return NULL;
}

/* ---- running ------------------------------------------------------------- */

typedef struct run {
  cut k;
  int64_t channels, windows; /* of the sound */
  int64_t first;             /* of the lines that are being transformed */
  const float *sound;
  const double *weight; /* k.window of them */
  double *x;            /* lines of k.length */
  const double *y;      /* lines of k.bins pairs */
  float *out;
  bool squared;
} run;

static void weigh(void *arg, int64_t begin, int64_t end) {
  run *r = arg;
  for (int64_t i = begin; i < end; i++) {
    int64_t line = r->first + i, channel = line / r->windows;
    int64_t at = line % r->windows * r->k.stride;
    const float *from = r->sound + at * r->channels + channel;
    double *to = r->x + i * r->k.length;
    for (int64_t j = 0; j < r->k.window; j++)
      to[j] = r->weight[j] * (double)from[j * r->channels];
    memset(to + r->k.window, 0,
           (size_t)(r->k.length - r->k.window) * sizeof *to);
  }
}

static void measure(void *arg, int64_t begin, int64_t end) {
  run *r = arg;
  for (int64_t i = begin * r->k.bins; i < end * r->k.bins; i++) {
    double re = r->y[2 * i], im = r->y[2 * i + 1], square = re * re + im * im;
    r->out[r->first * r->k.bins + i] =
        (float)(r->squared ? square : sqrt(square));
  }
}

static td_status *transform(td_kernel_ctx *c, run *r, int64_t at_once) {
  int64_t lines = r->channels * r->windows;
  int64_t grain = 1 + 4096 / r->k.length;
  for (r->first = 0; r->first < lines && !td_stopped(c); r->first += at_once) {
    int64_t n = lines - r->first < at_once ? lines - r->first : at_once;
    td_for(c, n, grain, weigh, r);
    TD_TRY(td_fft_forth(c, true, n, r->k.length, r->x, (void *)r->y));
    td_for(c, n, grain, measure, r);
  }
  return NULL;
}

static void fill_weights(double *weight, int64_t n) {
  const double turn = 6.283185307179586476925;
  for (int64_t i = 0; i < n; i++)
    weight[i] = 0.5 - 0.5 * cos(turn * (double)i / (double)n);
}

static td_status *run_with_room(td_kernel_ctx *c, run *r) {
  td_tensor weight, x = {0}, y = {0};
  int64_t lines = r->channels * r->windows, at_once = AT_ONCE / r->k.length;
  if (at_once < 1) at_once = 1;
  if (at_once > lines) at_once = lines;
  td_shape one = td_shape_vector(r->k.window);
  td_shape in = td_shape_of(2, (int64_t[]){at_once, r->k.length});
  td_shape out = td_shape_of(2, (int64_t[]){at_once, r->k.bins});
  TD_TRY(td_temp(c, TD_FLOAT64, &one, &weight));
  td_status *s = td_temp(c, TD_FLOAT64, &in, &x);
  if (td_ok(s)) s = td_temp(c, TD_COMPLEX128, &out, &y);
  if (td_ok(s)) {
    fill_weights(weight.data, r->k.window);
    r->weight = weight.data, r->x = x.data, r->y = y.data;
    s = transform(c, r, at_once);
  }
  td_tensor_release(&y);
  td_tensor_release(&x);
  td_tensor_release(&weight);
  return s;
}

static td_status *spectrogram_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  const td_tensor *x = td_in(c, 0);
  td_shape_text text;
  td_tensor *y;
  run r = {.sound = x->data, .squared = td_node_bool(n, "magnitude_squared")};
  TD_TRY(cut_of(td_node_int(n, "window_size"), td_node_int(n, "stride"), &r.k));
  if (x->shape.rank != 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "input must be {samples, channels}, not of shape %s",
                    td_shape_str(&x->shape, &text));
  r.channels = x->shape.dim[1];
  r.windows = windows_in(&r.k, x->shape.dim[0]);
  td_shape shape = td_shape_of(3, (int64_t[]){r.channels, r.windows, r.k.bins});
  TD_TRY(td_out(c, 0, &shape, &y));
  r.out = y->data;
  return td_tensor_count(y) ? run_with_room(c, &r) : NULL;
}

/* ---- tables -------------------------------------------------------------- */

/* As of the fast transform of each window. */
static void cost(td_infer *c, td_cost *cost) {
  double n = td_infer_out_count(c, 0);
  cost->flops = 5 * n * log2((double)td_infer_int(c, "window_size"));
}

static const td_op_def ops[] = {
    {.type = "AudioSpectrogram",
     .sig = "input: float -> spectrogram: float; window_size: int; "
            "stride: int; magnitude_squared: bool = false",
     .shape = infer,
     .cost = cost,
     .doc = "Frequencies of a sound {samples, channels} over time, {channels, "
            "windows, frequencies}.",
     .example = "td.audio_spectrogram({{1.0}, {1.0}, {1.0}, {1.0}}, "
                "{window_size = 4, stride = 4})  --> 2 1 0",
     .flags = TD_NO_GRADIENT,
     .section = "Signals"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "AudioSpectrogram",
     .device = "CPU",
     .run = spectrogram_run,
     .make = td_fft_plans_make,
     .drop = td_fft_plans_drop},
    {0},
};

TD_MODULE(spectrogram, ops, kernels)
