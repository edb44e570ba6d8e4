/* random_parameterized.c - ParameterizedTruncatedNormal: normal numbers between
 * bounds, by whichever of three rejections accepts most.
 *
 * The first axis of the result counts batches, which may each have parameters
 * of their own; with one set for all, batches are made of a hundred. A batch
 * begins at its own place in the stream, far enough from the last for all tries
 * that one may take, and is drawn on one thread.
 * Source: Robert, "Simulation of truncated normal variables", 1995.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/operand.h"
#include "kernels/cpu.h"
#include "kernels/random.h"

enum { TRIES = 1000, DESIRED = 100 };

typedef struct job {
  td_tensor *out;
  const td_tensor *parameter[4]; /* means, stdevs, minvals, maxvals */
  int64_t count, each;           /* elements; of a batch */
  td_philox base;
} job;

/* One batch. */
typedef struct batch {
  td_philox p;
  td_dtype dtype;         /* every step is rounded to it */
  int n;                  /* numbers from a block: 2 or 4 */
  double mean, deviation; /* negative: turned round */
  double low, high;       /* bounds as deviations from the mean */
  td_tensor *out;
  int64_t at, end;
  int tries;
} batch;

static const td_random_table *table(void) {
  td_isa isa = td_cpu_isa();
  if (isa == TD_AVX512) return &td_random_avx512;
  return isa == TD_AVX2 ? &td_random_avx2 : &td_random_scalar;
}

/* ---- numbers ------------------------------------------------------------- */

static double rounded(const batch *b, double x) {
  if (b->dtype == TD_FLOAT64) return x;
  if (b->dtype == TD_FLOAT32) return (double)(float)x;
  return (double)td_float_from_half(td_float_to_half((float)x));
}

static void uniforms(batch *b, double *to) {
  uint32_t words[4];
  td_philox_next(&b->p, words);
  for (int i = 0; i < b->n; i++)
    if (b->dtype == TD_FLOAT64)
      to[i] = td_random_double(words + 2 * i);
    else if (b->dtype == TD_FLOAT32)
      to[i] = (double)(words[i] & 0x7fffff) * 0x1p-23;
    else
      to[i] = (double)(words[i] & 0x3ff) * 0x1p-10;
}

static void normals(batch *b, double *to) {
  uint32_t words[4];
  float x[4];
  td_philox_next(&b->p, words);
  if (b->dtype == TD_FLOAT64) {
    td_random_normals(words, to);
    return;
  }
  table()->normal(2, words, x);
  for (int i = 0; i < 4; i++) to[i] = rounded(b, (double)x[i]);
}

/* Takes z, or counts the try; after too many the last one is taken all the
 * same. */
static void offer(batch *b, double z, bool fits) {
  if (!fits && ++b->tries < TRIES) return;
  td_tensor_set_f(b->out, b->at++,
                  rounded(b, rounded(b, z * b->deviation) + b->mean));
  b->tries = 0;
}

/* ---- the three ways ------------------------------------------------------ */

static void reject_normal(batch *b) {
  double z[4];
  while (b->at < b->end) {
    normals(b, z);
    for (int i = 0; i < b->n && b->at < b->end; i++)
      offer(b, fmin(fmax(z[i], b->low), b->high),
            z[i] >= b->low && z[i] <= b->high);
  }
}

static void reject_uniform(batch *b) {
  double top = b->low < 0 ? 0 : rounded(b, b->low * b->low);
  double z[4], u[4], width = rounded(b, b->high - b->low);
  while (b->at < b->end) {
    uniforms(b, z);
    uniforms(b, u);
    for (int i = 0; i < b->n && b->at < b->end; i++) {
      double x = rounded(b, rounded(b, z[i] * width) + b->low);
      double g = rounded(b, rounded(b, top - rounded(b, x * x)) / 2);
      offer(b, x, u[i] <= rounded(b, exp(g)));
    }
  }
}

static void reject_exponential(batch *b) {
  double square = rounded(b, rounded(b, b->low * b->low) + 4);
  double alpha = rounded(b, (b->low + rounded(b, sqrt(square))) / 2), u[4];
  while (b->at < b->end) {
    uniforms(b, u);
    for (int i = 0; i < b->n && b->at < b->end; i += 2) {
      double z =
          rounded(b, rounded(b, -rounded(b, log(u[i])) / alpha) + b->low);
      double x = rounded(b, b->low < alpha ? alpha - z : b->low - alpha);
      double g = rounded(b, exp(rounded(b, -x * x) / 2));
      offer(b, fmin(z, b->high), u[i + 1] <= g && z < b->high);
    }
  }
}

/* The largest width at which the uniform way accepts more than the other. */
static double cutoff(double low) {
  double root = sqrt(low * low + 4);
  return 2 * exp(0.5 + low * (low - root) / 4) / (low + root);
}

static void draw(batch *b) {
  const double inside = 1.3; /* deviations that make plain rejection best */
  if ((b->low < -inside && b->high >= 0) || (b->high > inside && b->low <= 0))
    reject_normal(b);
  else if (b->high - b->low < cutoff(b->low))
    reject_uniform(b);
  else
    reject_exponential(b);
}

/* ---- batches ------------------------------------------------------------- */

static double parameter(const job *j, int k, int64_t i) {
  const td_tensor *t = j->parameter[k];
  return td_tensor_get_f(t, td_tensor_count(t) == 1 ? 0 : i);
}

static void fill(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t i = begin; i < end; i++) {
    batch b = {.p = j->base,
               .dtype = j->out->dtype,
               .n = td_random_group(j->out->dtype),
               .mean = parameter(j, 0, i),
               .deviation = parameter(j, 1, i),
               .out = j->out,
               .at = i * j->each};
    double low = parameter(j, 2, i), high = parameter(j, 3, i);
    td_philox_skip(&b.p, (uint64_t)i * 2 * TRIES * ((uint64_t)j->each + 3) / 4);
    b.end = b.at + j->each < j->count ? b.at + j->each : j->count;
    if ((isinf(low) && low < 0) || high < b.mean) {
      double was = low;
      low = high;
      high = was;
      b.deviation = -b.deviation;
    }
    b.low = rounded(&b, rounded(&b, low - b.mean) / b.deviation);
    b.high = rounded(&b, rounded(&b, high - b.mean) / b.deviation);
    draw(&b);
  }
}

static td_status *check_values(const job *j, int64_t batches) {
  for (int64_t i = 0; i < batches; i++) {
    double mean = parameter(j, 0, i), deviation = parameter(j, 1, i);
    double low = parameter(j, 2, i), high = parameter(j, 3, i);
    if (isfinite(mean) && isfinite(deviation) && deviation > 0 && low < high &&
        (isfinite(low) || isfinite(high)))
      continue;
    return td_error(TD_INVALID_ARGUMENT,
                    "stdevs must be above 0 and minvals below maxvals, one of "
                    "them finite; batch %lld has mean %g, deviation %g, bounds "
                    "%g and %g",
                    (long long)i, mean, deviation, low, high);
  }
  return NULL;
}

/* ---- running ------------------------------------------------------------- */

static const char *const names[] = {"means", "stdevs", "minvals", "maxvals"};

static td_status *check_parameter(const td_shape *s, int k, int64_t batches) {
  td_shape_text text;
  if (s->rank <= 0 || (s->rank == 1 && (s->dim[0] < 0 || s->dim[0] == 1 ||
                                        batches < 0 || s->dim[0] == batches)))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be a scalar, or a number for each of the %lld "
                  "batches, not of shape %s",
                  names[k], (long long)batches, td_shape_str(s, &text));
}

static td_status *infer(td_infer *c) {
  td_shape shape;
  td_shape_text text;
  TD_TRY(td_random_infer(c));
  TD_TRY(td_infer_shape_from(c, 0, &shape));
  if (shape.rank == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "shape must have at least one size, not %s",
                    td_shape_str(&shape, &text));
  for (int k = 0; k < 4; k++)
    TD_TRY(check_parameter(td_infer_in(c, k + 1), k,
                           shape.rank > 0 ? shape.dim[0] : -1));
  return NULL;
}

static td_status *run(td_kernel_ctx *c) {
  td_shape shape;
  job j = {0};
  bool one = true;
  TD_TRY(td_operand_shape(td_in(c, 0), "shape", &shape));
  if (shape.rank == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "shape must have at least one size, not none");
  for (int k = 0; k < 4; k++) {
    j.parameter[k] = td_in(c, k + 1);
    TD_TRY(check_parameter(&j.parameter[k]->shape, k, shape.dim[0]));
    one &= j.parameter[k]->shape.rank == 0;
  }
  TD_TRY(td_out(c, 0, &shape, &j.out));
  j.count = td_tensor_count(j.out);
  if (j.count == 0) return NULL;
  int64_t batches = one ? (j.count + DESIRED - 1) / DESIRED : shape.dim[0];
  j.each = one ? DESIRED : j.count / batches;
  TD_TRY(check_values(&j, one ? 1 : batches));
  j.base = td_random_reserve(c, (uint64_t)batches * 2 * TRIES *
                                    ((uint64_t)j.each + 3) / 4);
  td_for(c, batches,
         j.each < TD_GRAIN_COSTLY / 8 ? TD_GRAIN_COSTLY / 8 / j.each : 1, fill,
         &j);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "ParameterizedTruncatedNormal",
     .sig = "shape: T, means: dtype, stdevs: dtype, minvals: dtype, "
            "maxvals: dtype -> output: dtype; seed: int = 0; seed2: int = 0; "
            "dtype: {half, bfloat16, float, double}; T: {int32, int64}",
     .shape = infer,
     .doc = "Normally distributed numbers between minvals and maxvals, with "
            "parameters for each batch along the first axis.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .host = "shape",
     .section = "Random"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ParameterizedTruncatedNormal",
     .device = "CPU",
     .types = "dtype=half|float|double",
     TD_RANDOM_STREAM,
     .run = run},
    {0},
};

TD_MODULE(random_parameterized, ops, kernels)
