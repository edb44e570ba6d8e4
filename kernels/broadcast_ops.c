/* broadcast_ops.c - broadcasting as ops of its own: the shape two shapes share,
 * the axes a gradient sums over, and an input repeated to a shape.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/strided_copy.h"
#include "kernels/operand.h"
#include "kernels/array.h"

/* ---- BroadcastArgs, BroadcastGradientArgs -------------------------------- */

/* Size k, counted from the last, of a shape given as a vector; 1 beyond. */
static int64_t size_at(const td_small *s, int k) {
  return k < s->count ? s->at[s->count - 1 - k] : 1;
}

static bool same_sizes(const td_small *a, const td_small *b) {
  if (a->count != b->count) return false;
  for (int k = 0; k < a->count; k++)
    if (a->at[k] != b->at[k]) return false;
  return true;
}

/* Both in full. */
static td_status *broadcast_sizes(const td_small *a, const td_small *b,
                                  td_small *out) {
  int n = a->count > b->count ? a->count : b->count;
  *out = (td_small){.rank = 1, .count = n};
  for (int k = 0; k < n; k++) {
    int64_t x = size_at(a, k), y = size_at(b, k);
    if (x != y && x != 1 && y != 1)
      return td_error(TD_INVALID_ARGUMENT,
                      "the shapes do not broadcast: counted from the last, "
                      "dimension %d is %lld and %lld",
                      k, (long long)x, (long long)y);
    out->at[n - 1 - k] = x == 1 ? y : x;
    out->known[n - 1 - k] = true;
  }
  return NULL;
}

/* The axes of the common shape along which `a` was repeated. As TensorFlow's,
 * an axis of size 1 on both sides counts, unless the shapes are the same. */
static void repeated_axes(const td_small *a, const td_small *b,
                          td_small *axes) {
  int n = a->count > b->count ? a->count : b->count;
  *axes = (td_small){.rank = 1};
  if (same_sizes(a, b)) return;
  for (int k = n - 1; k >= 0; k--) {
    if (size_at(a, k) != 1) continue;
    axes->known[axes->count] = true;
    axes->at[axes->count++] = n - 1 - k;
  }
}

static td_status *operand(const td_tensor *t, const char *what, td_small *v) {
  if (t->shape.rank != 1)
    return td_error(TD_INVALID_ARGUMENT, "%s must be a vector of sizes", what);
  return td_operand_ints(t, what, v);
}

static td_status *put_vector(td_kernel_ctx *c, int i, const td_small *v) {
  td_shape shape = td_shape_vector(v->count);
  td_tensor *y;
  TD_TRY(td_out(c, i, &shape, &y));
  for (int k = 0; k < v->count; k++) td_tensor_set_i(y, k, v->at[k]);
  return NULL;
}

/* Both operands when they are known in full. */
static bool both_known(td_infer *c, td_small *a, td_small *b) {
  return td_infer_small(c, 0, a) && td_infer_small(c, 1, b) &&
         td_operand_known(a) && td_operand_known(b);
}

static td_status *args_infer(td_infer *c) {
  td_shape a, b, out = td_shape_ranked(1);
  td_small x, y, both;
  TD_TRY(td_infer_rank(c, 0, 1, "s0", &a));
  TD_TRY(td_infer_rank(c, 1, 1, "s1", &b));
  if (a.dim[0] >= 0 && b.dim[0] >= 0)
    out.dim[0] = a.dim[0] > b.dim[0] ? a.dim[0] : b.dim[0];
  if (both_known(c, &x, &y)) TD_TRY(broadcast_sizes(&x, &y, &both));
  td_infer_out(c, 0, out);
  return NULL;
}

static bool args_value(td_infer *c, int out, td_small *v) {
  td_small a, b;
  (void)out;
  if (!both_known(c, &a, &b)) return false;
  td_status *s = broadcast_sizes(&a, &b, v);
  bool good = td_ok(s);
  td_status_release(s);
  return good;
}

static td_status *args_run(td_kernel_ctx *c) {
  td_small a, b, both;
  TD_TRY(operand(td_in(c, 0), "s0", &a));
  TD_TRY(operand(td_in(c, 1), "s1", &b));
  TD_TRY(broadcast_sizes(&a, &b, &both));
  return put_vector(c, 0, &both);
}

static td_status *gradient_infer(td_infer *c) {
  td_small a, b, both, axes[2];
  TD_TRY(td_infer_rank(c, 0, 1, "s0", NULL));
  TD_TRY(td_infer_rank(c, 1, 1, "s1", NULL));
  td_infer_out(c, 0, td_shape_ranked(1));
  td_infer_out(c, 1, td_shape_ranked(1));
  if (!both_known(c, &a, &b)) return NULL;
  TD_TRY(broadcast_sizes(&a, &b, &both));
  repeated_axes(&a, &b, &axes[0]);
  repeated_axes(&b, &a, &axes[1]);
  td_infer_out(c, 0, td_shape_vector(axes[0].count));
  td_infer_out(c, 1, td_shape_vector(axes[1].count));
  return NULL;
}

static bool gradient_value(td_infer *c, int out, td_small *v) {
  td_small a, b;
  if (!both_known(c, &a, &b)) return false;
  repeated_axes(out == 0 ? &a : &b, out == 0 ? &b : &a, v);
  return true;
}

static td_status *gradient_run(td_kernel_ctx *c) {
  td_small a, b, both, axes;
  TD_TRY(operand(td_in(c, 0), "s0", &a));
  TD_TRY(operand(td_in(c, 1), "s1", &b));
  TD_TRY(broadcast_sizes(&a, &b, &both));
  repeated_axes(&a, &b, &axes);
  TD_TRY(put_vector(c, 0, &axes));
  repeated_axes(&b, &a, &axes);
  return put_vector(c, 1, &axes);
}

/* ---- BroadcastTo --------------------------------------------------------- */

/* A size of `to` that is not known is that of `in`, unless that is 1. */
static td_status *check_repeats(const td_shape *in, td_shape *to) {
  td_shape both;
  td_shape_text a, b;
  if (in->rank < 0 || to->rank < 0) return NULL;
  if (in->rank <= to->rank && td_shape_broadcast(in, to, &both) &&
      td_shape_merge(&both, to, to))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "an input of shape %s cannot be repeated to %s: from the "
                  "last, its sizes must be equal or 1",
                  td_shape_str(in, &a), td_shape_str(to, &b));
}

static td_status *to_infer(td_infer *c) {
  td_shape to;
  TD_TRY(td_infer_shape_from(c, 1, &to));
  TD_TRY(check_repeats(td_infer_in(c, 0), &to));
  td_infer_out(c, 0, to);
  return NULL;
}

static td_status *to_run(td_kernel_ctx *c) {
  const td_shape *in = &td_in(c, 0)->shape;
  td_strided_copy m;
  td_strided_copy_init(&m);
  td_shape to;
  int64_t from[TD_MAX_RANK], steps[TD_MAX_RANK];
  TD_TRY(td_operand_shape(td_in(c, 1), "shape", &to));
  TD_TRY(check_repeats(in, &to));
  if (td_shape_equal(in, &to)) return td_array_share(c, 0, 0, &to);
  TD_TRY(td_array_count(&to, NULL));
  td_shape_strides(in, from);
  td_shape_strides(&to, steps);
  for (int k = 0; k < to.rank; k++) {
    int axis = k - (to.rank - in->rank);
    bool repeated = axis < 0 || in->dim[axis] == 1;
    td_strided_copy_loop(&m, to.dim[k], repeated ? 0 : from[axis], steps[k]);
  }
  return td_strided_copy_kernel(c, 0, 0, &to, &m, 0);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "BroadcastArgs",
     .sig = "s0: T, s1: T -> r0: T; T: {int32, int64} = int32",
     .shape = args_infer,
     .value = args_value,
     .doc = "The shape that two shapes broadcast to.",
     .lua = "broadcast_dynamic_shape",
     .flags = TD_NO_GRADIENT | TD_CHEAP,
     .host = "*",
     .example = "td.broadcast_dynamic_shape({2, 1}, {3})  --> 2 3",
     .section = "Array"},
    {.type = "BroadcastGradientArgs",
     .sig = "s0: T, s1: T -> r0: T, r1: T; T: {int32, int64} = int32",
     .shape = gradient_infer,
     .value = gradient_value,
     .doc = "The axes over which the gradient of each of two broadcast "
            "operands is summed.",
     .lua = "",
     .flags = TD_NO_GRADIENT | TD_CHEAP,
     .host = "*",
     .section = "Array"},
    {.type = "BroadcastTo",
     .sig = "input: T, shape: Tidx -> output: T; "
            "T: type; Tidx: {int32, int64} = int32",
     .shape = to_infer,
     .cost = td_cost_move,
     .doc = "The input repeated along dimensions of size 1, or new ones, to "
            "a shape.",
     .host = "shape",
     .example = "td.broadcast_to(td.tensor{1, 2}, {2, 2})  --> {2, 2} 1 2 1 2",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "BroadcastArgs",
     .device = "CPU",
     .run = args_run,
     .flags = TD_KERNEL_INLINE},
    {.op = "BroadcastGradientArgs",
     .device = "CPU",
     .run = gradient_run,
     .flags = TD_KERNEL_INLINE},
    {.op = "BroadcastTo", .device = "CPU", .run = to_run},
    {0},
};

TD_MODULE(broadcast_ops, ops, kernels)
