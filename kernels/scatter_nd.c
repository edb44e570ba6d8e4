/* scatter_nd.c - slices that index vectors name, added up, or changed in a copy
 * of a tensor: ScatterNd, TensorScatter and kin.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cost.h"
#include "kernels/gather_nd.h"
#include "kernels/row_plans.h"
#include "kernels/row_reduce.h"
#include "kernels/operand.h"
#include "kernels/array.h"
#include "kernels/text.h"

/* ---- ScatterNd ----------------------------------------------------------- */

static td_status *bad_updates(const td_shape *updates, const td_shape *want) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT,
                  "updates must be of shape %s (the indices' but the last "
                  "dimension, then the rest of shape), not %s",
                  td_shape_str(want, &a), td_shape_str(updates, &b));
}

static td_status *scatter_infer(td_infer *c) {
  td_shape shape, want;
  bool ignore = false;
  TD_TRY(
      td_gather_nd_policy(td_infer_string(c, "bad_indices_policy"), &ignore));
  TD_TRY(td_infer_rank(c, 2, 1, "shape", NULL));
  TD_TRY(td_infer_shape_from(c, 2, &shape));
  TD_TRY(td_gather_nd_shape(td_infer_in(c, 0), &shape, &want));
  if (!td_shape_compatible(td_infer_in(c, 1), &want))
    return bad_updates(td_infer_in(c, 1), &want);
  td_infer_out(c, 0, shape);
  return NULL;
}

/* The updates of each row, in order, as lists: first[row], then next[i]; -1 at
 * the end. Caller owns both, which are one block. */
static int64_t *list_updates(const int64_t *to, int64_t n, int64_t rows,
                             int64_t **next) {
  size_t size;
  if (__builtin_add_overflow((size_t)n, (size_t)rows, &size)) return NULL;
  int64_t *first = td_calloc(size, sizeof *first);
  if (!first) return NULL;
  *next = first + rows;
  for (int64_t i = 0; i < rows; i++) first[i] = -1;
  for (int64_t i = n - 1; i >= 0; i--) {
    if (to[i] < 0) continue;
    (*next)[i] = first[to[i]];
    first[to[i]] = i;
  }
  return first;
}

/* The sum of strings is what they are when joined. */
static td_status *scatter_text(td_kernel_ctx *c, const td_row_reduce *f,
                               const td_shape *shape) {
  const td_tensor *updates = td_in(c, 1);
  int64_t count = td_shape_count(shape), *next = NULL;
  int64_t rows = f->each > 0 ? count / f->each : 0;
  td_text text = {0};
  TD_TRY(td_array_fits(c, shape));
  int64_t *first = list_updates(f->to, f->n, rows, &next);
  if (!first) return td_oom();
  if (td_text_reserve(&text, count))
    for (int64_t i = 0; i < count; i++) {
      for (int64_t k = first[i / f->each]; k >= 0; k = next[k]) {
        td_bytes s = td_text_at(updates, k * f->each + i % f->each);
        td_str_addn(&text.all, s.at, s.len);
      }
      td_text_end(&text);
    }
  td_status *s = td_text_out(c, 0, shape, &text);
  td_text_drop(&text);
  td_free(first);
  return s;
}

/* What names slices of p->shape, and what goes there. */
static td_status *read_updates(td_kernel_ctx *c, int at, td_scatter_plan *p) {
  const td_tensor *indices = td_in(c, at), *updates = td_in(c, at + 1);
  td_shape want;
  TD_TRY(td_gather_nd_shape(&indices->shape, &p->shape, &want));
  if (!td_shape_equal(&updates->shape, &want))
    return bad_updates(&updates->shape, &want);
  int last = indices->shape.rank - 1;
  p->k = (int)indices->shape.dim[last];
  p->n = td_shape_span(&indices->shape, 0, last);
  p->each = td_shape_span(&p->shape, p->k, p->shape.rank);
  return NULL;
}

td_status *td_scatter_nd_read(td_kernel_ctx *c, bool onto, td_scatter_plan *p) {
  int64_t count = 0;
  p->ignore = false;
  TD_TRY(td_gather_nd_policy(
      td_node_string(td_ctx_node(c), "bad_indices_policy"), &p->ignore));
  p->shape = td_in(c, 0)->shape;
  if (onto) return read_updates(c, 1, p);
  TD_TRY(td_operand_shape(td_in(c, 2), "shape", &p->shape));
  TD_TRY(td_array_count(&p->shape, &count));
  if (p->shape.rank == 0)
    return td_error(TD_INVALID_ARGUMENT, "shape must have a size at least");
  TD_TRY(read_updates(c, 0, p));
  if (count == 0 && td_tensor_count(td_in(c, 1)) > 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "there are updates for an output without elements");
  return NULL;
}

static td_status *scatter_run(td_kernel_ctx *c) {
  int64_t *rows, n;
  td_scatter_plan p;
  TD_TRY(td_scatter_nd_read(c, false, &p));
  TD_TRY(td_gather_nd_rows(td_in(c, 0), &p.shape, p.ignore, &rows, &n));
  td_row_reduce f = {.n = n, .each = p.each, .to = rows};
  td_status *s = td_in(c, 1)->dtype == TD_STRING
                     ? scatter_text(c, &f, &p.shape)
                     : td_row_reduce_run(c, 1, &f, &p.shape);
  td_free(rows);
  return s;
}

/* ---- into a copy of a tensor --------------------------------------------- */

static td_status *onto_infer(td_infer *c) {
  const td_shape *shape = td_infer_in(c, 0);
  td_shape want;
  bool ignore = false;
  TD_TRY(
      td_gather_nd_policy(td_infer_string(c, "bad_indices_policy"), &ignore));
  TD_TRY(td_gather_nd_shape(td_infer_in(c, 1), shape, &want));
  if (!td_shape_compatible(td_infer_in(c, 2), &want))
    return bad_updates(td_infer_in(c, 2), &want);
  td_infer_out(c, 0, *shape);
  return NULL;
}

/* Strings: pointers to text are moved. */
static td_status *set_text(td_kernel_ctx *c, const td_row_reduce *f,
                           const td_shape *shape) {
  td_array x = {0}, y = {0};
  td_status *s = td_array_in(td_in(c, 2), &x);
  if (td_ok(s)) s = td_array_edit(td_in(c, 0), &y);
  size_t bytes = (size_t)f->each * y.size;
  for (int64_t i = 0; td_ok(s) && i < f->n && bytes; i++)
    if (f->to[i] >= 0)
      memcpy(y.at + (size_t)f->to[i] * bytes, x.at + (size_t)i * bytes, bytes);
  if (td_ok(s)) {
    y.shape = *shape;
    s = td_array_done(c, 0, &y);
  }
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}

static td_status *onto_run(td_kernel_ctx *c, td_row_reduce_op op) {
  int64_t *rows, n;
  td_scatter_plan p;
  TD_TRY(td_scatter_nd_read(c, true, &p));
  TD_TRY(td_gather_nd_rows(td_in(c, 1), &p.shape, p.ignore, &rows, &n));
  td_row_reduce f = {
      .op = op, .n = n, .each = p.each, .to = rows, .onto = true};
  td_status *s = td_in(c, 2)->dtype == TD_STRING
                     ? set_text(c, &f, &p.shape)
                     : td_row_reduce_run(c, 2, &f, &p.shape);
  td_free(rows);
  return s;
}

static td_status *onto_set(td_kernel_ctx *c) {
  return onto_run(c, TD_ROW_REDUCE_SET);
}
static td_status *onto_add(td_kernel_ctx *c) {
  return onto_run(c, TD_ROW_REDUCE_SUM);
}
static td_status *onto_sub(td_kernel_ctx *c) {
  return onto_run(c, TD_ROW_REDUCE_SUB);
}
static td_status *onto_max(td_kernel_ctx *c) {
  return onto_run(c, TD_ROW_REDUCE_MAX);
}
static td_status *onto_min(td_kernel_ctx *c) {
  return onto_run(c, TD_ROW_REDUCE_MIN);
}

/* ---- cost -----------------------------------------------------------------
 */

TD_COST_INPUT(onto_cost, 1, 2)

/* ---- tables -------------------------------------------------------------- */

#define REALS                                                                  \
  "half|bfloat16|float|double|int8|uint8|int16|uint16|int32|uint32|int64|"     \
  "uint64"
#define NUMBERS REALS "|complex64|complex128"
#define POLICY "; bad_indices_policy: string = \"\""
#define ONTO(name, input, dtypes, indices_types, lua_name, text, line)         \
  {                                                                            \
    .type = name,                                                              \
    .sig = input ": T, indices: Tindices, updates: T -> output: T; "           \
                 "T: " dtypes "; Tindices: {" indices_types "}" POLICY,        \
    .shape = onto_infer, .cost = onto_cost, .doc = text, .lua = lua_name,      \
    .example = line, .section = "Array"                                        \
  }
#define KERNEL(name, dtypes, fn)                                               \
  { .op = name, .device = "CPU", .types = "T=" dtypes, .run = fn }

static const td_op_def ops[] = {
    {.type = "ScatterNd",
     .sig = "indices: Tindices, updates: T, shape: Tindices -> output: T; "
            "T: type; Tindices: {int16, int32, int64}" POLICY,
     .shape = scatter_infer,
     .cost = td_cost_move,
     .doc = "Zeros with updates added to the slices that the vectors along "
            "the last dimension of indices name; strings are joined.",
     .host = "shape",
     .example = "td.scatter_nd({{2}, {0}}, {5, 6}, {3})  --> 6 0 5",
     .section = "Array"},
    ONTO("ScatterNdNonAliasingAdd", "input",
         "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, "
         "quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, half, "
         "uint32, uint64, bool}",
         "int32, int64", "",
         "A copy of input with updates added to the slices that indices "
         "name.",
         NULL),
    ONTO("TensorScatterUpdate", "tensor", "type", "int16, int32, int64, uint16",
         "tensor_scatter_nd_update",
         "A copy of tensor with updates in place of the slices that indices "
         "name.",
         "td.tensor_scatter_nd_update({1, 2, 3}, {{1}}, {9})  --> 1 9 3"),
    ONTO("TensorScatterAdd", "tensor", "type", "int32, int64",
         "tensor_scatter_nd_add",
         "A copy of tensor with updates added to the slices that indices "
         "name.",
         "td.tensor_scatter_nd_add({1, 2, 3}, {{1}}, {9})  --> 1 11 3"),
    ONTO("TensorScatterSub", "tensor", "type", "int32, int64",
         "tensor_scatter_nd_sub",
         "A copy of tensor with updates subtracted from the slices that "
         "indices name.",
         "td.tensor_scatter_nd_sub({1, 2, 3}, {{1}}, {9})  --> 1 -7 3"),
    ONTO("TensorScatterMax", "tensor", "type", "int32, int64",
         "tensor_scatter_nd_max",
         "A copy of tensor with the larger of updates and the slices that "
         "indices name.",
         "td.tensor_scatter_nd_max({1, 2, 3}, {{1}}, {9})  --> 1 9 3"),
    ONTO("TensorScatterMin", "tensor", "type", "int32, int64",
         "tensor_scatter_nd_min",
         "A copy of tensor with the smaller of updates and the slices that "
         "indices name.",
         "td.tensor_scatter_nd_min({1, 2, 3}, {{1}}, {9})  --> 1 2 3"),
    {0},
};

static const td_kernel_def kernels[] = {
    KERNEL("ScatterNd", "bool|string|" NUMBERS, scatter_run),
    KERNEL("ScatterNdNonAliasingAdd", "bool|" NUMBERS, onto_add),
    KERNEL("TensorScatterUpdate",
           "bool|string|qint8|quint8|qint16|quint16|qint32|" NUMBERS, onto_set),
    KERNEL("TensorScatterAdd", NUMBERS, onto_add),
    KERNEL("TensorScatterSub", NUMBERS, onto_sub),
    KERNEL("TensorScatterMax", REALS, onto_max),
    KERNEL("TensorScatterMin", REALS, onto_min),
    {0},
};

TD_MODULE(scatter_nd, ops, kernels)
