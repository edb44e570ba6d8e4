/* concat.c - joining tensors along an axis: Concat, ConcatV2, Pack.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/moves.h"
#include "kernels/strided_copy.h"
#include "kernels/operand.h"
#include "kernels/array.h"

/* ---- shapes -------------------------------------------------------------- */

static td_status *no_match(int i, const td_shape *s, const td_shape *sum,
                           int axis) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT,
                  "values must agree in every dimension but %d: value %d is "
                  "%s, those before it %s",
                  axis, i, td_shape_str(s, &a), td_shape_str(sum, &b));
}

/* Joins value i, of shape `s`, to `sum`, the shape so far (i 0: anything).
 * axis -1 is not known: then only ranks are compared. */
static td_status *join(int i, const td_shape *s, int axis, td_shape *sum) {
  if (s->rank == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "value %d is a scalar: scalars are joined by stack", i);
  if (i == 0) {
    *sum = axis < 0 && s->rank > 0 ? td_shape_ranked(s->rank) : *s;
    return NULL;
  }
  if (s->rank < 0 || sum->rank < 0) {
    /* Nothing is known of one: its rank is the other's, its sizes too except
     * along the axis. */
    if (sum->rank < 0) *sum = *s;
    if (sum->rank >= 0 && axis < 0) *sum = td_shape_ranked(sum->rank);
    if (sum->rank >= 0 && axis >= 0) sum->dim[axis] = -1;
    return NULL;
  }
  if (s->rank != sum->rank) return no_match(i, s, sum, axis);
  if (axis < 0) return NULL;
  int64_t have = sum->dim[axis], more = s->dim[axis];
  td_shape rest = *s;
  rest.dim[axis] = sum->dim[axis];
  if (!td_shape_merge(sum, &rest, &rest)) return no_match(i, s, sum, axis);
  *sum = rest;
  if (have < 0 || more < 0)
    sum->dim[axis] = -1;
  else if (__builtin_add_overflow(have, more, &sum->dim[axis]))
    return td_error(TD_INVALID_ARGUMENT,
                    "the values have more than 2^63-1 elements along %d", axis);
  return NULL;
}

static td_status *concat_infer(td_infer *c, int first, int n, int axis_in) {
  int rank = -1, axis;
  td_shape sum = td_shape_unknown();
  for (int i = 0; i < n && rank < 0; i++)
    rank = td_infer_in(c, first + i)->rank;
  TD_TRY(td_operand_infer_axis(c, axis_in, rank, "axis", &axis));
  for (int i = 0; i < n; i++)
    TD_TRY(join(i, td_infer_in(c, first + i), axis, &sum));
  td_infer_out(c, 0, sum);
  return NULL;
}

static td_status *concat_v1_infer(td_infer *c) {
  return concat_infer(c, 1, td_infer_inputs(c) - 1, 0);
}

static td_status *concat_v2_infer(td_infer *c) {
  int n = td_infer_inputs(c) - 1;
  return concat_infer(c, 0, n, n);
}

/* Vectors of which at least the lengths are known. */
static bool concat_value(td_infer *c, int out, td_small *v) {
  (void)out;
  *v = (td_small){.rank = 1};
  for (int i = 0; i < td_infer_inputs(c) - 1; i++) {
    td_small part;
    if (!td_infer_small(c, i, &part) || part.rank != 1) return false;
    if (v->count + part.count > TD_SMALL_MAX) return false;
    for (int k = 0; k < part.count; k++) {
      v->known[v->count] = part.known[k];
      v->at[v->count++] = part.at[k];
    }
  }
  return true;
}

/* ---- Concat -------------------------------------------------------------- */

/* Moves input i to where it belongs: `at` elements into each of the `before`
 * rows of the output, of `row` elements. */
static td_status *place(td_kernel_ctx *c, int i, td_array *y, int64_t before,
                        int64_t row, int64_t at) {
  int64_t n = td_tensor_count(td_in(c, i));
  td_array x;
  td_strided_copy m;
  td_strided_copy_init(&m);
  if (n == 0) return NULL;
  TD_TRY(td_array_in(td_in(c, i), &x));
  td_strided_copy_loop(&m, before, n / before, row);
  td_strided_copy_loop(&m, n / before, 1, 1);
  td_status *s =
      td_strided_copy_do(c, &m, y->size, x.at, y->at + at * (int64_t)y->size);
  td_array_drop(&x);
  return s;
}

static td_status *concat_place(td_kernel_ctx *c, int first, int n, int axis,
                               td_array *y) {
  int64_t before = td_shape_span(&y->shape, 0, axis), at = 0;
  int64_t row = td_shape_span(&y->shape, axis, y->shape.rank);
  for (int i = first; i < first + n; i++) {
    const td_shape *s = &td_in(c, i)->shape;
    TD_TRY(place(c, i, y, before, row, at));
    at += td_shape_span(s, axis, s->rank);
  }
  return td_array_done(c, 0, y);
}

static td_status *concat_run(td_kernel_ctx *c, int first, int n, int axis_in) {
  td_shape sum = td_in(c, first)->shape;
  td_array y;
  int64_t count = 0;
  int axis;
  TD_TRY(td_operand_axis(td_in(c, axis_in), sum.rank, "axis", &axis));
  for (int i = 0; i < n; i++)
    TD_TRY(join(i, &td_in(c, first + i)->shape, axis, &sum));
  TD_TRY(td_array_count(&sum, &count));
  for (int i = first; i < first + n; i++) /* the others are empty */
    if (td_tensor_count(td_in(c, i)) == count)
      return td_array_share(c, 0, i, &sum);
  TD_TRY(td_array_out(c, 0, &sum, &y));
  td_status *s = concat_place(c, first, n, axis, &y);
  td_array_drop(&y);
  return s;
}

td_status *td_moves_concat(td_kernel_ctx *c) {
  return concat_run(c, 1, c->n_in - 1, 0);
}

td_status *td_moves_concat_v2(td_kernel_ctx *c) {
  return concat_run(c, 0, c->n_in - 1, c->n_in - 1);
}

/* ---- ConcatOffset -------------------------------------------------------- */

static td_status *offset_infer(td_infer *c) {
  td_shape all = td_shape_ranked(1);
  td_shape_text a, b;
  TD_TRY(td_infer_rank(c, 0, 0, "concat_dim", NULL));
  for (int i = 1; i < td_infer_inputs(c); i++) {
    const td_shape *s = td_infer_in(c, i);
    if (!td_shape_merge(&all, s, &all))
      return td_error(TD_INVALID_ARGUMENT,
                      "shapes must be vectors of one length: shape %d is %s, "
                      "those before it %s",
                      i - 1, td_shape_str(s, &a), td_shape_str(&all, &b));
  }
  for (int i = 0; i < td_infer_outputs(c); i++) td_infer_out(c, i, all);
  return NULL;
}

static td_status *offset_check(td_kernel_ctx *c, int rank, int axis) {
  for (int i = 1; i < c->n_in; i++) {
    const td_tensor *t = td_in(c, i);
    if (t->shape.rank != 1 || t->shape.dim[0] != rank)
      return td_error(TD_INVALID_ARGUMENT,
                      "shape %d must be a vector of %d sizes, as shape 0",
                      i - 1, rank);
    for (int k = 0; k < rank; k++) {
      int64_t have = td_tensor_get_i(t, k), want;
      want = td_tensor_get_i(td_in(c, 1), k);
      if (k != axis && have != want)
        return td_error(TD_INVALID_ARGUMENT,
                        "shapes must agree in every size but %d: size %d of "
                        "shape %d is %lld, of shape 0 %lld",
                        axis, k, i - 1, (long long)have, (long long)want);
    }
  }
  return NULL;
}

static td_status *offset_run(td_kernel_ctx *c) {
  const td_shape shape = td_in(c, 1)->shape;
  int64_t dim = 0, at = 0;
  int axis;
  if (shape.rank != 1 || shape.dim[0] > TD_SMALL_MAX)
    return td_error(TD_INVALID_ARGUMENT, "shape 0 must be a vector of sizes");
  int rank = (int)shape.dim[0];
  TD_TRY(td_operand_scalar(td_in(c, 0), "concat_dim", &dim));
  TD_TRY(td_infer_axis(dim, rank, "concat_dim", &axis));
  TD_TRY(offset_check(c, rank, axis));
  for (int i = 1; i < c->n_in; i++) {
    td_tensor *y;
    TD_TRY(td_out(c, i - 1, &shape, &y));
    for (int k = 0; k < rank; k++) td_tensor_set_i(y, k, 0);
    TD_TRY(td_array_put(y, axis, at, "an offset"));
    if (__builtin_add_overflow(at, td_tensor_get_i(td_in(c, i), axis), &at))
      return td_error(TD_INVALID_ARGUMENT, "the sizes sum to over 2^63-1");
  }
  return NULL;
}

/* ---- Pack ---------------------------------------------------------------- */

static td_status *pack_to(const td_shape *each, int64_t n, int64_t given,
                          int *axis, td_shape *out) {
  TD_TRY(td_shape_check_rank(each->rank + 1));
  TD_TRY(td_infer_axis(given, each->rank + 1, "axis", axis));
  *out = td_shape_ranked(each->rank + 1);
  for (int k = 0; k < each->rank; k++)
    out->dim[k + (k >= *axis)] = each->dim[k];
  out->dim[*axis] = n;
  return NULL;
}

static td_status *pack_merge(int i, const td_shape *s, td_shape *all) {
  td_shape_text a, b;
  if (td_shape_merge(all, s, all)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "values must have one shape: value %d is %s, those before "
                  "it %s",
                  i, td_shape_str(s, &a), td_shape_str(all, &b));
}

static td_status *pack_infer(td_infer *c) {
  td_shape each = td_shape_unknown(), out;
  int n = td_infer_inputs(c), axis;
  for (int i = 0; i < n; i++) TD_TRY(pack_merge(i, td_infer_in(c, i), &each));
  if (each.rank < 0) return NULL;
  TD_TRY(pack_to(&each, n, td_infer_int(c, "axis"), &axis, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static bool pack_value(td_infer *c, int out, td_small *v) {
  int n = td_infer_inputs(c);
  (void)out;
  if (n > TD_SMALL_MAX) return false;
  *v = (td_small){.rank = 1, .count = n};
  for (int i = 0; i < n; i++) {
    td_small x;
    if (td_infer_in(c, i)->rank > 0) return false;
    if (!td_infer_small(c, i, &x) || x.rank != 0) continue;
    v->at[i] = x.at[0];
    v->known[i] = x.known[0];
  }
  return true;
}

td_status *td_moves_pack(td_kernel_ctx *c) {
  td_shape each = td_in(c, 0)->shape, shape;
  td_array y;
  int axis;
  for (int i = 1; i < c->n_in; i++)
    TD_TRY(pack_merge(i, &td_in(c, i)->shape, &each));
  TD_TRY(pack_to(&each, c->n_in, td_node_int(td_ctx_node(c), "axis"), &axis,
                 &shape));
  if (c->n_in == 1) return td_array_share(c, 0, 0, &shape);
  TD_TRY(td_array_out(c, 0, &shape, &y));
  int64_t before = td_shape_span(&each, 0, axis);
  int64_t after = td_shape_span(&each, axis, each.rank);
  td_status *s = NULL;
  for (int i = 0; i < c->n_in && td_ok(s); i++)
    s = place(c, i, &y, before, c->n_in * after, i * after);
  if (td_ok(s)) s = td_array_done(c, 0, &y);
  td_array_drop(&y);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "ConcatV2",
     .sig = "values: N*T, axis: Tidx -> output: T; "
            "N: int >= 2; T: type; Tidx: {int32, int64} = int32",
     .shape = concat_v2_infer,
     .cost = td_cost_move,
     .value = concat_value,
     .doc = "The values joined along an axis.",
     .lua = "concat",
     .host = "axis",
     .section = "Array"},
    {.type = "Concat",
     .sig = "concat_dim: int32, values: N*T -> output: T; "
            "N: int >= 2; T: type",
     .shape = concat_v1_infer,
     .cost = td_cost_move,
     .doc = "The values joined along an axis; the older form.",
     .lua = "",
     .host = "concat_dim",
     .section = "Array"},
    {.type = "ConcatOffset",
     .sig = "concat_dim: int32, shape: N*shape_type -> offset: N*shape_type; "
            "N: int >= 2; shape_type: {int32, int64} = int32",
     .shape = offset_infer,
     .doc = "Where each of several values begins in their concatenation, "
            "from their shapes.",
     .lua = "",
     .flags = TD_NO_GRADIENT | TD_CHEAP,
     .host = "*",
     .section = "Array"},
    {.type = "Pack",
     .sig = "values: N*T -> output: T; N: int >= 1; T: type; axis: int = 0",
     .shape = pack_infer,
     .cost = td_cost_move,
     .value = pack_value,
     .doc = "The values, of one shape, joined along a new axis.",
     .lua = "stack",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ConcatV2", .device = "CPU", .run = td_moves_concat_v2},
    {.op = "Concat", .device = "CPU", .run = td_moves_concat},
    {.op = "ConcatOffset",
     .device = "CPU",
     .run = offset_run,
     .flags = TD_KERNEL_INLINE},
    {.op = "Pack", .device = "CPU", .run = td_moves_pack},
    {0},
};

TD_MODULE(concat, ops, kernels)
