/* reduce.c - sums, products, extremes and means along axes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/element.h"
#include "kernels/reduce.h"

/* ---- shapes -------------------------------------------------------------- */

/* Marks the axes that are known; false when some are not. */
static td_status *known_axes(td_infer *c, int rank, bool *folded, bool *all) {
  td_small axes;
  *all = td_infer_small(c, 1, &axes);
  for (int i = 0; *all && i < axes.count; i++) {
    int axis;
    *all = axes.known[i];
    if (!*all) break;
    TD_TRY(td_infer_axis(axes.at[i], rank, "reduction_indices", &axis));
    if (folded[axis])
      return td_error(TD_INVALID_ARGUMENT,
                      "reduction_indices names dimension %d twice", axis);
    folded[axis] = true;
  }
  return NULL;
}

/* Axes not known: only how many there are tells something. */
static void infer_rank_only(td_infer *c, const td_shape *x, bool keep) {
  const td_shape *axes = td_infer_in(c, 1);
  int64_t folded = keep ? 0 : td_shape_count(axes);
  td_shape out = td_shape_unknown();
  if (folded >= 0 && folded <= x->rank) {
    out.rank = x->rank - (int32_t)folded;
    for (int i = 0; i < out.rank; i++) out.dim[i] = -1;
  }
  td_infer_out(c, 0, out);
}

static td_status *shape_reduce(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0), *axes = td_infer_in(c, 1);
  bool keep = td_infer_bool(c, "keep_dims"), all, folded[TD_MAX_RANK] = {false};
  td_shape_text text;
  if (axes->rank > 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "reduction_indices must be a scalar or a vector, not %s",
                    td_shape_str(axes, &text));
  td_infer_out(c, 0, td_shape_unknown());
  if (x->rank < 0) return NULL;
  TD_TRY(known_axes(c, x->rank, folded, &all));
  if (all)
    td_infer_out(c, 0, td_reduce_shape(x, folded, keep));
  else
    infer_rank_only(c, x, keep);
  return NULL;
}

/* The sum or product of a small vector: a size computed from sizes. */
static bool value_of(td_infer *c, bool product, td_small *v) {
  td_small x, axes;
  if (!td_infer_small(c, 0, &x) || !td_infer_small(c, 1, &axes)) return false;
  bool folds = axes.count == 1 && axes.known[0];
  if (x.rank != 1 || !folds || (axes.at[0] != 0 && axes.at[0] != -1))
    return false;
  *v = (td_small){.rank = td_infer_bool(c, "keep_dims"), .count = 1};
  v->known[0] = true;
  v->at[0] = product;
  for (int i = 0; i < x.count; i++) {
    v->known[0] = v->known[0] && x.known[i];
    if (product ? __builtin_mul_overflow(v->at[0], x.at[i], &v->at[0])
                : __builtin_add_overflow(v->at[0], x.at[i], &v->at[0]))
      v->known[0] = false;
  }
  if (td_infer_in_type(c, 0) == TD_INT32 && v->at[0] != (int32_t)v->at[0])
    v->known[0] = false;
  return true;
}

static bool value_sum(td_infer *c, int out, td_small *v) {
  return out == 0 && value_of(c, false, v);
}
static bool value_prod(td_infer *c, int out, td_small *v) {
  return out == 0 && value_of(c, true, v);
}

/* ---- kernels ------------------------------------------------------------- */

static td_status *run(td_kernel_ctx *c, int loop, td_reduce_end end) {
  const td_tensor *x = td_in(c, 0);
  bool folded[TD_MAX_RANK];
  td_reduce_plan plan;
  td_tensor *y;
  TD_TRY(td_reduce_axes(td_in(c, 1), x->shape.rank, folded));
  bool keep = td_node_bool(td_ctx_node(c), "keep_dims");
  td_shape shape = td_reduce_shape(&x->shape, folded, keep);
  TD_TRY(td_out(c, 0, &shape, &y));
  td_reduce_plan_of(&x->shape, folded, &plan);
  return td_reduce_run(c, loop, end, x, &plan, y);
}

static td_status *run_sum(td_kernel_ctx *c) {
  return run(c, TD_REDUCE_SUM, TD_REDUCE_KEEP);
}
static td_status *run_mean(td_kernel_ctx *c) {
  return run(c, TD_REDUCE_SUM, TD_REDUCE_MEAN);
}
static td_status *run_prod(td_kernel_ctx *c) {
  return run(c, TD_REDUCE_PROD, TD_REDUCE_KEEP);
}
/* Also of bools: any of them, all of them. */
static td_status *run_max(td_kernel_ctx *c) {
  return run(c, TD_REDUCE_MAX, TD_REDUCE_KEEP);
}
static td_status *run_min(td_kernel_ctx *c) {
  return run(c, TD_REDUCE_MIN, TD_REDUCE_KEEP);
}

static td_status *run_norm(td_kernel_ctx *c) {
  return run(c, TD_REDUCE_SQUARES, TD_REDUCE_ROOT);
}

static td_status *run_l2_loss(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  bool folded[TD_MAX_RANK];
  for (int i = 0; i < TD_MAX_RANK; i++) folded[i] = true;
  td_reduce_plan plan;
  td_shape scalar = td_shape_scalar();
  td_tensor *y;
  TD_TRY(td_out(c, 0, &scalar, &y));
  td_reduce_plan_of(&x->shape, folded, &plan);
  return td_reduce_run(c, TD_REDUCE_SQUARES, TD_REDUCE_HALVE, x, &plan, y);
}

/* ---- rows ---------------------------------------------------------------- */

#define SIG(allowed)                                                           \
  "input: T, reduction_indices: Tidx -> output: T; "                           \
  "keep_dims: bool = false; T: {" allowed "}; Tidx: {int32, int64} = int32"
#define SIG_BOOL                                                               \
  "input: bool, reduction_indices: Tidx -> output: bool; "                     \
  "keep_dims: bool = false; Tidx: {int32, int64} = int32"
#define SIG_ORDERED SIG_REALS ", qint8, quint8, qint32, qint16, quint16"
#define REDUCES                                                                \
  .shape = shape_reduce, .cost = td_cost_reduce, .host = "reduction_indices",  \
  .section = "Reductions, ranges, segments"

static const td_op_def ops[] = {
    {.type = "Sum",
     .sig = SIG(SIG_ORDERED SIG_COMPLEX),
     .doc = "Sum along axes.",
     .lua = "reduce_sum",
     .example = "td.reduce_sum(td.tensor{{1, 2}, {3, 4}}, {0})  --> 4 6",
     .value = value_sum,
     REDUCES},
    {.type = "Prod",
     .sig = SIG(SIG_ORDERED SIG_COMPLEX),
     .doc = "Product along axes.",
     .lua = "reduce_prod",
     .value = value_prod,
     REDUCES},
    {.type = "Mean",
     .sig = SIG(SIG_ORDERED SIG_COMPLEX),
     .doc = "Mean along axes; of integers, rounded toward 0.",
     .lua = "reduce_mean",
     REDUCES},
    {.type = "Max",
     .sig = SIG(SIG_ORDERED),
     .doc = "Largest element along axes; NaN if there is one.",
     .lua = "reduce_max",
     .example = "td.reduce_max(td.tensor{{1, 2}, {3, 4}}, {1})  --> 2 4",
     REDUCES},
    {.type = "Min",
     .sig = SIG(SIG_ORDERED),
     .doc = "Smallest element along axes; NaN if there is one.",
     .lua = "reduce_min",
     REDUCES},
    {.type = "All",
     .sig = SIG_BOOL,
     .doc = "True where all elements along axes are.",
     .lua = "reduce_all",
     REDUCES},
    {.type = "Any",
     .sig = SIG_BOOL,
     .doc = "True where some element along axes is.",
     .lua = "reduce_any",
     REDUCES},
    {.type = "EuclideanNorm",
     .sig = SIG(SIG_ORDERED SIG_COMPLEX),
     .doc = "Square root of the sum of the squares along axes; of integers, "
            "rounded toward 0.",
     .lua = "reduce_euclidean_norm",
     .example = "td.reduce_euclidean_norm(td.tensor{3.0, 4.0}, {0})  --> 5",
     REDUCES},
    {.type = "L2Loss",
     .sig = "t: T -> output: T; T: {half, bfloat16, float, double}",
     .shape = td_infer_scalars,
     .cost = td_cost_reduce,
     .doc = "Half the sum of the squares.",
     .lua = "l2_loss",
     .section = "Neural-network building blocks"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Sum", .device = "CPU", .types = TYPES_NUMBERS, .run = run_sum},
    {.op = "Prod", .device = "CPU", .types = TYPES_NUMBERS, .run = run_prod},
    {.op = "Mean", .device = "CPU", .types = TYPES_NUMBERS, .run = run_mean},
    {.op = "Max", .device = "CPU", .types = TYPES_REALS, .run = run_max},
    {.op = "Min", .device = "CPU", .types = TYPES_REALS, .run = run_min},
    {.op = "All", .device = "CPU", .run = run_min},
    {.op = "Any", .device = "CPU", .run = run_max},
    {.op = "EuclideanNorm",
     .device = "CPU",
     .types = TYPES_NUMBERS,
     .run = run_norm},
    {.op = "L2Loss", .device = "CPU", .run = run_l2_loss},
    {0},
};

TD_MODULE(reduce, ops, kernels)
