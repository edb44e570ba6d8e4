/* pooling_avg.c - the mean of each window and its gradient.
 *
 * Padding is no cell: a window at the edge divides by those it has.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/operand.h"
#include "kernels/pooling.h"

/* ---- the mean ------------------------------------------------------------ */

static td_status *infer_avg(td_infer *c, int rank) {
  td_pooling_spec spec;
  td_shape out;
  TD_TRY(td_pooling_infer(c, rank, -1, &spec));
  TD_TRY(td_pooling_shape(&spec, td_infer_in(c, 0), &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static void mean_step(const td_pooling_job *j, const td_pooling_at *at,
                      int64_t from, int64_t n) {
  j->loops->mean(&at->w, n, j->in[0] + (size_t)(at->x + from) * j->size,
                 (double)at->cells, j->out + (size_t)(at->y + from) * j->size);
}

td_status *td_pooling_avg_of(const td_kernel_ctx *c, int rank, td_pooling *p) {
  td_pooling_spec spec;
  TD_TRY(td_pooling_read(c, rank, -1, &spec));
  return td_pooling_of(&spec, &td_in(c, 0)->shape, p);
}

static td_status *run_avg(td_kernel_ctx *c, int rank) {
  td_pooling_job j = {.plain = true};
  TD_TRY(td_pooling_avg_of(c, rank, &j.pool));
  td_status *s = td_pooling_begin(c, &j, 0, 1, &j.pool.out);
  if (td_ok(s)) td_pooling_outputs(c, &j, mean_step);
  return td_pooling_end(c, &j, s);
}

/* ---- the gradient -------------------------------------------------------- */

/* Is a gradient 0 whatever its sizes are? TensorFlow takes such a one, of
 * volumes if batch and channels are right. */
static bool is_nothing(const td_shape *grad, const td_shape *in,
                       const td_shape *out, bool channels_first) {
  int channels = channels_first ? 1 : in->rank - 1;
  if (in->rank == 5 && grad->rank == 5 &&
      (grad->dim[0] != out->dim[0] ||
       grad->dim[channels] != out->dim[channels]))
    return false;
  return td_shape_count(grad) == 0 || td_shape_count(in) == 0;
}

static td_status *infer_grad(td_infer *c, int rank) {
  td_pooling_spec spec;
  td_shape in, out;
  td_shape_text a, b;
  TD_TRY(td_pooling_infer(c, rank, -1, &spec));
  spec.strict = false; /* TensorFlow's looks at no windows */
  TD_TRY(td_infer_shape_from(c, 0, &in));
  TD_TRY(td_pooling_shape(&spec, &in, &out));
  if (!td_shape_compatible(&out, td_infer_in(c, 1)) &&
      !is_nothing(td_infer_in(c, 1), &in, &out, spec.channels_first))
    return td_error(TD_INVALID_ARGUMENT, "grad must be of shape %s, not %s",
                    td_shape_str(&out, &a),
                    td_shape_str(td_infer_in(c, 1), &b));
  td_infer_out(c, 0, in.rank < 0 ? td_shape_ranked(rank) : in);
  return NULL;
}

static void spread_step(const td_pooling_job *j, const td_pooling_at *at,
                        int64_t from, int64_t n) {
  j->loops->spread(&at->w, n, j->in[0] + (size_t)(at->y + from) * j->size,
                   1.0 / (double)at->cells,
                   j->out + (size_t)(at->x + from) * j->size);
}

static td_status *zeros(td_kernel_ctx *c, const td_shape *shape) {
  td_tensor *out;
  TD_TRY(td_out(c, 0, shape, &out));
  memset(out->data, 0, td_tensor_bytes(out));
  return NULL;
}

td_status *td_pooling_avg_grad_of(const td_kernel_ctx *c, int rank,
                                  td_pooling *p, bool *nothing) {
  const td_tensor *dy = td_in(c, 1);
  td_pooling_spec spec;
  td_shape in;
  TD_TRY(td_pooling_read(c, rank, -1, &spec));
  TD_TRY(td_operand_shape(td_in(c, 0), "orig_input_shape", &in));
  TD_TRY(td_pooling_of(&spec, &in, p));
  *nothing = is_nothing(&dy->shape, &in, &p->out, spec.channels_first);
  return *nothing ? NULL : td_pooling_check(dy, &p->out, "grad");
}

static td_status *run_grad(td_kernel_ctx *c, int rank) {
  td_pooling_job j = {.plain = true};
  bool nothing;
  TD_TRY(td_pooling_avg_grad_of(c, rank, &j.pool, &nothing));
  if (nothing) return zeros(c, &j.pool.in);
  td_shape shape = j.pool.in;
  td_status *s = td_pooling_begin(c, &j, 1, 1, &shape);
  if (td_ok(s)) td_pooling_inputs(c, &j, spread_step);
  return td_pooling_end(c, &j, s);
}

/* ---- cost -----------------------------------------------------------------
 */

static void avg_cost(td_infer *c, td_cost *cost) {
  td_pooling_cost(c, cost, td_infer_out_count(c, 0));
}

static void avg_grad_cost(td_infer *c, td_cost *cost) {
  td_pooling_cost(c, cost, td_infer_in_count(c, 1));
}

/* ---- rows ---------------------------------------------------------------- */

#define FORM(name, rank)                                                       \
  static td_status *infer_##name(td_infer *c) {                                \
    return infer_avg(c, rank);                                                 \
  }                                                                            \
  static td_status *run_##name(td_kernel_ctx *c) {                             \
    return run_avg(c, rank);                                                   \
  }                                                                            \
  static td_status *infer_##name##_grad(td_infer *c) {                         \
    return infer_grad(c, rank);                                                \
  }                                                                            \
  static td_status *run_##name##_grad(td_kernel_ctx *c) {                      \
    return run_grad(c, rank);                                                  \
  }
FORM(image, 4)
FORM(volume, 5)

/* clang-format off */
#define ATTRS(n, formats, first) \
  "; ksize: list(int) >= " n "; strides: list(int) >= " n \
  "; padding: {\"SAME\", \"VALID\"}; data_format: {" formats "} = " first \
  "; T: {half, bfloat16, float, double}"
#define IMAGE ATTRS("4", "\"NHWC\", \"NCHW\"", "\"NHWC\"")
#define VOLUME ATTRS("5", "\"NDHWC\", \"NCDHW\"", "\"NDHWC\"")
/* clang-format on */

static const td_op_def ops[] = {
    {.type = "AvgPool",
     .sig = "value: T -> output: T" IMAGE,
     .shape = infer_image,
     .cost = avg_cost,
     .doc = "The mean of the elements under each window of an image.",
     .lua = "avg_pool",
     .example =
         "td.avg_pool({{{{1.0}, {2.0}}, {{3.0}, {4.0}}}}, 2, 2, \"VALID\")  "
         "--> 2.5",
     .section = "Neural-network building blocks"},
    {.type = "AvgPoolGrad",
     .sig = "orig_input_shape: int32, grad: T -> output: T" IMAGE,
     .shape = infer_image_grad,
     .cost = avg_grad_cost,
     .doc = "Gradient of AvgPool: each grad shared out over its window.",
     .lua = "",
     .host = "orig_input_shape",
     .section = "Neural-network building blocks"},
    {.type = "AvgPool3D",
     .sig = "input: T -> output: T" VOLUME,
     .shape = infer_volume,
     .cost = avg_cost,
     .doc = "The mean of the elements under each window of a volume.",
     .lua = "avg_pool3d",
     .section = "Neural-network building blocks"},
    {.type = "AvgPool3DGrad",
     .sig = "orig_input_shape: int32, grad: T -> output: T" VOLUME,
     .shape = infer_volume_grad,
     .cost = avg_grad_cost,
     .doc = "Gradient of AvgPool3D.",
     .lua = "",
     .host = "orig_input_shape",
     .section = "Neural-network building blocks"},
    {0},
};

#define CPU(type, f)                                                           \
  { .op = type, .device = "CPU", .types = TYPES_FLOATS, .run = run_##f }

static const td_kernel_def kernels[] = {
    CPU("AvgPool", image),
    CPU("AvgPoolGrad", image_grad),
    CPU("AvgPool3D", volume),
    CPU("AvgPool3DGrad", volume_grad),
    {0},
};

TD_MODULE(pooling_avg, ops, kernels)
