/* accumulator_sparse.c - accumulators of gradients of some rows: their ops, and
 * what is asked of the rows; see accumulator.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/accumulator.h"
#include "kernels/cost.h"
#include "kernels/operand.h"

/* ---- a gradient as it comes ---------------------------------------------- */

typedef struct given {
  const td_tensor *indices, *values;
  int64_t n; /* rows */
} given;

/* What the accumulator says of rows, against those given. */
static td_status *check_rest(const td_accumulator *a, const td_tensor *values) {
  td_shape_text want, have;
  td_shape all = a->shape;
  if (all.rank <= 0) return NULL;
  all.dim[0] = -1;
  if (td_shape_allows(&all, &values->shape)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the rows of sparse accumulator %s have shape %s: values of "
                  "shape %s cannot be added",
                  a->base.name, td_shape_str(&all, &want),
                  td_shape_str(&values->shape, &have));
}

static td_status *check_rows(const given *g, int64_t rows) {
  const int64_t *at = g->indices->data;
  for (int64_t i = 0; i < g->n; i++)
    if (at[i] < 0 || (rows >= 0 && at[i] >= rows))
      return td_error(TD_INVALID_ARGUMENT,
                      "gradient_indices[%lld] is %lld: it must be in [0, %lld)",
                      (long long)i, (long long)at[i],
                      (long long)(rows < 0 ? INT64_MAX : rows));
  return NULL;
}

/* The shape that comes with a gradient. */
static td_status *check_shape(const td_accumulator *a, const given *g,
                              const td_tensor *t) {
  td_shape s;
  td_shape_text want, have;
  TD_TRY(td_operand_shape(t, "gradient_shape", &s));
  bool same = a->shape.rank < 0 || a->shape.rank <= s.rank;
  for (int i = 0; same && i < a->shape.rank; i++)
    same = a->shape.dim[i] < 0 || a->shape.dim[i] == s.dim[i];
  if (!same)
    return td_error(TD_INVALID_ARGUMENT,
                    "the gradients of sparse accumulator %s have shape %s, not "
                    "%s",
                    a->base.name, td_shape_str(&a->shape, &want),
                    td_shape_str(&s, &have));
  return s.rank > 0 ? check_rows(g, s.dim[0]) : NULL;
}

static td_status *read_given(const td_kernel_ctx *c, const td_accumulator *a,
                             int first, given *g) {
  const td_tensor *shape = td_in(c, first + 2);
  *g = (given){.indices = td_in(c, first), .values = td_in(c, first + 1)};
  TD_TRY(td_accumulator_typed(a, g->values->dtype));
  if (g->indices->shape.rank != 1 || g->values->shape.rank < 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "gradient_indices must be a vector and gradient_values "
                    "rows, not of rank %d and %d",
                    g->indices->shape.rank, g->values->shape.rank);
  g->n = g->indices->shape.dim[0];
  if (g->values->shape.dim[0] != g->n)
    return td_error(TD_INVALID_ARGUMENT,
                    "gradient_indices has %lld elements, gradient_values %lld "
                    "rows",
                    (long long)g->n, (long long)g->values->shape.dim[0]);
  TD_TRY(check_rest(a, g->values));
  TD_TRY(check_rows(g, a->shape.rank > 0 ? a->shape.dim[0] : -1));
  if (!td_node_bool(td_ctx_node(c), "has_known_shape")) return NULL;
  return check_shape(a, g, shape);
}

/* ---- the ops ------------------------------------------------------------- */

static td_status *apply(td_kernel_ctx *c, int64_t slot, int first) {
  td_accumulator *a;
  int64_t step;
  given in;
  TD_TRY(td_accumulator_in(c, true, &a));
  TD_TRY(td_operand_scalar(td_in(c, first), "local_step", &step));
  TD_TRY(read_given(c, a, first + 1, &in));
  td_gradient *g = td_gradient_new();
  if (!g) return td_oom();
  td_status *s = td_gradient_of_rows(c, in.indices, in.values, g);
  if (td_ok(s))
    return td_accumulator_apply(c, a, slot, step, &in.values->shape, g);
  td_gradient_free(g);
  return s;
}

static td_status *apply_run(td_kernel_ctx *c) {
  return apply(c, -1, 1);
}

static td_status *ordered_apply_run(td_kernel_ctx *c) {
  int64_t slot;
  TD_TRY(td_operand_scalar(td_in(c, 1), "slot", &slot));
  if (slot < 0)
    return td_error(TD_INVALID_ARGUMENT, "slot must not be negative, not %lld",
                    (long long)slot);
  return apply(c, slot, 2);
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *apply_infer(td_infer *c) {
  int last = td_infer_inputs(c) - 1;
  for (int i = 1; i < last - 2; i++)
    TD_TRY(td_infer_rank(c, i, 0, i < last - 3 ? "slot" : "local_step", NULL));
  TD_TRY(td_infer_rank(c, last - 2, 1, "gradient_indices", NULL));
  TD_TRY(td_infer_rank_at_least(c, last - 1, 1, "gradient_values"));
  return td_infer_rank(c, last, 1, "gradient_shape", NULL);
}

static td_status *take_infer(td_infer *c) {
  td_dtype dtype;
  td_shape shape;
  TD_TRY(td_infer_rank(c, 1, 0, "num_required", NULL));
  td_infer_out(c, 0, td_shape_vector(-1));
  td_infer_out(c, 1, td_shape_unknown());
  td_infer_out(c, 2, td_shape_vector(-1));
  if (!td_infer_handle(c, 0, &dtype, &shape) || shape.rank <= 0) return NULL;
  shape.dim[0] = -1;
  td_infer_out(c, 1, shape);
  td_infer_out(c, 2, td_shape_vector(shape.rank));
  return NULL;
}

TD_COST_INPUT(apply_cost, 1, 3)

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .section = "Data flow: queues, stacks, arrays, accumulators", .lua = "",     \
  .host = "*", .flags = TD_STATEFUL | TD_NO_GRADIENT
#define GRADIENT                                                               \
  "local_step: int64, gradient_indices: int64, gradient_values: dtype, "       \
  "gradient_shape: int64 ->; dtype: " TD_ACCUMULATOR_TYPES                     \
  "; has_known_shape: bool"

static const td_op_def ops[] = {
    {.type = "SparseAccumulatorApplyGradient",
     .sig = "handle: resource, " GRADIENT,
     .shape = apply_infer,
     .cost = apply_cost,
     .doc = "Adds a gradient of some rows, unless it was computed for a step "
            "that is over.",
     SECTION},
    {.type = "OrderedSparseAccumulatorApplyGradient",
     .sig = "handle: resource, slot: int32, " GRADIENT,
     .shape = apply_infer,
     .cost = apply_cost,
     .doc = "Puts a gradient of some rows into its slot, unless it was "
            "computed for a step that is over.",
     SECTION},
    {.type = "SparseAccumulatorTakeGradient",
     .sig = "handle: resource, num_required: int32 -> indices: int64, values: "
            "dtype, shape: int64; dtype: " TD_ACCUMULATOR_TYPES,
     .shape = take_infer,
     .cost = td_cost_move,
     .doc = "Waits for so many gradients of rows, gives the mean or sum of "
            "each row, and begins the next step.",
     SECTION},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "SparseAccumulatorApplyGradient", .device = "CPU", .run = apply_run},
    {.op = "OrderedSparseAccumulatorApplyGradient",
     .device = "CPU",
     .run = ordered_apply_run},
    {.op = "SparseAccumulatorTakeGradient",
     .device = "CPU",
     .start = td_accumulator_sparse_take_start,
     .cancel = td_accumulator_take_cancel,
     .why = td_accumulator_take_why},
    {0},
};

TD_MODULE(accumulator_sparse, ops, kernels)
