/* lrn.c - local response normalisation over neighbouring channels.
 *
 * Krizhevsky, Sutskever and Hinton (2012), 3.3: y = x / n^beta with n = bias +
 * alpha times the sum of squares of the channels at most depth_radius away.
 * alpha is not divided by the width of the window.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/lrn.h"

#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/half_copy.h"
#include "kernels/simd/vec.h"

typedef struct job {
  const float *x, *y, *dy;
  float *to, *work; /* work: 3 rows for each piece */
  int64_t depth, radius, grain;
  float bias, alpha, beta;
  td_tensor *result;
  td_tensor held[4]; /* float copies of the operands and the result */
  td_tensor memory;
} job;

/* sum[i] = bias + scale times all v[k] with |k - i| <= radius. */
static void window_sums(const job *j, const float *v, float bias, float scale,
                        float *sum) {
  int64_t n = j->depth;
  for (int64_t i = 0; i < n; i++) sum[i] = 0;
  for (int64_t d = -j->radius; d <= j->radius; d++) {
    int64_t from = d < 0 ? -d : 0, to = d > 0 ? n - d : n;
    for (int64_t i = from; i < to; i++) sum[i] += v[i + d];
  }
  for (int64_t i = 0; i < n; i++) sum[i] = bias + scale * sum[i];
}

/* n^-beta */
static void powers(const job *j, const float *n, float *to) {
  if (j->beta == 0.5f) {
    for (int64_t i = 0; i < j->depth; i++) to[i] = 1 / sqrtf(n[i]);
  } else if (j->beta == 1.0f) {
    for (int64_t i = 0; i < j->depth; i++) to[i] = 1 / n[i];
  } else {
    TD_VEC_LOOP
    for (int64_t i = 0; i < j->depth; i++) to[i] = td_vec_pow(n[i], -j->beta);
  }
}

static void forward(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  int64_t n = j->depth;
  float *square = j->work + begin / j->grain * 3 * n, *norm = square + n;
  for (int64_t row = begin; row < end; row++) {
    const float *x = j->x + row * n;
    for (int64_t i = 0; i < n; i++) square[i] = x[i] * x[i];
    window_sums(j, square, j->bias, j->alpha, norm);
    powers(j, norm, square);
    for (int64_t i = 0; i < n; i++) j->to[row * n + i] = x[i] * square[i];
  }
}

/* dx = dy n^-beta - 2 alpha beta x times the window's sum of dy y / n */
static void backward(void *arg, int64_t begin, int64_t end) {
  const job *j = arg;
  int64_t n = j->depth;
  float *a = j->work + begin / j->grain * 3 * n, *norm = a + n, *sum = norm + n;
  for (int64_t row = begin; row < end; row++) {
    const float *x = j->x + row * n, *y = j->y + row * n, *dy = j->dy + row * n;
    for (int64_t i = 0; i < n; i++) a[i] = x[i] * x[i];
    window_sums(j, a, j->bias, j->alpha, norm);
    for (int64_t i = 0; i < n; i++) a[i] = dy[i] * y[i] / norm[i];
    window_sums(j, a, 0, -2 * j->alpha * j->beta, sum);
    powers(j, norm, a);
    for (int64_t i = 0; i < n; i++)
      j->to[row * n + i] = dy[i] * a[i] + x[i] * sum[i];
  }
}

/* ---- runs ---------------------------------------------------------------- */

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

static td_status *check(const td_tensor *t, const char *what,
                        const td_shape *like) {
  td_shape_text a, b;
  if (t->shape.rank != 4)
    return td_error(TD_INVALID_ARGUMENT, "%s must be of rank 4, not %s", what,
                    td_shape_str(&t->shape, &a));
  if (td_shape_equal(&t->shape, like)) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be of shape %s, not %s", what,
                  td_shape_str(like, &a), td_shape_str(&t->shape, &b));
}

static td_status *check_radius(int64_t radius) {
  if (radius >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "depth_radius must not be below 0, is "
                  "%lld",
                  (long long)radius);
}

td_status *td_lrn_of(const td_kernel_ctx *c, bool gradient, td_lrn *p) {
  const td_node *node = td_ctx_node(c);
  const td_shape *x = &td_in(c, gradient ? 1 : 0)->shape;
  int64_t radius = td_node_int(node, "depth_radius");
  TD_TRY(
      check(td_in(c, gradient ? 1 : 0), gradient ? "input_image" : "input", x));
  if (gradient) TD_TRY(check(td_in(c, 0), "input_grads", x));
  if (gradient) TD_TRY(check(td_in(c, 2), "output_image", x));
  TD_TRY(check_radius(radius));
  p->rows = td_shape_span(x, 0, 3);
  p->depth = x->dim[3];
  p->radius = radius < p->depth ? radius : p->depth;
  p->bias = td_node_float(node, "bias");
  p->alpha = td_node_float(node, "alpha");
  p->beta = td_node_float(node, "beta");
  return NULL;
}

static td_status *begin(td_kernel_ctx *c, job *j, bool gradient) {
  const td_shape *shape = &td_in(c, gradient ? 1 : 0)->shape;
  td_lrn p;
  TD_TRY(td_lrn_of(c, gradient, &p));
  j->depth = p.depth;
  j->radius = p.radius;
  j->bias = p.bias;
  j->alpha = p.alpha;
  j->beta = p.beta;
  TD_TRY(td_out(c, 0, shape, &j->result));
  j->to = j->result->data;
  if (!td_is_half(j->result->dtype)) return NULL;
  TD_TRY(td_temp(c, TD_FLOAT32, shape, &j->held[3]));
  j->to = j->held[3].data;
  return NULL;
}

static td_status *go(td_kernel_ctx *c, job *j,
                     void (*piece)(void *, int64_t, int64_t)) {
  const td_shape *shape = &j->result->shape;
  int64_t rows = td_shape_span(shape, 0, 3);
  if (rows == 0 || j->depth == 0) return NULL;
  int64_t width = 2 * j->radius + 1 < j->depth ? 2 * j->radius + 1 : j->depth;
  j->grain =
      td_grain_of(j->depth > TD_GRAIN ? TD_GRAIN : j->depth * (width + 8));
  int64_t pieces = (rows + j->grain - 1) / j->grain;
  td_shape work = td_shape_of(3, (int64_t[]){pieces, 3, j->depth});
  TD_TRY(td_temp(c, TD_FLOAT32, &work, &j->memory));
  j->work = j->memory.data;
  td_for(c, rows, j->grain, piece, j);
  if (td_is_half(j->result->dtype)) td_half_copy_narrow(c, j->to, j->result);
  return NULL;
}

static td_status *end(job *j, td_status *s) {
  for (size_t i = 0; i < TD_COUNT(j->held); i++) td_tensor_release(&j->held[i]);
  td_tensor_release(&j->memory);
  return s;
}

static td_status *run_forward(td_kernel_ctx *c) {
  job j = {0};
  td_status *s = begin(c, &j, false);
  if (td_ok(s)) s = seen(c, 0, &j.held[0], &j.x);
  if (td_ok(s)) s = go(c, &j, forward);
  return end(&j, s);
}

static td_status *run_grad(td_kernel_ctx *c) {
  job j = {0};
  td_status *s = begin(c, &j, true);
  if (td_ok(s)) s = seen(c, 0, &j.held[0], &j.dy);
  if (td_ok(s)) s = seen(c, 1, &j.held[1], &j.x);
  if (td_ok(s)) s = seen(c, 2, &j.held[2], &j.y);
  if (td_ok(s)) s = go(c, &j, backward);
  return end(&j, s);
}

/* ---- rows ---------------------------------------------------------------- */

static td_status *infer(td_infer *c) {
  td_shape shape;
  TD_TRY(td_infer_rank(c, 0, 4, "input", &shape));
  TD_TRY(check_radius(td_infer_int(c, "depth_radius")));
  for (int i = 1; i < td_infer_inputs(c); i++) {
    td_shape_text a, b;
    if (!td_shape_merge(&shape, td_infer_in(c, i), &shape))
      return td_error(
          TD_INVALID_ARGUMENT, "all inputs must be of one shape, not %s and %s",
          td_shape_str(&shape, &a), td_shape_str(td_infer_in(c, i), &b));
  }
  td_infer_out(c, 0, shape);
  return NULL;
}

/* A multiply-add for each channel of the window, and the power. */
static void lrn_cost(td_infer *c, td_cost *cost) {
  double window = 2 * (double)td_infer_int(c, "depth_radius") + 1;
  bool back = td_infer_inputs(c) > 1;
  td_cost_per_input(c, cost, (back ? 2 : 1) * (2 * window + 3), 0);
}

#define ATTRS                                                                  \
  "; depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; "           \
  "beta: float = 0.5; T: {half, bfloat16, float} = float"

static const td_op_def ops[] = {
    {.type = "LRN",
     .sig = "input: T -> output: T" ATTRS,
     .shape = infer,
     .cost = lrn_cost,
     .doc = "Divides by a power of the squares of neighbouring channels.",
     .lua = "lrn",
     .example = "td.lrn({{{{1.0, 2.0}}}}, {beta = 1.0})  --> 0.1666667 "
                "0.3333333",
     .section = "Neural-network building blocks"},
    {.type = "LRNGrad",
     .sig = "input_grads: T, input_image: T, output_image: T -> output: "
            "T" ATTRS,
     .shape = infer,
     .cost = lrn_cost,
     .doc = "Gradient of LRN from its operand and result.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "LRN", .device = "CPU", .run = run_forward},
    {.op = "LRNGrad", .device = "CPU", .run = run_grad},
    {0},
};

TD_MODULE(lrn, ops, kernels)
