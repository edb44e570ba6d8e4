/* tensor_array_whole.c - arrays of tensors as one tensor, and back: gather,
 * concat; scatter, split.
 *
 * What becomes elements (scatter, split) is not copied: they are views of its
 * rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/parts.h"
#include "kernels/step_array.h"
#include "kernels/tensor_array.h"

/* ---- reading ------------------------------------------------------------- */

/* Reads n elements, `index` (NULL: all in order). Ends with td_parts_drop in
 * any case. */
static td_status *read_parts(td_kernel_ctx *c, td_step_array *a,
                             const int32_t *index, int64_t n, td_parts *p) {
  TD_TRY(td_parts_init(p, n));
  for (int64_t i = 0; i < n; i++) {
    td_tensor t;
    TD_TRY(td_step_array_read(c, a, index ? index[i] : i, &t));
    p->at[p->n++] = t;
  }
  return NULL;
}

td_status *td_arrays_gather(td_kernel_ctx *c) {
  const td_tensor *index = td_in(c, 1);
  const td_node *n = td_ctx_node(c);
  const td_shape *said = td_attr_as_shape(td_node_attr(n, "element_shape"));
  td_step_array *a = NULL;
  td_shape_text text;
  td_shape each;
  td_parts p;
  if (index->shape.rank != 1)
    return td_error(TD_INVALID_ARGUMENT, "indices must be a vector, not of %s",
                    td_shape_str(&index->shape, &text));
  TD_TRY(td_step_array_find(c, n->out[0].dtype, &a));
  TD_TRY(td_step_array_shape(a, said, &each));
  td_status *s = read_parts(c, a, index->data, index->shape.dim[0], &p);
  if (td_ok(s)) s = td_parts_stack(c, 0, &p, each);
  td_parts_drop(&p);
  return s;
}

/* ---- concat -------------------------------------------------------------- */

td_status *td_arrays_concat(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  const td_shape *said =
      td_attr_as_shape(td_node_attr(n, "element_shape_except0"));
  td_shape any = td_shape_unknown(), each, rest;
  td_shape_text a, b;
  td_step_array *array = NULL;
  int64_t size = 0;
  td_parts p;
  TD_TRY(td_step_array_find(c, n->out[0].dtype, &array));
  TD_TRY(td_step_array_joined(array, &size));
  TD_TRY(td_step_array_shape(array, &any, &each));
  TD_TRY(td_parts_rest(&each, &rest));
  if (!td_shape_merge(&rest, said, &rest))
    return td_error(TD_INVALID_ARGUMENT,
                    "element_shape_except0 is %s, but the elements are of %s",
                    td_shape_str(said, &a), td_shape_str(&each, &b));
  td_status *s = read_parts(c, array, NULL, size, &p);
  if (td_ok(s)) s = td_parts_concat(c, &p, &rest);
  td_parts_drop(&p);
  return s;
}

/* ---- writing ------------------------------------------------------------- */

/* Puts rows [begin, begin + n) of `t`; n < 0: row `begin`, without its first
 * dimension. */
static td_status *write_rows(td_kernel_ctx *c, td_step_array *a, int64_t i,
                             const td_tensor *t, int64_t begin, int64_t n,
                             td_step_array_add add) {
  td_tensor rows;
  TD_TRY(n < 0 ? td_parts_row(t, begin, &rows)
               : td_tensor_rows(t, begin, n, &rows));
  td_status *s = td_step_array_write(c, a, i, &rows, add);
  td_tensor_release(&rows);
  return s;
}

td_status *td_arrays_scatter(td_kernel_ctx *c, td_step_array_add add) {
  const td_tensor *index = td_in(c, 1), *value = td_in(c, 2);
  td_shape_text x, y;
  td_step_array *a = NULL;
  if (index->shape.rank != 1 || value->shape.rank < 1 ||
      index->shape.dim[0] != value->shape.dim[0])
    return td_error(TD_INVALID_ARGUMENT,
                    "indices must be a vector with one index for each slice "
                    "of value: indices are of %s, value of %s",
                    td_shape_str(&index->shape, &x),
                    td_shape_str(&value->shape, &y));
  TD_TRY(td_step_array_find(c, value->dtype, &a));
  for (int64_t i = 0; i < index->shape.dim[0]; i++)
    TD_TRY(
        write_rows(c, a, ((const int32_t *)index->data)[i], value, i, -1, add));
  td_out_pass(c, 0, 3);
  return NULL;
}

static td_status *scatter_run(td_kernel_ctx *c) {
  return td_arrays_scatter(c, NULL);
}

static td_status *check_lengths(const td_tensor *value,
                                const td_tensor *lengths) {
  td_shape_text text;
  int64_t left = value->shape.rank < 1 ? -1 : value->shape.dim[0];
  if (lengths->shape.rank != 1 || left < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "lengths must be a vector and value no scalar: lengths is "
                    "of %s",
                    td_shape_str(&lengths->shape, &text));
  for (int64_t i = 0; i < lengths->shape.dim[0] && left >= 0; i++) {
    int64_t n = td_tensor_get_i(lengths, i);
    left = n < 0 || n > left ? -1 : left - n;
  }
  if (left == 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "lengths must be sizes that sum to those of value along its "
                  "first dimension, %lld",
                  (long long)value->shape.dim[0]);
}

td_status *td_arrays_split(td_kernel_ctx *c, td_step_array_add add) {
  const td_tensor *value = td_in(c, 1), *lengths = td_in(c, 2);
  td_step_array *a = NULL;
  int64_t at = 0;
  TD_TRY(check_lengths(value, lengths));
  TD_TRY(td_step_array_find(c, value->dtype, &a));
  TD_TRY(td_step_array_fit(a, lengths->shape.dim[0]));
  for (int64_t i = 0; i < lengths->shape.dim[0]; i++) {
    int64_t n = td_tensor_get_i(lengths, i);
    TD_TRY(write_rows(c, a, i, value, at, n, add));
    at += n;
  }
  td_out_pass(c, 0, 3);
  return NULL;
}

static td_status *split_run(td_kernel_ctx *c) {
  return td_arrays_split(c, NULL);
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *check_flow(td_infer *c, int i) {
  return td_infer_rank(c, i, 0, "flow_in", NULL);
}

static td_status *gather_infer(td_infer *c) {
  const td_shape *each = td_infer_attr_shape(c, "element_shape");
  td_shape index, out;
  TD_TRY(td_infer_rank(c, 1, 1, "indices", &index));
  TD_TRY(check_flow(c, 2));
  if (each->rank < 0) return NULL;
  TD_TRY(td_shape_check_rank(each->rank + 1));
  out = td_shape_ranked(each->rank + 1);
  out.dim[0] = index.dim[0];
  for (int k = 0; k < each->rank; k++) out.dim[k + 1] = each->dim[k];
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *concat_infer(td_infer *c) {
  const td_shape *rest = td_infer_attr_shape(c, "element_shape_except0");
  TD_TRY(check_flow(c, 1));
  td_infer_out(c, 1, td_shape_ranked(1));
  if (rest->rank < 0 || rest->rank == TD_MAX_RANK) return NULL;
  td_shape out = td_shape_ranked(rest->rank + 1);
  for (int k = 0; k < rest->rank; k++) out.dim[k + 1] = rest->dim[k];
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *scatter_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 1, 1, "indices", NULL));
  TD_TRY(td_infer_rank_at_least(c, 2, 1, "value"));
  TD_TRY(check_flow(c, 3));
  return td_infer_scalars(c);
}

static td_status *split_infer(td_infer *c) {
  TD_TRY(td_infer_rank_at_least(c, 1, 1, "value"));
  TD_TRY(td_infer_rank(c, 2, 1, "lengths", NULL));
  TD_TRY(check_flow(c, 3));
  return td_infer_scalars(c);
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .section = "Data flow: queues, stacks, arrays, accumulators", .lua = ""

static const td_op_def ops[] = {
    {.type = "TensorArrayGatherV3",
     .sig = "handle: resource, indices: int32, flow_in: float -> "
            "value: dtype; dtype: type; element_shape: shape = ?",
     .shape = gather_infer,
     .cost = td_cost_take,
     .doc = "Elements of an array side by side along a new axis.",
     .flags = TD_STATEFUL,
     .host = "indices",
     SECTION},
    {.type = "TensorArrayScatterV3",
     .sig = "handle: resource, indices: int32, value: T, flow_in: float -> "
            "flow_out: float; T: type",
     .shape = scatter_infer,
     .cost = td_cost_move,
     .doc = "Puts the slices of value into an array.",
     .flags = TD_STATEFUL,
     .host = "indices",
     SECTION},
    {.type = "TensorArrayConcatV3",
     .sig = "handle: resource, flow_in: float -> value: dtype, "
            "lengths: int64; dtype: type; element_shape_except0: shape = ?",
     .shape = concat_infer,
     .cost = td_cost_take,
     .doc = "All elements of an array one after the other, and how long each "
            "is.",
     .flags = TD_STATEFUL,
     .host = "lengths",
     SECTION},
    {.type = "TensorArraySplitV3",
     .sig = "handle: resource, value: T, lengths: int64, flow_in: float -> "
            "flow_out: float; T: type",
     .shape = split_infer,
     .cost = td_cost_move,
     .doc = "Puts parts of value, of those lengths, into an array.",
     .flags = TD_STATEFUL,
     .host = "lengths",
     SECTION},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "TensorArrayGatherV3", .device = "CPU", .run = td_arrays_gather},
    {.op = "TensorArrayScatterV3", .device = "CPU", .run = scatter_run},
    {.op = "TensorArrayConcatV3", .device = "CPU", .run = td_arrays_concat},
    {.op = "TensorArraySplitV3", .device = "CPU", .run = split_run},
    {0},
};

TD_MODULE(tensor_array_whole, ops, kernels)
