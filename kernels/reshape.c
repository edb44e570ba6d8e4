/* reshape.c - Reshape, ExpandDims, Squeeze: the same elements under another
 * shape, in the same buffer.
 *
 * A rule for sizes is written once, for sizes known in part: the shape function
 * uses it with what is known, the kernel with everything.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/operand.h"

/* ---- Reshape ------------------------------------------------------------- */

static int64_t nonzero_product(const td_shape *s) {
  int64_t n = 1;
  for (int k = 0; k < s->rank; k++)
    if (s->dim[k] > 0) n *= s->dim[k];
  return n;
}

static td_status *cannot_reshape(const td_shape *in, const td_shape *to) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT,
                  "cannot reshape %s (%lld elements) to %s",
                  td_shape_str(in, &a), (long long)td_shape_count(in),
                  td_shape_str(to, &b));
}

/* Finds the one size of `out` that is open, at `hole`, from the elements of
 * `in`. Where there are none, as TensorFlow: from the sizes that are not 0. */
static td_status *fill_hole(const td_shape *in, int hole, td_shape *out) {
  td_shape rest = *out;
  rest.dim[hole] = 1;
  int64_t have = td_shape_count(in), given = td_shape_count(&rest);
  if (have < 0) return NULL;
  if (given < 0 || (given == 0 && have > 0)) return cannot_reshape(in, out);
  if (given == 0)
    out->dim[hole] = nonzero_product(in) / nonzero_product(&rest);
  else if (have % given != 0)
    return cannot_reshape(in, out);
  else
    out->dim[hole] = have / given;
  return NULL;
}

/* The shape that `sizes` ask for; what is not known of it is -1. */
static td_status *reshape_to(const td_shape *in, const td_small *sizes,
                             td_shape *out) {
  int hole = -1, holes = 0, wild = -1;
  TD_TRY(td_shape_check_rank(sizes->count));
  *out = td_shape_ranked(sizes->count);
  for (int k = 0; k < sizes->count; k++) {
    int64_t size = sizes->at[k];
    if (sizes->known[k] && size < -1)
      return td_error(TD_INVALID_ARGUMENT,
                      "size %d of shape must be -1 or more, is %lld", k,
                      (long long)size);
    if (sizes->known[k] && size == -1 && wild >= 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "only one size of shape may be -1, not %d and %d", wild,
                      k);
    if (sizes->known[k] && size == -1) wild = k;
    if (sizes->known[k] && size >= 0) {
      out->dim[k] = size;
    } else {
      hole = k;
      holes++;
    }
  }
  if (holes == 1) return fill_hole(in, hole, out);
  int64_t have = td_shape_count(in);
  if (holes == 0 && have >= 0 && td_shape_count(out) != have)
    return cannot_reshape(in, out);
  return NULL;
}

static td_status *reshape_infer(td_infer *c) {
  td_small sizes;
  td_shape out;
  bool known;
  TD_TRY(td_operand_infer_ints(c, 1, "shape", &sizes, &known));
  if (!known) return NULL;
  TD_TRY(reshape_to(td_infer_in(c, 0), &sizes, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

/* A vector of one becomes a scalar, and back. */
static bool reshape_value(td_infer *c, int out, td_small *v) {
  td_small sizes;
  (void)out;
  if (!td_infer_small(c, 0, v) || !td_infer_small(c, 1, &sizes)) return false;
  if (sizes.count > 1) return false;
  if (sizes.count == 0 && v->count != 1) return false;
  v->rank = sizes.count;
  return true;
}

static td_status *reshape_run(td_kernel_ctx *c) {
  td_small sizes;
  td_shape shape;
  TD_TRY(td_operand_ints(td_in(c, 1), "shape", &sizes));
  TD_TRY(reshape_to(&td_in(c, 0)->shape, &sizes, &shape));
  return td_array_share(c, 0, 0, &shape);
}

/* ---- ExpandDims ---------------------------------------------------------- */

static td_status *expand_to(const td_shape *in, int axis, td_shape *out) {
  TD_TRY(td_shape_check_rank(in->rank + 1));
  *out = td_shape_ranked(in->rank + 1);
  for (int k = 0; k < in->rank; k++) out->dim[k + (k >= axis)] = in->dim[k];
  if (axis >= 0) out->dim[axis] = 1;
  return NULL;
}

static td_status *expand_infer(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  td_shape out;
  int axis, rank = in->rank < 0 ? -1 : in->rank + 1;
  TD_TRY(td_operand_infer_axis(c, 1, rank, "dim", &axis));
  if (rank < 0) return NULL;
  TD_TRY(expand_to(in, axis, &out));
  td_infer_out(c, 0, axis < 0 ? td_shape_ranked(rank) : out);
  return NULL;
}

static bool expand_value(td_infer *c, int out, td_small *v) {
  (void)out;
  if (!td_infer_small(c, 0, v) || v->rank != 0) return false;
  v->rank = 1;
  return true;
}

static td_status *expand_run(td_kernel_ctx *c) {
  const td_shape *in = &td_in(c, 0)->shape;
  td_shape shape;
  int axis;
  TD_TRY(td_operand_axis(td_in(c, 1), in->rank + 1, "dim", &axis));
  TD_TRY(expand_to(in, axis, &shape));
  return td_array_share(c, 0, 0, &shape);
}

/* ---- Squeeze ------------------------------------------------------------- */

/* `in` is of known rank. Without axes every size of 1 goes; one that is not
 * known leaves the rank open. */
static td_status *squeeze_to(const td_shape *in, const td_attr *axes,
                             td_shape *out) {
  bool drop[TD_MAX_RANK] = {false};
  int n = axes ? axes->len : 0;
  for (int i = 0; i < n; i++) {
    int axis;
    TD_TRY(td_infer_axis(axes->is[i], in->rank, "squeeze_dims", &axis));
    if (in->dim[axis] > 1 || in->dim[axis] == 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "dimension %d cannot be squeezed: its size is %lld, "
                      "not 1",
                      axis, (long long)in->dim[axis]);
    drop[axis] = true;
  }
  *out = td_shape_scalar();
  for (int k = 0; k < in->rank; k++) {
    if (drop[k] || (n == 0 && in->dim[k] == 1)) continue;
    if (n == 0 && in->dim[k] < 0) {
      *out = td_shape_unknown();
      return NULL;
    }
    out->dim[out->rank++] = in->dim[k];
  }
  return NULL;
}

static td_status *squeeze_infer(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  td_shape out;
  if (in->rank < 0) return NULL;
  TD_TRY(squeeze_to(in, td_infer_attr(c, "squeeze_dims"), &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static bool squeeze_value(td_infer *c, int out, td_small *v) {
  (void)out;
  if (!td_infer_small(c, 0, v) || v->count != 1) return false;
  v->rank = 0;
  return true;
}

static td_status *squeeze_run(td_kernel_ctx *c) {
  td_shape shape;
  TD_TRY(squeeze_to(&td_in(c, 0)->shape,
                    td_node_attr(td_ctx_node(c), "squeeze_dims"), &shape));
  return td_array_share(c, 0, 0, &shape);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Reshape",
     .sig = "tensor: T, shape: Tshape -> output: T; "
            "T: type; Tshape: {int32, int64} = int32",
     .shape = reshape_infer,
     .cost = td_cost_none,
     .value = reshape_value,
     .doc = "The same elements in another shape; one size may be -1: as "
            "many as are left.",
     .flags = TD_CHEAP,
     .host = "shape",
     .example =
         "td.reshape(td.tensor{1, 2, 3, 4}, {2, -1})  --> {2, 2} 1 2 3 4",
     .section = "Array"},
    {.type = "ExpandDims",
     .sig = "input: T, dim: Tdim -> output: T; "
            "T: type; Tdim: {int32, int64} = int32",
     .shape = expand_infer,
     .cost = td_cost_none,
     .value = expand_value,
     .doc = "Inserts a dimension of size 1 before dimension dim.",
     .flags = TD_CHEAP,
     .host = "dim",
     .section = "Array"},
    {.type = "Squeeze",
     .sig = "input: T -> output: T; "
            "T: type; squeeze_dims: list(int) >= 0 = {}",
     .shape = squeeze_infer,
     .cost = td_cost_none,
     .value = squeeze_value,
     .doc = "Drops dimensions of size 1: all, or those of squeeze_dims.",
     .flags = TD_CHEAP,
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Reshape",
     .device = "CPU",
     .run = reshape_run,
     .flags = TD_KERNEL_INLINE},
    {.op = "ExpandDims",
     .device = "CPU",
     .run = expand_run,
     .flags = TD_KERNEL_INLINE},
    {.op = "Squeeze",
     .device = "CPU",
     .run = squeeze_run,
     .flags = TD_KERNEL_INLINE},
    {0},
};

TD_MODULE(reshape, ops, kernels)
