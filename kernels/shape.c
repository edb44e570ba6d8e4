/* shape.c - Shape, ShapeN, Size, Rank: the shape of a tensor as a value.
 *
 * The value hooks tell sizes as far as they are known, so that a shape computed
 * from shapes is known before running.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/operand.h"

static td_status *shape_infer(td_infer *c) {
  for (int i = 0; i < td_infer_inputs(c); i++) {
    int rank = td_infer_in(c, i)->rank;
    td_infer_out(c, i, rank < 0 ? td_shape_ranked(1) : td_shape_vector(rank));
  }
  return NULL;
}

static bool shape_value(td_infer *c, int out, td_small *v) {
  const td_shape *s = td_infer_in(c, out);
  if (s->rank < 0) return false;
  *v = td_operand_sizes(s);
  return true;
}

static td_status *shape_run(td_kernel_ctx *c) {
  for (int i = 0; i < c->n_in; i++) {
    const td_shape *s = &td_in(c, i)->shape;
    td_shape vector = td_shape_vector(s->rank);
    td_tensor *y;
    TD_TRY(td_out(c, i, &vector, &y));
    for (int k = 0; k < s->rank; k++)
      TD_TRY(td_array_put(y, k, s->dim[k], "a size of the shape"));
  }
  return NULL;
}

static bool size_value(td_infer *c, int out, td_small *v) {
  (void)out;
  int64_t n = td_shape_count(td_infer_in(c, 0));
  *v = (td_small){.count = 1, .at = {n}, .known = {true}};
  return n >= 0;
}

static td_status *size_run(td_kernel_ctx *c) {
  td_shape scalar = td_shape_scalar();
  td_tensor *y;
  TD_TRY(td_out(c, 0, &scalar, &y));
  return td_array_put(y, 0, td_tensor_count(td_in(c, 0)), "the size");
}

static bool rank_value(td_infer *c, int out, td_small *v) {
  (void)out;
  int rank = td_infer_in(c, 0)->rank;
  *v = (td_small){.count = 1, .at = {rank}, .known = {true}};
  return rank >= 0;
}

static td_status *rank_run(td_kernel_ctx *c) {
  td_shape scalar = td_shape_scalar();
  td_tensor *y;
  TD_TRY(td_out(c, 0, &scalar, &y));
  return td_array_put(y, 0, td_in(c, 0)->shape.rank, "the rank");
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Shape",
     .sig = "input: T -> output: out_type; "
            "T: type; out_type: {int32, int64} = int32",
     .shape = shape_infer,
     .cost = td_cost_none,
     .value = shape_value,
     .doc = "The sizes of the input's dimensions, as a vector.",
     .flags = TD_NO_GRADIENT | TD_CHEAP,
     .host = "output",
     .example = "td.shape(td.tensor{{1, 2, 3}, {4, 5, 6}})  --> 2 3",
     .section = "Array"},
    {.type = "ShapeN",
     .sig = "input: N*T -> output: N*out_type; "
            "N: int >= 1; T: type; out_type: {int32, int64} = int32",
     .shape = shape_infer,
     .cost = td_cost_none,
     .value = shape_value,
     .doc = "The shape of each of several inputs.",
     .flags = TD_NO_GRADIENT | TD_CHEAP,
     .host = "output",
     .example = "td.shape_n({{{1, 2}}, {3}})[1]  --> 1 2",
     .section = "Array"},
    {.type = "Size",
     .sig = "input: T -> output: out_type; "
            "T: type; out_type: {int32, int64} = int32",
     .shape = td_infer_scalars,
     .cost = td_cost_none,
     .value = size_value,
     .doc = "The number of elements of the input.",
     .flags = TD_NO_GRADIENT | TD_CHEAP,
     .host = "output",
     .example = "td.size(td.tensor{{1, 2, 3}, {4, 5, 6}})  --> 6",
     .section = "Array"},
    {.type = "Rank",
     .sig = "input: T -> output: int32; T: type",
     .shape = td_infer_scalars,
     .cost = td_cost_none,
     .value = rank_value,
     .doc = "The number of dimensions of the input.",
     .flags = TD_NO_GRADIENT | TD_CHEAP,
     .host = "output",
     .example = "td.rank(td.tensor{{1, 2, 3}, {4, 5, 6}})  --> 2",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Shape",
     .device = "CPU",
     .run = shape_run,
     .flags = TD_KERNEL_INLINE},
    {.op = "ShapeN",
     .device = "CPU",
     .run = shape_run,
     .flags = TD_KERNEL_INLINE},
    {.op = "Size", .device = "CPU", .run = size_run, .flags = TD_KERNEL_INLINE},
    {.op = "Rank", .device = "CPU", .run = rank_run, .flags = TD_KERNEL_INLINE},
    {0},
};

TD_MODULE(shape, ops, kernels)
