/* batch_norm_global.c - BatchNormWithGlobalNormalization, which old frozen
 * graphs hold, and its gradient.
 *
 * y = (t - m) / sqrt(v + variance_epsilon) gamma + beta with a mean, variance,
 * shift and scale for each channel; gamma has no part unless
 * scale_after_normalization is set. Everything is computed in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/batch_norm_plan.h"
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/element.h"

typedef struct job {
  const td_tensor *t, *m, *v, *beta, *gamma, *dy;
  td_tensor *to;
  double epsilon;
  bool scale;
  int64_t channels;
} job;

static double at(const td_tensor *t, int64_t i) {
  return td_tensor_get_f(t, i);
}

static double slope(const job *j, int64_t c) {
  double r = 1 / sqrt(at(j->v, c) + j->epsilon);
  return j->scale ? r * at(j->gamma, c) : r;
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *check(const td_shape *t, const td_shape *const *vectors,
                        int n) {
  td_shape_text text, of;
  td_shape four = td_shape_ranked(4);
  if (!td_shape_compatible(t, &four))
    return td_error(TD_INVALID_ARGUMENT, "t must be of rank 4, not %s",
                    td_shape_str(t, &text));
  td_shape each = td_shape_vector(t->rank == 4 ? t->dim[3] : -1);
  for (int i = 0; i < n; i++)
    if (!td_shape_compatible(vectors[i], &each))
      return td_error(TD_INVALID_ARGUMENT,
                      "m, v, beta and gamma must have an element for each "
                      "channel of %s, not be of shape %s",
                      td_shape_str(t, &of), td_shape_str(vectors[i], &text));
  return NULL;
}

static td_status *infer(td_infer *c) {
  const td_shape *vectors[4];
  for (int i = 0; i < 4; i++) vectors[i] = td_infer_in(c, i + 1);
  TD_TRY(check(td_infer_in(c, 0), vectors, 4));
  td_infer_out(c, 0, *td_infer_in(c, 0));
  return NULL;
}

static td_status *infer_grad(td_infer *c) {
  const td_shape *vectors[3], *t = td_infer_in(c, 0), *dy = td_infer_in(c, 4);
  td_shape_text a, b;
  for (int i = 0; i < 3; i++) vectors[i] = td_infer_in(c, i + 1);
  TD_TRY(check(t, vectors, 3));
  if (!td_shape_compatible(t, dy))
    return td_error(TD_INVALID_ARGUMENT,
                    "backprop %s and t %s must be of one shape",
                    td_shape_str(dy, &a), td_shape_str(t, &b));
  int64_t channels = t->rank == 4 ? t->dim[3] : -1;
  td_infer_out(c, 0, *t);
  for (int i = 1; i < 5; i++) td_infer_out(c, i, td_shape_of(1, &channels));
  return NULL;
}

/* ---- forward ------------------------------------------------------------- */

static job job_of(const td_kernel_ctx *c, int gamma) {
  const td_node *n = td_ctx_node(c);
  return (job){.t = td_in(c, 0),
               .m = td_in(c, 1),
               .v = td_in(c, 2),
               .gamma = td_in(c, gamma),
               .epsilon = (double)td_node_float(n, "variance_epsilon"),
               .scale = td_node_bool(n, "scale_after_normalization"),
               .channels = td_in(c, 0)->shape.dim[3]};
}

static void forward(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  for (int64_t c = begin; c < end; c++) {
    double k = slope(j, c), m = at(j->m, c), beta = at(j->beta, c);
    for (int64_t i = c; i < td_tensor_count(j->t); i += j->channels)
      td_tensor_set_f(j->to, i, (at(j->t, i) - m) * k + beta);
  }
}

td_status *td_batch_norm_global_of(const td_kernel_ctx *c, bool gradient) {
  const td_shape *vectors[4], *t = &td_in(c, 0)->shape;
  td_shape_text is, want;
  for (int i = 0; i < 4; i++) vectors[i] = &td_in(c, i + 1)->shape;
  TD_TRY(check(t, vectors, gradient ? 3 : 4));
  if (!gradient || td_shape_equal(vectors[3], t)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "backprop %s and t %s must be of one shape",
                  td_shape_str(vectors[3], &is), td_shape_str(t, &want));
}

static td_status *run(td_kernel_ctx *c) {
  TD_TRY(td_batch_norm_global_of(c, false));
  job j = job_of(c, 4);
  j.beta = td_in(c, 3);
  TD_TRY(td_out(c, 0, &j.t->shape, &j.to));
  int64_t n = td_tensor_count(j.t);
  if (n > 0) td_for(c, j.channels, td_grain_of(n / j.channels), forward, &j);
  return NULL;
}

/* ---- gradient ------------------------------------------------------------ */

typedef struct back_job {
  job j;
  td_tensor *dm, *dv, *dbeta, *dgamma;
} back_job;

static void backward(void *arg, int64_t begin, int64_t end) {
  const back_job *b = arg;
  const job *j = &b->j;
  for (int64_t c = begin; c < end; c++) {
    double k = slope(j, c), m = at(j->m, c), sum = 0, dot = 0;
    double inverse = 1 / (at(j->v, c) + j->epsilon);
    for (int64_t i = c; i < td_tensor_count(j->t); i += j->channels) {
      double dy = at(j->dy, i);
      sum += dy;
      dot += dy * (at(j->t, i) - m);
      td_tensor_set_f(j->to, i, dy * k);
    }
    td_tensor_set_f(b->dm, c, -sum * k);
    td_tensor_set_f(b->dv, c, -0.5 * dot * k * inverse);
    td_tensor_set_f(b->dbeta, c, sum);
    td_tensor_set_f(b->dgamma, c, j->scale ? dot * sqrt(inverse) : 0);
  }
}

static td_status *run_grad(td_kernel_ctx *c) {
  TD_TRY(td_batch_norm_global_of(c, true));
  const td_shape *vector = &td_in(c, 1)->shape;
  back_job b = {.j = job_of(c, 3)};
  b.j.dy = td_in(c, 4);
  td_tensor **outs[] = {&b.dm, &b.dv, &b.dbeta, &b.dgamma};
  TD_TRY(td_out(c, 0, &b.j.t->shape, &b.j.to));
  for (int i = 0; i < 4; i++) TD_TRY(td_out(c, i + 1, vector, outs[i]));
  int64_t n = td_tensor_count(b.j.t),
          each = b.j.channels ? n / b.j.channels : 0;
  td_for(c, b.j.channels, td_grain_of(each), backward, &b);
  return NULL;
}

/* ---- cost -----------------------------------------------------------------
 */

/* A scale and a shift; and two sums over the batch. */
TD_COST_INPUT(scale_cost, 2, 0)
TD_COST_INPUT(scale_grad_cost, 6, 0)

/* ---- rows ---------------------------------------------------------------- */

/* clang-format off */
#define ATTRS "; T: {float, double, int32, uint8, int16, int8, complex64, " \
  "int64, qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, " \
  "complex128, half, uint32, uint64}; variance_epsilon: float; " \
  "scale_after_normalization: bool"
/* clang-format on */

static const td_op_def ops[] = {
    {.type = "BatchNormWithGlobalNormalization",
     .sig = "t: T, m: T, v: T, beta: T, gamma: T -> result: T" ATTRS,
     .shape = infer,
     .cost = scale_cost,
     .doc = "Normalisation of images by given moments, as in old graphs.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {.type = "BatchNormWithGlobalNormalizationGrad",
     .sig = "t: T, m: T, v: T, gamma: T, backprop: T -> dx: T, dm: T, dv: T, "
            "db: T, dg: T" ATTRS,
     .shape = infer_grad,
     .cost = scale_grad_cost,
     .doc = "Gradient of BatchNormWithGlobalNormalization.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "BatchNormWithGlobalNormalization",
     .device = "CPU",
     .types = TYPES_FLOATS,
     .run = run},
    {.op = "BatchNormWithGlobalNormalizationGrad",
     .device = "CPU",
     .types = TYPES_FLOATS,
     .run = run_grad},
    {0},
};

TD_MODULE(batch_norm_global, ops, kernels)
