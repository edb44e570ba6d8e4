/* mfcc.c - Mfcc: a few numbers that tell how a sound is heard.
 *
 * From a spectrogram {channels, windows, frequencies} of squared moduli. Its
 * moduli are added up in triangles, evenly spread over the mel scale, each from
 * the centre of the one before it to that of the one after; of the logarithms
 * of these sums the first coefficients of the cosine transform (DCT-II) are the
 * result. mel(f) = 1127 ln(1 + f / 700).
 *
 * A frequency lies between two centres: the `share` of it that it gives to the
 * lower one's triangle, the rest is the upper one's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "engine/base/mem.h"
#include "engine/device/kernel.h"

static const double FLOOR = 1e-12; /* of what a logarithm is taken */

enum { MOST = 1 << 13 }; /* triangles */

typedef struct plan {
  int64_t bins, first, last; /* frequencies that count: first to last */
  int triangles, coefficients;
  double *share;   /* by frequency */
  int *below;      /* by frequency: the triangle of the lower centre, or -1 */
  double *cosines; /* {coefficients, triangles} */
} plan;

/* What the node says. */
typedef struct asked {
  double low, high; /* Hz */
  int64_t triangles, coefficients;
} asked;

static td_status *check(const asked *a) {
  if (!(a->low >= 0) || !(a->high > a->low))
    return td_error(TD_INVALID_ARGUMENT,
                    "lower_frequency_limit must be 0 or more, and "
                    "upper_frequency_limit above it: they are %g and %g",
                    a->low, a->high);
  if (a->triangles < 1 || a->triangles > MOST)
    return td_error(TD_INVALID_ARGUMENT,
                    "filterbank_channel_count must be from 1 to %d, not %lld",
                    (int)MOST, (long long)a->triangles);
  if (a->coefficients < 1 || a->coefficients > a->triangles)
    return td_error(TD_INVALID_ARGUMENT,
                    "dct_coefficient_count must be from 1 to "
                    "filterbank_channel_count, %lld, not %lld",
                    (long long)a->triangles, (long long)a->coefficients);
  return NULL;
}

static td_status *infer(td_infer *c) {
  td_shape x;
  asked a = {.low = (double)td_infer_float(c, "lower_frequency_limit"),
             .high = (double)td_infer_float(c, "upper_frequency_limit"),
             .triangles = td_infer_int(c, "filterbank_channel_count"),
             .coefficients = td_infer_int(c, "dct_coefficient_count")};
  TD_TRY(check(&a));
  TD_TRY(td_infer_rank(c, 1, 0, "sample_rate", NULL));
  TD_TRY(td_infer_rank(c, 0, 3, "spectrogram", &x));
  x.dim[2] = a.coefficients;
  td_infer_out(c, 0, x);
  return NULL;
}

/* ---- the plan ------------------------------------------------------------ */

static double mel(double hertz) {
  return 1127 * log1p(hertz / 700);
}

/* `hertz` a frequency's number. */
static void fill_triangles(plan *p, const asked *a, double hertz) {
  double low = mel(a->low);
  double width = (mel(a->high) - low) / (double)(p->triangles + 1);
  int above = 0; /* the first centre that is not below */
  for (int64_t i = p->first; i <= p->last; i++) {
    double at = mel((double)i * hertz);
    while (above < p->triangles && low + width * (above + 1) < at) above++;
    p->below[i] = above - 1;
    double next = low + width * (above + 1), here = low + width * above;
    p->share[i] = (next - at) / (next - here);
  }
}

static void fill_cosines(plan *p) {
  const double pi = 3.14159265358979323846, n = (double)p->triangles;
  double scale = sqrt(2 / n);
  for (int i = 0; i < p->coefficients; i++)
    for (int j = 0; j < p->triangles; j++)
      p->cosines[(size_t)i * (size_t)p->triangles + (size_t)j] =
          scale * cos(pi / n * i * (j + 0.5));
}

static td_status *plan_init(plan *p, const asked *a, int64_t rate,
                            int64_t bins) {
  if (rate < 1)
    return td_error(TD_INVALID_ARGUMENT, "sample_rate must be > 0, not %lld",
                    (long long)rate);
  if (bins < 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "spectrogram must have 2 frequencies or more, not %lld",
                    (long long)bins);
  double hertz = 0.5 * (double)rate / (double)(bins - 1);
  double first = 1.5 + a->low / hertz, last = a->high / hertz;
  if (last >= (double)bins)
    return td_error(TD_INVALID_ARGUMENT,
                    "upper_frequency_limit is %g, half of sample_rate %g: what "
                    "is above is not in the spectrogram",
                    a->high, 0.5 * (double)rate);
  p->bins = bins;
  p->last = (int64_t)last;
  p->first = first > (double)bins ? bins : (int64_t)first;
  p->triangles = (int)a->triangles;
  p->coefficients = (int)a->coefficients;
  p->share = td_calloc((size_t)bins, sizeof *p->share);
  p->below = td_calloc((size_t)bins, sizeof *p->below);
  p->cosines = td_calloc((size_t)p->coefficients,
                         (size_t)p->triangles * sizeof *p->cosines);
  if (!p->share || !p->below || !p->cosines) return td_oom();
  fill_triangles(p, a, hertz);
  fill_cosines(p);
  return NULL;
}

static void plan_deinit(plan *p) {
  td_free(p->share);
  td_free(p->below);
  td_free(p->cosines);
}

/* ---- running ------------------------------------------------------------- */

/* The sums of a window of the spectrogram: of their logarithms. */
static void sum_up(const plan *p, const float *x, double *sum) {
  for (int j = 0; j < p->triangles; j++) sum[j] = 0;
  for (int64_t i = p->first; i <= p->last; i++) {
    double all = sqrt((double)x[i]), share = all * p->share[i];
    int j = p->below[i];
    if (j >= 0) sum[j] += share;
    if (j + 1 < p->triangles) sum[j + 1] += all - share;
  }
  for (int j = 0; j < p->triangles; j++)
    sum[j] = log(sum[j] < FLOOR ? FLOOR : sum[j]);
}

static void transform(const plan *p, const double *sum, float *y) {
  const double *row = p->cosines;
  for (int i = 0; i < p->coefficients; i++, row += p->triangles) {
    double v = 0;
    for (int j = 0; j < p->triangles; j++) v += row[j] * sum[j];
    y[i] = (float)v;
  }
}

static td_status *fill(td_kernel_ctx *c, const plan *p, td_tensor *y) {
  const float *x = td_in(c, 0)->data;
  float *to = y->data;
  int64_t n = td_tensor_count(y) / p->coefficients;
  double *sum = td_malloc((size_t)p->triangles * sizeof *sum);
  if (!sum) return td_oom();
  for (int64_t i = 0; i < n && !td_stopped(c); i++) {
    sum_up(p, x + i * p->bins, sum);
    transform(p, sum, to + i * p->coefficients);
  }
  td_free(sum);
  return NULL;
}

static td_status *mfcc_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  const td_tensor *x = td_in(c, 0), *rate = td_in(c, 1);
  asked a = {.low = (double)td_node_float(n, "lower_frequency_limit"),
             .high = (double)td_node_float(n, "upper_frequency_limit"),
             .triangles = td_node_int(n, "filterbank_channel_count"),
             .coefficients = td_node_int(n, "dct_coefficient_count")};
  td_shape_text text;
  td_tensor *y;
  plan p = {0};
  TD_TRY(check(&a));
  if (x->shape.rank != 3)
    return td_error(TD_INVALID_ARGUMENT,
                    "spectrogram must be {channels, windows, frequencies}, not "
                    "of shape %s",
                    td_shape_str(&x->shape, &text));
  if (rate->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "sample_rate must be a scalar, not of shape %s",
                    td_shape_str(&rate->shape, &text));
  td_shape shape = x->shape;
  shape.dim[2] = a.coefficients;
  TD_TRY(td_out(c, 0, &shape, &y));
  td_status *s = plan_init(&p, &a, td_tensor_get_i(rate, 0), x->shape.dim[2]);
  if (td_ok(s)) s = fill(c, &p, y);
  plan_deinit(&p);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static void cost(td_infer *c, td_cost *cost) {
  double triangles = (double)td_infer_int(c, "filterbank_channel_count");
  cost->flops =
      2 * triangles * td_infer_out_count(c, 0) + 5 * td_infer_in_count(c, 0);
}

static const td_op_def ops[] = {
    {.type = "Mfcc",
     .sig = "spectrogram: float, sample_rate: int32 -> output: float; "
            "upper_frequency_limit: float = 4000; "
            "lower_frequency_limit: float = 20; "
            "filterbank_channel_count: int = 40; "
            "dct_coefficient_count: int = 13",
     .shape = infer,
     .cost = cost,
     .doc = "Mel-frequency cepstral coefficients of a spectrogram {channels, "
            "windows, frequencies} of squared magnitudes.",
     .example = "td.shape(td.mfcc(td.value.ones({1, 2, 129}), 16000))  "
                "--> 1 2 13",
     .flags = TD_NO_GRADIENT,
     .section = "Signals"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Mfcc", .device = "CPU", .run = mfcc_run},
    {0},
};

TD_MODULE(mfcc, ops, kernels)
