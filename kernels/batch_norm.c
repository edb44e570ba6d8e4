/* batch_norm.c - FusedBatchNorm and its gradient, in training and after it.
 *
 * Ioffe and Szegedy (2015). In training y = (x - mean) / sqrt(variance +
 * epsilon) scale + offset with the mean and the biased variance of the batch,
 * which are saved for the gradient; what is given out for moving averages is
 * the variance corrected for the number of elements, n / (n - 1).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/batch_norm.h"

#include <math.h>
#include <string.h>

#include "kernels/batch_norm_plan.h"
#include "kernels/cost.h"
#include "kernels/half_copy.h"

/* ---- shapes -------------------------------------------------------------- */

static int channel_axis(const char *format, int rank) {
  return format[1] == 'C' ? 1 : rank - 1;
}

static td_status *check_rank(const td_shape *x, const char *what, bool volume) {
  td_shape_text text;
  if (x->rank < 0 || x->rank == 4 || (volume && x->rank == 5)) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be of rank %s, not %s", what,
                  volume ? "4 or 5" : "4", td_shape_str(x, &text));
}

/* Input i is a vector with an element for each channel; *channels may be -1,
 * and is set to what it says. */
static td_status *check_vector(const td_shape *s, const char *what,
                               int64_t *channels) {
  td_shape_text text;
  bool fits = s->rank < 0 || (s->rank == 1 && (s->dim[0] < 0 || *channels < 0 ||
                                               s->dim[0] == *channels));
  if (fits) {
    if (s->rank == 1 && s->dim[0] >= 0) *channels = s->dim[0];
    return NULL;
  }
  if (*channels < 0)
    return td_error(TD_INVALID_ARGUMENT, "%s must be a vector, not %s", what,
                    td_shape_str(s, &text));
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must have an element for each of %lld channels, not be "
                  "of shape %s",
                  what, (long long)*channels, td_shape_str(s, &text));
}

/* A mean or variance that only inference and moving averages look at. */
static td_status *check_moving(const td_shape *s, const char *what, bool used,
                               int64_t *channels) {
  int64_t any = -1;
  return check_vector(s, what, used ? channels : &any);
}

static bool looks_at_moving(bool training, float factor) {
  return !training || factor != 1.0f;
}

static bool takes_volumes(int outputs) {
  return outputs == 6;
}

/* The last result, which only GPUs use: what oneDNN's kernel, of images, and
 * TensorFlow's own give differ. */
td_shape td_batch_norm_reserved(td_dtype t, int rank) {
  if (rank < 0) return td_shape_unknown();
  return rank == 4 && t != TD_FLOAT16 ? td_shape_vector(0) : td_shape_scalar();
}

static td_status *infer_forward(td_infer *c) {
  static const char *const names[] = {"x", "scale", "offset", "mean",
                                      "variance"};
  td_shape x = *td_infer_in(c, 0);
  bool used = looks_at_moving(td_infer_bool(c, "is_training"),
                              td_infer_float(c, "exponential_avg_factor"));
  TD_TRY(check_rank(&x, "x", takes_volumes(td_infer_outputs(c))));
  int axis = channel_axis(td_infer_string(c, "data_format"), x.rank);
  int64_t channels = x.rank < 0 ? -1 : x.dim[axis];
  for (int i = 1; i < 3; i++)
    TD_TRY(check_vector(td_infer_in(c, i), names[i], &channels));
  for (int i = 3; i < 5; i++)
    TD_TRY(check_moving(td_infer_in(c, i), names[i], used, &channels));
  if (x.rank >= 0) x.dim[axis] = channels;
  td_infer_out(c, 0, x);
  for (int i = 1; i < 5; i++) td_infer_out(c, i, td_shape_of(1, &channels));
  if (td_infer_outputs(c) > 5)
    td_infer_out(c, 5, td_batch_norm_reserved(td_infer_type(c, "T"), x.rank));
  return NULL;
}

static td_status *infer_grad(td_infer *c) {
  static const char *const names[] = {"y_backprop", "x", "scale",
                                      "reserve_space_1", "reserve_space_2"};
  td_shape x;
  td_shape_text a, b;
  if (!td_shape_merge(td_infer_in(c, 0), td_infer_in(c, 1), &x))
    return td_error(TD_INVALID_ARGUMENT,
                    "y_backprop %s and x %s must be of one shape",
                    td_shape_str(td_infer_in(c, 0), &a),
                    td_shape_str(td_infer_in(c, 1), &b));
  TD_TRY(check_rank(&x, "x", td_infer_inputs(c) == 6));
  int axis = channel_axis(td_infer_string(c, "data_format"), x.rank);
  int64_t channels = x.rank < 0 ? -1 : x.dim[axis];
  for (int i = 2; i < 5; i++)
    TD_TRY(check_vector(td_infer_in(c, i), names[i], &channels));
  if (x.rank >= 0) x.dim[axis] = channels;
  td_infer_out(c, 0, x);
  for (int i = 1; i < 3; i++) td_infer_out(c, i, td_shape_of(1, &channels));
  for (int i = 3; i < 5; i++) td_infer_out(c, i, td_shape_vector(0));
  return NULL;
}

/* ---- one run ------------------------------------------------------------- */

typedef struct job {
  td_batch_norm b;
  td_batch_norm_view v;
  double n; /* elements of a channel */
  double epsilon;
  bool training;
  td_tensor *y;
  td_tensor held[3]; /* float copies: x, dy, the result */
} job;

static td_status *read_view(const td_kernel_ctx *c, const td_shape *x,
                            bool volume, td_batch_norm_plan *p) {
  const td_node *node = td_ctx_node(c);
  TD_TRY(check_rank(x, "x", volume));
  int axis = channel_axis(td_node_string(node, "data_format"), x->rank);
  p->outer = td_shape_span(x, 0, axis);
  p->channels = x->dim[axis];
  p->inner = td_shape_span(x, axis + 1, x->rank);
  p->epsilon = (double)td_node_float(node, "epsilon");
  p->training = td_node_bool(node, "is_training");
  return NULL;
}

td_status *td_batch_norm_forward_of(const td_kernel_ctx *c,
                                    td_batch_norm_plan *p) {
  static const char *const names[] = {"x", "scale", "offset", "mean",
                                      "variance"};
  TD_TRY(read_view(c, &td_in(c, 0)->shape, takes_volumes(c->n_out), p));
  int64_t channels = p->channels;
  p->factor = td_node_float(td_ctx_node(c), "exponential_avg_factor");
  bool used = looks_at_moving(p->training, p->factor);
  for (int i = 1; i < 5; i++) {
    const td_shape *s = &td_in(c, i)->shape;
    TD_TRY(check_moving(s, names[i], used || i < 3, &channels));
  }
  return NULL;
}

td_status *td_batch_norm_grad_of(const td_kernel_ctx *c,
                                 td_batch_norm_plan *p) {
  static const char *const names[] = {"y_backprop", "x", "scale",
                                      "reserve_space_1", "reserve_space_2"};
  const td_shape *dy = &td_in(c, 0)->shape, *x = &td_in(c, 1)->shape;
  td_shape_text a, b;
  if (!td_shape_equal(dy, x))
    return td_error(TD_INVALID_ARGUMENT,
                    "y_backprop %s and x %s must be of one shape",
                    td_shape_str(dy, &a), td_shape_str(x, &b));
  TD_TRY(read_view(c, x, c->n_in == 6, p));
  int64_t channels = p->channels;
  for (int i = 2; i < 5; i++)
    TD_TRY(check_vector(&td_in(c, i)->shape, names[i], &channels));
  return NULL;
}

static void set_plan(job *j, const td_batch_norm_plan *p) {
  j->v = (td_batch_norm_view){p->outer, p->channels, p->inner};
  j->n = (double)p->outer * (double)p->inner;
  j->epsilon = p->epsilon;
  j->training = p->training;
}

static td_status *seen(td_kernel_ctx *c, int i, td_tensor *held,
                       const float **to) {
  const td_tensor *t = td_in(c, i);
  if (td_is_half(t->dtype)) {
    TD_TRY(td_half_copy_widen(c, t, held));
    t = held;
  }
  *to = t->data;
  return NULL;
}

/* Output 0, in the memory of input `in` where it may be. */
static td_status *begin(td_kernel_ctx *c, job *j, int in) {
  const td_shape *shape = &td_in(c, in)->shape;
  bool half = td_is_half(td_in(c, in)->dtype);
  if (half) TD_TRY(td_temp(c, TD_FLOAT32, shape, &j->held[2]));
  TD_TRY(td_out_forward(c, 0, shape, half ? -1 : in, -1, &j->y));
  j->b.to = half ? j->held[2].data : j->y->data;
  return td_batch_norm_begin(c, &j->v, &j->b);
}

static td_status *end(td_kernel_ctx *c, job *j, td_status *s) {
  if (td_ok(s) && td_is_half(j->y->dtype))
    td_half_copy_narrow(c, j->held[2].data, j->y);
  td_batch_norm_end(&j->b);
  for (size_t i = 0; i < TD_COUNT(j->held); i++) td_tensor_release(&j->held[i]);
  return s;
}

static const float *vector_in(const td_kernel_ctx *c, int i) {
  return td_in(c, i)->data;
}

static td_status *vector_out(td_kernel_ctx *c, int i, int64_t n, float **to) {
  td_shape shape = td_shape_vector(n);
  td_tensor *t;
  TD_TRY(td_out(c, i, &shape, &t));
  *to = t->data;
  return NULL;
}

/* ---- forward ------------------------------------------------------------- */

typedef struct outputs {
  float *mean, *variance, *saved_mean, *saved_variance;
} outputs;

/* Field 0 becomes the mean of each channel, sum[1] its biased variance. */
static td_status *moments(td_kernel_ctx *c, job *j, const outputs *o) {
  td_batch_norm *b = &j->b;
  double n = j->n > 0 ? j->n : 1;
  TD_TRY(td_batch_norm_sums(c, b));
  for (int64_t i = 0; i < j->v.channels; i++) {
    o->saved_mean[i] = (float)(b->sum[0][i] / n);
    td_batch_norm_set(b, 0, i, o->saved_mean[i]);
  }
  TD_TRY(td_batch_norm_squares(c, b));
  for (int64_t i = 0; i < j->v.channels; i++)
    o->saved_variance[i] = (float)(b->sum[0][i] / n);
  return NULL;
}

/* What moving averages take; of no elements it is not a number. */
static void average(const td_kernel_ctx *c, const job *j, const outputs *o) {
  float factor = td_node_float(td_ctx_node(c), "exponential_avg_factor");
  float rest = 1.0f - factor;
  double more = j->n > 1 ? j->n / (j->n - 1) : 1;
  for (int64_t i = 0; i < j->v.channels; i++) {
    float mean = o->saved_mean[i];
    float variance = (float)((double)o->saved_variance[i] * more);
    if (factor != 1.0f) {
      mean = rest * vector_in(c, 3)[i] + factor * mean;
      variance = rest * vector_in(c, 4)[i] + factor * variance;
    }
    o->mean[i] = j->n > 0 ? mean : NAN;
    o->variance[i] = j->n > 0 ? variance : NAN;
  }
}

/* Nothing is saved outside training: the gradient takes mean and variance. */
static void echo(const td_kernel_ctx *c, job *j, const outputs *o) {
  for (int64_t i = 0; i < j->v.channels; i++) {
    o->mean[i] = j->n > 0 ? vector_in(c, 3)[i] : NAN;
    o->variance[i] = j->n > 0 ? vector_in(c, 4)[i] : NAN;
    o->saved_mean[i] = o->saved_variance[i] = 0;
    td_batch_norm_set(&j->b, 0, i, vector_in(c, 3)[i]);
  }
}

static td_status *normalise(td_kernel_ctx *c, job *j, const outputs *o) {
  const float *variance = j->training ? o->saved_variance : vector_in(c, 4);
  if (j->training)
    TD_TRY(moments(c, j, o));
  else
    echo(c, j, o);
  for (int64_t i = 0; i < j->v.channels; i++) {
    double scale = (double)vector_in(c, 1)[i];
    scale /= sqrt((double)variance[i] + j->epsilon);
    td_batch_norm_set(&j->b, 1, i, (float)scale);
    td_batch_norm_set(&j->b, 2, i, vector_in(c, 2)[i]);
  }
  if (j->training) average(c, j, o);
  td_batch_norm_apply(c, &j->b);
  return NULL;
}

static td_status *make_outputs(td_kernel_ctx *c, int64_t n, outputs *o) {
  td_shape none =
      td_batch_norm_reserved(td_in(c, 0)->dtype, td_in(c, 0)->shape.rank);
  td_tensor *t;
  TD_TRY(vector_out(c, 1, n, &o->mean));
  TD_TRY(vector_out(c, 2, n, &o->variance));
  TD_TRY(vector_out(c, 3, n, &o->saved_mean));
  TD_TRY(vector_out(c, 4, n, &o->saved_variance));
  if (c->n_out < 6) return NULL;
  TD_TRY(td_out(c, 5, &none, &t));
  memset(t->data, 0, td_tensor_bytes(t));
  return NULL;
}

static td_status *run_forward(td_kernel_ctx *c) {
  td_batch_norm_plan p;
  job j = {0};
  outputs o;
  TD_TRY(td_batch_norm_forward_of(c, &p));
  set_plan(&j, &p);
  TD_TRY(make_outputs(c, p.channels, &o));
  td_status *s = seen(c, 0, &j.held[0], &j.b.x);
  if (td_ok(s)) s = begin(c, &j, 0);
  if (td_ok(s)) s = normalise(c, &j, &o);
  return end(c, &j, s);
}

/* ---- gradient ------------------------------------------------------------ */

/* dx = scale r (dy - mean(dy) - (x - mean) r^2 mean(dy (x - mean))), r being
 * 1 / sqrt(variance + epsilon); outside training scale r dy. */
static td_status *back(td_kernel_ctx *c, job *j, float *dscale,
                       float *doffset) {
  td_batch_norm *b = &j->b;
  for (int64_t i = 0; i < j->v.channels; i++)
    td_batch_norm_set(b, 0, i, vector_in(c, 3)[i]);
  TD_TRY(td_batch_norm_dots(c, b));
  for (int64_t i = 0; i < j->v.channels; i++) {
    double n = j->n > 0 ? j->n : 1;
    double r = 1 / sqrt((double)vector_in(c, 4)[i] + j->epsilon);
    double scale = (double)vector_in(c, 2)[i] * r;
    doffset[i] = (float)b->sum[0][i];
    dscale[i] = (float)(b->sum[1][i] * r);
    td_batch_norm_set(b, 1, i, (float)scale);
    td_batch_norm_set(b, 2, i, j->training ? (float)(b->sum[0][i] / n) : 0);
    if (j->training)
      td_batch_norm_set(b, 3, i, (float)(b->sum[1][i] * r * r / n));
    else
      td_batch_norm_set(b, 0, i, 0);
  }
  if (j->training) {
    td_batch_norm_back(c, b);
  } else {
    b->x = b->dy;
    td_batch_norm_apply(c, b);
  }
  return NULL;
}

static td_status *run_grad(td_kernel_ctx *c) {
  td_batch_norm_plan p;
  job j = {0};
  float *dscale, *doffset, *none;
  TD_TRY(td_batch_norm_grad_of(c, &p));
  set_plan(&j, &p);
  TD_TRY(vector_out(c, 1, p.channels, &dscale));
  TD_TRY(vector_out(c, 2, p.channels, &doffset));
  TD_TRY(vector_out(c, 3, 0, &none));
  TD_TRY(vector_out(c, 4, 0, &none));
  td_status *s = seen(c, 1, &j.held[0], &j.b.x);
  if (td_ok(s)) s = seen(c, 0, &j.held[1], &j.b.dy);
  if (td_ok(s)) s = begin(c, &j, 0);
  if (td_ok(s)) s = back(c, &j, dscale, doffset);
  return end(c, &j, s);
}

/* ---- cost -----------------------------------------------------------------
 */

/* A scale and a shift; in training sums of x and of squared distances before.
 */
static void forward_cost(td_infer *c, td_cost *cost) {
  td_cost_per_input(c, cost, td_infer_bool(c, "is_training") ? 6 : 2, 0);
}

/* Two sums over the batch, and what they say of each element. */
TD_COST_INPUT(grad_cost, 9, 0)

/* ---- rows ---------------------------------------------------------------- */

/* clang-format off */
#define SECTION "Neural-network building blocks"
#define EPSILON "epsilon: float = 9.999999747378752e-05; "
#define FACTOR "exponential_avg_factor: float = 1.0; "
#define FORMAT "data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; " \
  "is_training: bool = true"
#define FORMAT_V3 "data_format: {\"NHWC\", \"NCHW\", \"NDHWC\", \"NCDHW\"} " \
  "= \"NHWC\"; is_training: bool = true"
#define MIXED "; T: {half, bfloat16, float}; U: {float}; "
#define MIXED_V3 "; T: {half, bfloat16, float}; U: {bfloat16, float}; "
#define FORWARD(U) "x: T, scale: " U ", offset: " U ", mean: " U \
  ", variance: " U " -> y: T, batch_mean: " U ", batch_variance: " U \
  ", reserve_space_1: " U ", reserve_space_2: " U
#define BACKWARD(S, U, more, a, b) "y_backprop: T, x: T, scale: " S \
  ", reserve_space_1: " U ", reserve_space_2: " U more \
  " -> x_backprop: T, scale_backprop: " U ", offset_backprop: " U \
  ", reserve_space_" a ": " U ", reserve_space_" b ": " U
/* clang-format on */

static const td_op_def ops[] = {
    {.type = "FusedBatchNorm",
     .sig = FORWARD("T") "; T: {float}; " EPSILON FACTOR FORMAT,
     .shape = infer_forward,
     .cost = forward_cost,
     .doc = "Batch normalisation of float images.",
     .lua = "",
     .flags = TD_IN_PLACE,
     .section = SECTION},
    {.type = "FusedBatchNormV2",
     .sig = FORWARD("U") MIXED EPSILON FACTOR FORMAT,
     .shape = infer_forward,
     .cost = forward_cost,
     .doc = "Batch normalisation of images of any float dtype.",
     .lua = "",
     .flags = TD_IN_PLACE,
     .section = SECTION},
    {.type = "FusedBatchNormV3",
     .sig =
         FORWARD("U") ", reserve_space_3: U" MIXED_V3 EPSILON FACTOR FORMAT_V3,
     .shape = infer_forward,
     .cost = forward_cost,
     .doc = "Batch normalisation of images and volumes.",
     .lua = "fused_batch_norm",
     .flags = TD_IN_PLACE,
     .section = SECTION},
    {.type = "FusedBatchNormGrad",
     .sig = BACKWARD("T", "T", "", "3", "4") "; T: {float}; " EPSILON FORMAT,
     .shape = infer_grad,
     .cost = grad_cost,
     .doc = "Gradient of FusedBatchNorm.",
     .lua = "",
     .section = SECTION},
    {.type = "FusedBatchNormGradV2",
     .sig = BACKWARD("float", "U", "", "3", "4") MIXED EPSILON FORMAT,
     .shape = infer_grad,
     .cost = grad_cost,
     .doc = "Gradient of FusedBatchNormV2.",
     .lua = "",
     .section = SECTION},
    {.type = "FusedBatchNormGradV3",
     .sig = BACKWARD("float", "U", ", reserve_space_3: U", "4", "5")
         MIXED EPSILON FORMAT_V3,
     .shape = infer_grad,
     .cost = grad_cost,
     .doc = "Gradient of FusedBatchNormV3.",
     .lua = "",
     .section = SECTION},
    {0},
};

#define MIXED_TYPES "T=half|bfloat16|float, U=float"

static const td_kernel_def kernels[] = {
    {.op = "FusedBatchNorm", .device = "CPU", .run = run_forward},
    {.op = "FusedBatchNormV2",
     .device = "CPU",
     .types = MIXED_TYPES,
     .run = run_forward},
    {.op = "FusedBatchNormV3",
     .device = "CPU",
     .types = MIXED_TYPES,
     .run = run_forward},
    {.op = "FusedBatchNormGrad", .device = "CPU", .run = run_grad},
    {.op = "FusedBatchNormGradV2",
     .device = "CPU",
     .types = MIXED_TYPES,
     .run = run_grad},
    {.op = "FusedBatchNormGradV3",
     .device = "CPU",
     .types = MIXED_TYPES,
     .run = run_grad},
    {0},
};

TD_MODULE(batch_norm, ops, kernels)
