/* conv.c - Conv2D, Conv3D, DepthwiseConv2dNative and their gradients.
 *
 * The gradients take the sizes of what they compute as an operand. TensorFlow's
 * CPU kernels refuse gradients of groups and of dilations, and channels first;
 * here all of these are computed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/conv.h"
#include "kernels/operand.h"

typedef struct family {
  int axes;
  bool depthwise;
} family;
static const family conv2 = {2, false}, conv3 = {3, false}, depth2 = {2, true};

/* ---- shapes -------------------------------------------------------------- */

static td_shape in_rank(td_infer *c, int i, int rank) {
  const td_shape *s = td_infer_in(c, i);
  return s->rank < 0 ? td_shape_ranked(rank) : *s;
}

static td_status *forward_infer(td_infer *c, family f) {
  td_conv_rule r;
  td_shape out;
  td_shape in = in_rank(c, 0, f.axes + 2), filter = in_rank(c, 1, f.axes + 2);
  TD_TRY(td_conv_rule_infer(c, f.axes, f.depthwise, &r));
  TD_TRY(td_conv_shape(&r, &in, &filter, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

/* The sizes that operand i holds: a whole shape of rank axes + 2. */
static td_status *check_sizes(const td_shape *s, const char *what, int axes) {
  td_shape_text text;
  if (s->rank == axes + 2) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be a vector of %d sizes, not %s", what, axes + 2,
                  td_shape_str(s, &text));
}

/* input_sizes may also be those of the spatial axes alone. */
static void complete(const td_conv_rule *r, const td_shape *filter,
                     const td_shape *dy, td_shape *in) {
  if (r->axes != 2 || r->depthwise || in->rank != 2) return;
  int64_t channels = filter->rank == 4 ? filter->dim[2] : -1;
  int64_t batch = dy->rank == 4 ? dy->dim[0] : -1;
  int64_t height = in->dim[0], width = in->dim[1];
  *in = r->channels_first
            ? td_shape_of(4, (int64_t[]){batch, channels, height, width})
            : td_shape_of(4, (int64_t[]){batch, height, width, channels});
}

/* What the gradients' operands say of each other. */
static td_status *check_gradient(const td_conv_rule *r, const td_shape *in,
                                 const td_shape *filter, const td_shape *dy) {
  td_shape out;
  td_shape_text a, b;
  TD_TRY(td_conv_shape(r, in, filter, &out));
  if (td_shape_compatible(&out, dy)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "out_backprop must be of shape %s, not %s",
                  td_shape_str(&out, &a), td_shape_str(dy, &b));
}

static td_status *data_infer(td_infer *c, family f) {
  td_conv_rule r;
  td_shape in;
  td_shape filter = in_rank(c, 1, f.axes + 2), dy = in_rank(c, 2, f.axes + 2);
  TD_TRY(td_conv_rule_infer(c, f.axes, f.depthwise, &r));
  TD_TRY(td_infer_shape_from(c, 0, &in));
  complete(&r, &filter, &dy, &in);
  if (in.rank < 0) in = td_shape_ranked(f.axes + 2);
  TD_TRY(check_sizes(&in, "input_sizes", f.axes));
  TD_TRY(check_gradient(&r, &in, &filter, &dy));
  if (in.dim[0] < 0) in.dim[0] = dy.dim[0];
  td_infer_out(c, 0, in);
  return NULL;
}

static td_status *weights_infer(td_infer *c, family f) {
  td_conv_rule r;
  td_shape filter;
  td_shape in = in_rank(c, 0, f.axes + 2), dy = in_rank(c, 2, f.axes + 2);
  TD_TRY(td_conv_rule_infer(c, f.axes, f.depthwise, &r));
  TD_TRY(td_infer_shape_from(c, 1, &filter));
  if (filter.rank < 0) filter = td_shape_ranked(f.axes + 2);
  TD_TRY(check_sizes(&filter, "filter_sizes", f.axes));
  TD_TRY(check_gradient(&r, &in, &filter, &dy));
  td_infer_out(c, 0, filter);
  return NULL;
}

static td_status *conv2_infer(td_infer *c) {
  return forward_infer(c, conv2);
}
static td_status *conv2_data_infer(td_infer *c) {
  return data_infer(c, conv2);
}
static td_status *conv2_weights_infer(td_infer *c) {
  return weights_infer(c, conv2);
}
static td_status *conv3_infer(td_infer *c) {
  return forward_infer(c, conv3);
}
static td_status *conv3_data_infer(td_infer *c) {
  return data_infer(c, conv3);
}
static td_status *conv3_weights_infer(td_infer *c) {
  return weights_infer(c, conv3);
}
static td_status *depth2_infer(td_infer *c) {
  return forward_infer(c, depth2);
}
static td_status *depth2_data_infer(td_infer *c) {
  return data_infer(c, depth2);
}
static td_status *depth2_weights_infer(td_infer *c) {
  return weights_infer(c, depth2);
}

/* ---- running ------------------------------------------------------------- */

/* May a filter have no elements? In TensorFlow, where nothing comes of it: of
 * two axes when there is no result, of three never. */
static bool allows_empty(family f, const td_conv *c, const td_shape *out) {
  if (f.depthwise) return true;
  return f.axes == 2 && (td_conv_window(c) > 0 || td_shape_count(out) == 0);
}

static td_status *plan_forward(const td_kernel_ctx *ctx, family f,
                               td_conv_plan *p) {
  const td_shape *in = &td_in(ctx, 0)->shape, *filter = &td_in(ctx, 1)->shape;
  p->a = 0;
  p->b = 1;
  TD_TRY(td_conv_of(&p->rule, in, filter, NULL, &p->conv));
  TD_TRY(td_conv_shape(&p->rule, in, filter, &p->shape));
  if (td_shape_count(filter) == 0 && !allows_empty(f, &p->conv, &p->shape))
    return td_error(TD_INVALID_ARGUMENT, "filter must not be empty");
  return NULL;
}

static td_status *plan_data(const td_kernel_ctx *ctx, family f,
                            td_conv_plan *p) {
  const td_shape *filter = &td_in(ctx, 1)->shape, *dy = &td_in(ctx, 2)->shape;
  p->a = 1;
  p->b = 2;
  TD_TRY(td_operand_shape(td_in(ctx, 0), "input_sizes", &p->shape));
  complete(&p->rule, filter, dy, &p->shape);
  TD_TRY(check_sizes(&p->shape, "input_sizes", f.axes));
  return td_conv_of(&p->rule, &p->shape, filter, dy, &p->conv);
}

static td_status *plan_weights(const td_kernel_ctx *ctx, family f,
                               td_conv_plan *p) {
  const td_shape *in = &td_in(ctx, 0)->shape, *dy = &td_in(ctx, 2)->shape;
  p->a = 0;
  p->b = 2;
  TD_TRY(td_operand_shape(td_in(ctx, 1), "filter_sizes", &p->shape));
  TD_TRY(check_sizes(&p->shape, "filter_sizes", f.axes));
  return td_conv_of(&p->rule, in, &p->shape, dy, &p->conv);
}

td_status *td_conv_plan_of(const td_kernel_ctx *c, int axes, bool depthwise,
                           td_conv_pass pass, td_conv_plan *p) {
  family f = {axes, depthwise};
  p->pass = pass;
  TD_TRY(td_conv_rule_node(td_ctx_node(c), axes, depthwise, &p->rule));
  if (pass == TD_CONV_FORWARD) return plan_forward(c, f, p);
  return pass == TD_CONV_DATA ? plan_data(c, f, p) : plan_weights(c, f, p);
}

static td_status *run(td_kernel_ctx *c, family f, td_conv_pass pass) {
  td_conv_plan p;
  TD_TRY(td_conv_plan_of(c, f.axes, f.depthwise, pass, &p));
  return td_conv_kernel(c, &p);
}

static td_status *conv2_run(td_kernel_ctx *c) {
  return run(c, conv2, TD_CONV_FORWARD);
}
static td_status *conv2_data_run(td_kernel_ctx *c) {
  return run(c, conv2, TD_CONV_DATA);
}
static td_status *conv2_weights_run(td_kernel_ctx *c) {
  return run(c, conv2, TD_CONV_WEIGHTS);
}
static td_status *conv3_run(td_kernel_ctx *c) {
  return run(c, conv3, TD_CONV_FORWARD);
}
static td_status *conv3_data_run(td_kernel_ctx *c) {
  return run(c, conv3, TD_CONV_DATA);
}
static td_status *conv3_weights_run(td_kernel_ctx *c) {
  return run(c, conv3, TD_CONV_WEIGHTS);
}
static td_status *depth2_run(td_kernel_ctx *c) {
  return run(c, depth2, TD_CONV_FORWARD);
}
static td_status *depth2_data_run(td_kernel_ctx *c) {
  return run(c, depth2, TD_CONV_DATA);
}
static td_status *depth2_weights_run(td_kernel_ctx *c) {
  return run(c, depth2, TD_CONV_WEIGHTS);
}

/* ---- cost -----------------------------------------------------------------
 */

/* A multiply-add for each tap of the filter at each place and channel of the
 * result; the gradients take the same work. Of a depthwise one, the taps of one
 * channel: {height, width, ..}. */
static double taps(const td_shape *filter, bool depthwise) {
  double n = 2;
  int rank = depthwise ? 2 : filter->rank - 1;
  if (filter->rank < 0) return NAN;
  for (int i = 0; i < rank; i++) n *= td_infer_size(filter, i);
  return n;
}

static void conv_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_infer_out_count(c, 0) * taps(td_infer_in(c, 1), false);
}
static void conv_data_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_infer_in_count(c, 2) * taps(td_infer_in(c, 1), false);
}
static void conv_weights_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_infer_in_count(c, 2) * taps(td_infer_out_shape(c, 0), false);
}
static void depth_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_infer_out_count(c, 0) * taps(td_infer_in(c, 1), true);
}
static void depth_data_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_infer_in_count(c, 2) * taps(td_infer_in(c, 1), true);
}
static void depth_weights_cost(td_infer *c, td_cost *cost) {
  cost->flops = td_infer_in_count(c, 2) * taps(td_infer_out_shape(c, 0), true);
}

/* ---- tables -------------------------------------------------------------- */

#define FLOATS "half, bfloat16, float, double"
#define TYPES "T=half|bfloat16|float|double"

#define ATTRS2 "strides: list(int); use_cudnn_on_gpu: bool = true; " PADDED
#define DEPTH_ATTRS "strides: list(int); " PADDED
#define PADDED                                                                 \
  "padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; "                             \
  "explicit_paddings: list(int) = {}; "                                        \
  "data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; "                             \
  "dilations: list(int) = {1, 1, 1, 1}"
#define ATTRS3                                                                 \
  "strides: list(int) >= 5; padding: {\"SAME\", \"VALID\"}; "                  \
  "data_format: {\"NDHWC\", \"NCDHW\"} = \"NDHWC\"; "                          \
  "dilations: list(int) = {1, 1, 1, 1, 1}"

static const td_op_def ops[] = {
    {.type = "Conv2D",
     .sig = "input: T, filter: T -> output: T; "
            "T: {" FLOATS ", int32}; " ATTRS2,
     .shape = conv2_infer,
     .cost = conv_cost,
     .doc = "Each place of the result is the sum of the filter times what it "
            "covers of the images; the filter is not flipped. Fewer channels "
            "in the filter than in the input make groups.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {.type = "Conv2DBackpropInput",
     .sig = "input_sizes: int32, filter: T, out_backprop: T -> output: T; "
            "T: {" FLOATS ", int32}; " ATTRS2,
     .shape = conv2_data_infer,
     .cost = conv_data_cost,
     .doc = "Gradient of Conv2D for its input, of shape input_sizes; height "
            "and width alone will do.",
     .lua = "",
     .host = "input_sizes",
     .section = "Neural-network building blocks"},
    {.type = "Conv2DBackpropFilter",
     .sig = "input: T, filter_sizes: int32, out_backprop: T -> output: T; "
            "T: {" FLOATS "}; " ATTRS2,
     .shape = conv2_weights_infer,
     .cost = conv_weights_cost,
     .doc = "Gradient of Conv2D for its filter, of shape filter_sizes.",
     .lua = "",
     .host = "filter_sizes",
     .section = "Neural-network building blocks"},
    {.type = "DepthwiseConv2dNative",
     .sig = "input: T, filter: T -> output: T; T: {" FLOATS "}; " DEPTH_ATTRS,
     .shape = depth2_infer,
     .cost = depth_cost,
     .doc = "Convolves each channel with filters of its own, {height, width, "
            "channels, multiplier}: channel c gives those from c * multiplier "
            "on.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {.type = "DepthwiseConv2dNativeBackpropInput",
     .sig = "input_sizes: int32, filter: T, out_backprop: T -> output: T; "
            "T: {" FLOATS "}; " DEPTH_ATTRS,
     .shape = depth2_data_infer,
     .cost = depth_data_cost,
     .doc = "Gradient of DepthwiseConv2dNative for its input, of shape "
            "input_sizes.",
     .lua = "",
     .host = "input_sizes",
     .section = "Neural-network building blocks"},
    {.type = "DepthwiseConv2dNativeBackpropFilter",
     .sig = "input: T, filter_sizes: int32, out_backprop: T -> output: T; "
            "T: {" FLOATS "}; " DEPTH_ATTRS,
     .shape = depth2_weights_infer,
     .cost = depth_weights_cost,
     .doc = "Gradient of DepthwiseConv2dNative for its filter, of shape "
            "filter_sizes.",
     .lua = "",
     .host = "filter_sizes",
     .section = "Neural-network building blocks"},
    {.type = "Conv3D",
     .sig = "input: T, filter: T -> output: T; T: {" FLOATS "}; " ATTRS3,
     .shape = conv3_infer,
     .cost = conv_cost,
     .doc = "Conv2D with one more axis before the height.",
     .lua = "",
     .section = "Neural-network building blocks"},
    {.type = "Conv3DBackpropInputV2",
     .sig = "input_sizes: Tshape, filter: T, out_backprop: T -> output: T; "
            "T: {" FLOATS "}; " ATTRS3 "; Tshape: {int32, int64} = int32",
     .shape = conv3_data_infer,
     .cost = conv_data_cost,
     .doc = "Gradient of Conv3D for its input, of shape input_sizes.",
     .lua = "",
     .host = "input_sizes",
     .section = "Neural-network building blocks"},
    {.type = "Conv3DBackpropFilterV2",
     .sig = "input: T, filter_sizes: int32, out_backprop: T -> output: T; "
            "T: {" FLOATS "}; " ATTRS3,
     .shape = conv3_weights_infer,
     .cost = conv_weights_cost,
     .doc = "Gradient of Conv3D for its filter, of shape filter_sizes.",
     .lua = "",
     .host = "filter_sizes",
     .section = "Neural-network building blocks"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Conv2D",
     .device = "CPU",
     .types = TYPES "|int32",
     .run = conv2_run},
    {.op = "Conv2DBackpropInput",
     .device = "CPU",
     .types = TYPES "|int32",
     .run = conv2_data_run},
    {.op = "Conv2DBackpropFilter",
     .device = "CPU",
     .types = TYPES,
     .run = conv2_weights_run},
    {.op = "DepthwiseConv2dNative",
     .device = "CPU",
     .types = TYPES,
     .run = depth2_run},
    {.op = "DepthwiseConv2dNativeBackpropInput",
     .device = "CPU",
     .types = TYPES,
     .run = depth2_data_run},
    {.op = "DepthwiseConv2dNativeBackpropFilter",
     .device = "CPU",
     .types = TYPES,
     .run = depth2_weights_run},
    {.op = "Conv3D", .device = "CPU", .types = TYPES, .run = conv3_run},
    {.op = "Conv3DBackpropInputV2",
     .device = "CPU",
     .types = TYPES,
     .run = conv3_data_run},
    {.op = "Conv3DBackpropFilterV2",
     .device = "CPU",
     .types = TYPES,
     .run = conv3_weights_run},
    {0},
};

TD_MODULE(conv, ops, kernels)
