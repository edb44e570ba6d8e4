/* random_gamma.c - RandomGamma, RandomPoissonV2.
 *
 * Numbers that take an unknown part of the stream: sample i of all begins 256
 * blocks after the one before, counted parameter by parameter, so that any of
 * them can be drawn on any thread. In double; uniform and normal numbers of a
 * block are taken last to first, as in TensorFlow.
 * Sources: Marsaglia and Tsang, "A simple method for generating gamma
 * variables", 2000; Hoermann, "The transformed rejection method for generating
 * Poisson random variables", 1993; Knuth, volume 2, 3.4.1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/array.h"
#include "kernels/operand.h"
#include "kernels/cpu.h"
#include "kernels/random.h"

typedef struct job {
  const td_tensor *parameter;
  td_tensor *out;
  int64_t samples, parameters; /* of each; their number */
  double most;                 /* that the result's dtype holds */
  td_philox base;
} job;

/* Where one sample draws. */
typedef struct source {
  td_philox p;
  double uniform[2], normal[2];
  int uniforms, normals; /* left of them */
} source;

static double next_uniform(source *s) {
  uint32_t words[4];
  if (s->uniforms == 0) {
    td_philox_next(&s->p, words);
    s->uniform[0] = td_random_double(words);
    s->uniform[1] = td_random_double(words + 2);
    s->uniforms = 2;
  }
  return s->uniform[--s->uniforms];
}

static double next_normal(source *s) {
  uint32_t words[4];
  if (s->normals == 0) {
    td_philox_next(&s->p, words);
    td_random_normals(words, s->normal);
    s->normals = 2;
  }
  return s->normal[--s->normals];
}

/* ---- distributions ------------------------------------------------------- */

static double draw_gamma(source *s, double alpha) {
  bool low = alpha < 1;
  if (alpha == 1) return -log1p(-next_uniform(s));
  double d = alpha + (low ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / sqrt(d);
  for (;;) {
    double x = next_normal(s), v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    double u = next_uniform(s), squeeze = 1 - 0.0331 * (x * x) * (x * x);
    if (!(u < squeeze) && !(log(u) < 0.5 * x * x + d * (1 - v + log(v))))
      continue;
    return low ? d * v * pow(next_uniform(s), 1 / alpha) : d * v;
  }
}

/* The number of events while a product of uniform numbers falls to e^-rate. */
static double draw_few(source *s, double rate, double most) {
  double least = exp(-rate), product = 1, x = 0;
  for (;;) {
    product *= next_uniform(s);
    if (product <= least && x <= most) return x;
    x += 1;
  }
}

static double draw_poisson(source *s, double rate, double most) {
  if (rate < 10) return draw_few(s, rate, most);
  double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
  double inverse = 1.1239 + 1.1328 / (b - 3.4), log_rate = log(rate);
  for (;;) {
    double u = next_uniform(s) - 0.5, v = next_uniform(s);
    double near = 0.5 - fabs(u);
    double k = floor((2 * a / near + b) * u + rate + 0.43);
    if (k > most) continue;
    if (near >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
    if (k < 0 || (near < 0.013 && v > near)) continue;
    double x = log(v * inverse / (a / (near * near) + b));
    if (x <= -rate + k * log_rate - lgamma(k + 1)) return k;
  }
}

/* ---- running ------------------------------------------------------------- */

static double parameter_of(const job *j, int64_t i, int64_t *at, source *s) {
  int64_t which = i / j->samples;
  *at = i % j->samples * j->parameters + which;
  *s = (source){.p = j->base};
  td_philox_skip(&s->p, (uint64_t)i * TD_RANDOM_RESERVED);
  return td_tensor_get_f(j->parameter, which);
}

static void fill_gamma(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t i = begin; i < end; i++) {
    source s;
    int64_t at;
    double alpha = parameter_of(j, i, &at, &s);
    td_tensor_set_f(j->out, at, draw_gamma(&s, alpha));
  }
}

static void fill_poisson(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t i = begin; i < end; i++) {
    source s;
    int64_t at;
    double rate = parameter_of(j, i, &at, &s);
    td_tensor_set_f(j->out, at, draw_poisson(&s, rate, j->most));
  }
}

/* The sizes in input 0, then those of input 1. */
static td_status *joined(const td_shape *samples, const td_shape *back,
                         td_shape *out) {
  TD_TRY(td_shape_check_rank(samples->rank + back->rank));
  *out = *samples;
  for (int k = 0; k < back->rank; k++) out->dim[out->rank++] = back->dim[k];
  return NULL;
}

static td_status *infer(td_infer *c) {
  td_shape samples, out;
  TD_TRY(td_infer_rank(c, 0, 1, "shape", NULL));
  TD_TRY(td_infer_shape_from(c, 0, &samples));
  if (samples.rank < 0 || td_infer_in(c, 1)->rank < 0) return NULL;
  TD_TRY(joined(&samples, td_infer_in(c, 1), &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *run(td_kernel_ctx *c, job *j,
                      void (*fn)(void *arg, int64_t begin, int64_t end)) {
  td_shape samples, out;
  TD_TRY(td_operand_shape(td_in(c, 0), "shape", &samples));
  j->parameter = td_in(c, 1);
  TD_TRY(joined(&samples, &j->parameter->shape, &out));
  TD_TRY(td_array_count(&out, NULL));
  TD_TRY(td_out(c, 0, &out, &j->out));
  int64_t count = td_tensor_count(j->out);
  if (count == 0) return NULL;
  j->samples = td_shape_count(&samples);
  j->parameters = td_tensor_count(j->parameter);
  j->base = td_random_reserve(c, (uint64_t)count * TD_RANDOM_RESERVED);
  td_for(c, count, TD_GRAIN_COSTLY / 8, fn, j);
  return NULL;
}

static td_status *gamma_run(td_kernel_ctx *c) {
  job j = {0};
  return run(c, &j, fill_gamma);
}

static double most_of(td_dtype t) {
  switch (t) {
  case TD_FLOAT16:
    return 65504;
  case TD_FLOAT32:
    return 0x1.fffffep127;
  case TD_INT32:
    return INT32_MAX;
  case TD_INT64:
    return (double)INT64_MAX;
  default:
    return 0x1.fffffffffffffp1023;
  }
}

/* Beyond 2^53 events are no whole numbers any more. */
static td_status *poisson_run(td_kernel_ctx *c) {
  job j = {.most = most_of(td_ctx_node(c)->out[0].dtype)};
  const td_tensor *rates = td_in(c, 1);
  for (int64_t i = 0; i < td_tensor_count(rates); i++) {
    double rate = td_tensor_get_f(rates, i);
    if (rate >= 0 && rate <= fmin(j.most, 0x1p53)) continue;
    return td_error(TD_INVALID_ARGUMENT,
                    "rate must be from 0 to %g for a result of %s; element "
                    "%lld is %g",
                    fmin(j.most, 0x1p53),
                    td_dtype_name(td_ctx_node(c)->out[0].dtype), (long long)i,
                    rate);
  }
  return run(c, &j, fill_poisson);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "RandomGamma",
     .sig = "shape: S, alpha: T -> output: T; seed: int = 0; seed2: int = 0; "
            "S: {int32, int64}; T: {half, float, double}",
     .shape = infer,
     .doc = "Numbers of the gamma distribution with rate 1, of that shape for "
            "each alpha.",
     .lua = "",
     .flags = TD_STATEFUL,
     .host = "shape",
     .section = "Random"},
    {.type = "RandomPoissonV2",
     .sig = "shape: S, rate: R -> output: dtype; seed: int = 0; "
            "seed2: int = 0; S: {int32, int64}; "
            "R: {half, float, double, int32, int64} = double; "
            "dtype: {half, float, double, int32, int64} = int64",
     .shape = infer,
     .doc = "Numbers of the Poisson distribution, of that shape for each rate.",
     .lua = "",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .host = "shape",
     .section = "Random"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "RandomGamma", .device = "CPU", TD_RANDOM_STREAM, .run = gamma_run},
    {.op = "RandomPoissonV2",
     .device = "CPU",
     TD_RANDOM_STREAM,
     .run = poisson_run},
    {0},
};

TD_MODULE(random_gamma, ops, kernels)
