/* bias.c - a vector added along the channels, and its gradient.
 *
 * An addition whose second operand is seen with axes of 1 after it, and a sum
 * over everything but the channels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/bias.h"

#include <string.h>

#include "kernels/binary.h"
#include "kernels/cost.h"
#include "kernels/element.h"
#include "kernels/reduce.h"

/* The axis of the channels in a shape of rank >= 2. */
static int channel_axis(const char *format, int rank) {
  return strcmp(format, "NCHW") != 0 ? rank - 1 : 1;
}

static const char *format_of(const td_kernel_ctx *c) {
  const td_attr *a = td_node_attr(td_ctx_node(c), "data_format");
  return a ? a->s.at : "NHWC";
}

static td_status *check_rank(const td_shape *s, const char *what) {
  td_shape_text text;
  if (s->rank < 0 || s->rank >= 2) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be of rank 2 or more, not %s",
                  what, td_shape_str(s, &text));
}

static td_status *mismatch(const td_shape *value, const td_shape *bias,
                           int axis) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT,
                  "bias must be a vector with an element for each channel, "
                  "dimension %d of %s, not %s",
                  axis, td_shape_str(value, &a), td_shape_str(bias, &b));
}

/* ---- BiasAdd ------------------------------------------------------------- */

static td_status *shape_add(td_infer *c) {
  const td_shape *value = td_infer_in(c, 0), *bias = td_infer_in(c, 1);
  td_shape out = *value, vector;
  TD_TRY(check_rank(value, "value"));
  TD_TRY(td_infer_rank(c, 1, 1, "bias", &vector));
  if (value->rank >= 0) {
    int axis = channel_axis(td_infer_string(c, "data_format"), value->rank);
    int64_t size = value->dim[axis];
    if (size >= 0 && vector.dim[0] >= 0 && size != vector.dim[0])
      return mismatch(value, bias, axis);
    if (size < 0) out.dim[axis] = vector.dim[0];
  }
  td_infer_out(c, 0, out);
  return NULL;
}

static td_bias view_of(const td_shape *s, int axis) {
  return (td_bias){td_shape_span(s, 0, axis), s->dim[axis],
                   td_shape_span(s, axis + 1, s->rank), axis};
}

td_status *td_bias_add_of(const td_kernel_ctx *c, td_bias *b) {
  const td_shape *value = &td_in(c, 0)->shape, *bias = &td_in(c, 1)->shape;
  TD_TRY(check_rank(value, "value"));
  int axis = channel_axis(format_of(c), value->rank);
  if (bias->rank != 1 || bias->dim[0] != value->dim[axis])
    return mismatch(value, bias, axis);
  *b = view_of(value, axis);
  return NULL;
}

static td_status *run_add(td_kernel_ctx *c) {
  const td_shape *value = &td_in(c, 0)->shape;
  td_bias b;
  TD_TRY(td_bias_add_of(c, &b));
  td_shape seen = {.rank = value->rank - b.axis};
  seen.dim[0] = b.channels;
  for (int i = 1; i < seen.rank; i++) seen.dim[i] = 1;
  return td_binary_run(c, TD_BINARY_AddV2, value, &seen);
}

/* ---- BiasAddGrad --------------------------------------------------------- */

static td_status *shape_grad(td_infer *c) {
  const td_shape *dy = td_infer_in(c, 0);
  int64_t size = -1;
  TD_TRY(check_rank(dy, "out_backprop"));
  if (dy->rank >= 0)
    size = dy->dim[channel_axis(td_infer_string(c, "data_format"), dy->rank)];
  td_infer_out(c, 0, td_shape_of(1, &size));
  return NULL;
}

td_status *td_bias_grad_of(const td_kernel_ctx *c, td_bias *b) {
  const td_shape *dy = &td_in(c, 0)->shape;
  TD_TRY(check_rank(dy, "out_backprop"));
  *b = view_of(dy, channel_axis(format_of(c), dy->rank));
  return NULL;
}

static td_status *run_grad(td_kernel_ctx *c) {
  const td_tensor *dy = td_in(c, 0);
  bool folded[TD_MAX_RANK];
  td_reduce_plan plan;
  td_tensor *db;
  td_bias b;
  TD_TRY(td_bias_grad_of(c, &b));
  for (int i = 0; i < TD_MAX_RANK; i++) folded[i] = i != b.axis;
  td_shape shape = td_shape_vector(b.channels);
  TD_TRY(td_out(c, 0, &shape, &db));
  td_reduce_plan_of(&dy->shape, folded, &plan);
  return td_reduce_run(c, TD_REDUCE_SUM, TD_REDUCE_KEEP, dy, &plan, db);
}

/* ---- rows ---------------------------------------------------------------- */

#define ATTRS                                                                  \
  "; T: {" SIG_NUMBERS ", qint8, quint8, qint32, qint16, quint16}; "           \
  "data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\""

static const td_op_def ops[] = {
    {.type = "BiasAdd",
     .sig = "value: T, bias: T -> output: T" ATTRS,
     .shape = shape_add,
     .doc = "value + bias, one element of bias for each channel.",
     .lua = "bias_add",
     .example = "td.bias_add({{1, 2}, {3, 4}}, {10, 20})  --> 11 22 13 24",
     .flags = TD_IN_PLACE,
     .section = "Neural-network building blocks"},
    {.type = "BiasAddV1",
     .sig = "value: T, bias: T -> output: T; "
            "T: {" SIG_NUMBERS ", qint8, quint8, qint32, qint16, quint16}",
     .shape = shape_add,
     .doc = "value + bias, one element of bias for each index of the last "
            "axis; the older form.",
     .lua = "",
     .flags = TD_IN_PLACE,
     .section = "Neural-network building blocks"},
    {.type = "BiasAddGrad",
     .sig = "out_backprop: T -> output: T" ATTRS,
     .shape = shape_grad,
     .cost = td_cost_reduce,
     .doc = "Gradient of BiasAdd for bias: the sum over all but the channels.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "BiasAdd", .device = "CPU", .types = TYPES_NUMBERS, .run = run_add},
    {.op = "BiasAddV1",
     .device = "CPU",
     .types = TYPES_NUMBERS,
     .run = run_add},
    {.op = "BiasAddGrad",
     .device = "CPU",
     .types = TYPES_NUMBERS,
     .run = run_grad},
    {0},
};

TD_MODULE(bias, ops, kernels)
