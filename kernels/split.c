/* split.c - cutting a tensor along an axis: Split, SplitV, Unpack.
 *
 * A part that is dense in its source shares the source's buffer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/moves.h"
#include "kernels/strided_copy.h"
#include "kernels/operand.h"
#include "kernels/array.h"

/* Output i is [first, first + size) along `axis` of input `in`, in `shape`. */
static td_status *take_part(td_kernel_ctx *c, int i, int in, int axis,
                            int64_t first, int64_t size,
                            const td_shape *shape) {
  const td_shape *s = &td_in(c, in)->shape;
  int64_t before = td_shape_span(s, 0, axis);
  int64_t after = td_shape_span(s, axis + 1, s->rank);
  td_strided_copy m;
  td_strided_copy_init(&m);
  if (before == 1) {
    bool taken;
    TD_TRY(td_array_view(c, i, in, first * after, shape, &taken));
    if (taken) return NULL;
  }
  td_strided_copy_loop(&m, before, s->dim[axis] * after, size * after);
  td_strided_copy_loop(&m, size * after, 1, 1);
  return td_strided_copy_kernel(c, in, i, shape, &m, first * after);
}

/* ---- Split --------------------------------------------------------------- */

/* *size is -1 while the dimension is not known. */
static td_status *even_size(int64_t dim, int64_t n, int axis, int64_t *size) {
  *size = -1;
  if (dim < 0) return NULL;
  if (dim % n != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "num_split must divide the size of dimension %d: %lld "
                    "elements in %lld parts",
                    axis, (long long)dim, (long long)n);
  *size = dim / n;
  return NULL;
}

static td_status *no_scalar(const td_shape *s) {
  if (s->rank != 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "a scalar value has no axis to split");
}

static td_status *split_infer(td_infer *c) {
  td_shape s = *td_infer_in(c, 1);
  int n = td_infer_outputs(c), axis;
  TD_TRY(no_scalar(&s));
  TD_TRY(td_infer_rank(c, 0, 0, "split_dim", NULL));
  TD_TRY(td_operand_infer_axis(c, 0, s.rank, "split_dim", &axis));
  if (axis >= 0)
    TD_TRY(even_size(s.dim[axis], n, axis, &s.dim[axis]));
  else if (s.rank >= 0)
    s = td_shape_ranked(s.rank);
  for (int i = 0; i < n; i++) td_infer_out(c, i, s);
  return NULL;
}

/* Part `out` of `n`, of a vector that is known in part. */
static bool part_of(td_infer *c, int in, int64_t first, int64_t size,
                    td_small *v) {
  td_small all;
  if (!td_infer_small(c, in, &all) || all.rank != 1) return false;
  if (first < 0 || size < 0 || first > all.count || size > all.count - first)
    return false;
  *v = (td_small){.rank = 1, .count = (int)size};
  for (int k = 0; k < size; k++) {
    v->at[k] = all.at[first + k];
    v->known[k] = all.known[first + k];
  }
  return true;
}

static bool split_value(td_infer *c, int out, td_small *v) {
  const td_shape *s = td_infer_in(c, 1);
  int n = td_infer_outputs(c);
  if (s->rank != 1 || s->dim[0] < 0 || s->dim[0] % n != 0) return false;
  return part_of(c, 1, s->dim[0] / n * out, s->dim[0] / n, v);
}

td_status *td_moves_split(td_kernel_ctx *c) {
  td_shape s = td_in(c, 1)->shape;
  int64_t size, at = 0;
  int axis;
  TD_TRY(no_scalar(&s));
  TD_TRY(td_operand_scalar(td_in(c, 0), "split_dim", &at));
  TD_TRY(td_infer_axis(at, s.rank, "split_dim", &axis));
  TD_TRY(even_size(s.dim[axis], c->n_out, axis, &size));
  s.dim[axis] = size;
  for (int i = 0; i < c->n_out; i++)
    TD_TRY(take_part(c, i, 1, axis, i * size, size, &s));
  return NULL;
}

/* ---- SplitV -------------------------------------------------------------- */

/* size_splits, in a shape function perhaps known in part: a constant of any
 * length, or a small vector. */
typedef struct sizes {
  const td_tensor *t;
  td_small small;
  int n;
} sizes;

/* -2: not known. */
static int64_t size_at(const sizes *s, int i) {
  if (s->t) return td_tensor_get_i(s->t, i);
  return s->small.known[i] ? s->small.at[i] : -2;
}

static td_status *bad_sum(const char *relation, int64_t sum, int axis,
                          int64_t dim) {
  return td_error(TD_INVALID_ARGUMENT,
                  "size_splits sum to %lld, which is %s the %lld elements of "
                  "dimension %d",
                  (long long)sum, relation, (long long)dim, axis);
}

/* Checks the sizes against the dimension (-1: not known); *rest is what the
 * one that is -1 stands for, -1 when that cannot be told. */
static td_status *check_sizes(const sizes *s, int64_t dim, int axis,
                              int64_t *rest) {
  int64_t sum = 0;
  int wild = -1, unknown = 0;
  *rest = -1;
  for (int i = 0; i < s->n; i++) {
    int64_t size = size_at(s, i);
    if (size == -2 && !s->t) {
      unknown++;
    } else if (size == -1 && wild < 0) {
      wild = i;
    } else if (size < 0) {
      return td_error(TD_INVALID_ARGUMENT,
                      "size_splits[%d] is %lld: sizes are not negative, but "
                      "one may be -1",
                      i, (long long)size);
    } else if (__builtin_add_overflow(sum, size, &sum)) {
      return td_error(TD_INVALID_ARGUMENT, "size_splits sum to over 2^63-1");
    }
  }
  if (dim < 0) return NULL;
  if (sum > dim) return bad_sum("more than", sum, axis, dim);
  if (wild < 0 && !unknown && sum != dim)
    return bad_sum("less than", sum, axis, dim);
  if (wild >= 0 && !unknown) *rest = dim - sum;
  return NULL;
}

static td_status *check_count(const td_shape *s, int n) {
  td_shape_text text;
  td_shape want = td_shape_vector(n);
  if (td_shape_compatible(s, &want)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "size_splits must be a vector of num_split = %d sizes, not "
                  "of shape %s",
                  n, td_shape_str(s, &text));
}

/* False when nothing is known of them. */
static bool ask_sizes(td_infer *c, sizes *s) {
  *s = (sizes){.t = td_infer_const(c, 1), .n = td_infer_outputs(c)};
  if (s->t) return s->t->shape.rank == 1 && s->t->shape.dim[0] == s->n;
  return td_infer_small(c, 1, &s->small) && s->small.rank == 1 &&
         s->small.count == s->n;
}

static td_status *splitv_infer(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  int n = td_infer_outputs(c), axis;
  int64_t rest = -1;
  sizes s;
  TD_TRY(no_scalar(in));
  TD_TRY(check_count(td_infer_in(c, 1), n));
  TD_TRY(td_operand_infer_axis(c, 2, in->rank, "split_dim", &axis));
  if (in->rank < 0) return NULL;
  bool known = axis >= 0 && ask_sizes(c, &s);
  if (known) TD_TRY(check_sizes(&s, in->dim[axis], axis, &rest));
  for (int i = 0; i < n; i++) {
    td_shape out = axis < 0 ? td_shape_ranked(in->rank) : *in;
    int64_t size = known ? size_at(&s, i) : -1;
    if (axis >= 0) out.dim[axis] = size >= 0 ? size : size == -1 ? rest : -1;
    td_infer_out(c, i, out);
  }
  return NULL;
}

static bool splitv_value(td_infer *c, int out, td_small *v) {
  const td_shape *in = td_infer_in(c, 0);
  int64_t first = 0;
  sizes s;
  if (in->rank != 1 || !ask_sizes(c, &s)) return false;
  for (int i = 0; i <= out; i++) {
    int64_t size = size_at(&s, i);
    if (size < 0 || size > TD_SMALL_MAX) return false;
    if (i == out) return part_of(c, 0, first, size, v);
    first += size;
    if (first > TD_SMALL_MAX) return false;
  }
  return false;
}

td_status *td_moves_split_v(td_kernel_ctx *c) {
  const td_shape *in = &td_in(c, 0)->shape;
  sizes s = {.t = td_in(c, 1), .n = c->n_out};
  td_shape out = *in;
  int64_t rest, first = 0;
  int axis;
  TD_TRY(no_scalar(in));
  TD_TRY(check_count(&s.t->shape, s.n));
  TD_TRY(td_operand_axis(td_in(c, 2), in->rank, "split_dim", &axis));
  TD_TRY(check_sizes(&s, in->dim[axis], axis, &rest));
  for (int i = 0; i < s.n; i++) {
    int64_t size = size_at(&s, i);
    out.dim[axis] = size < 0 ? rest : size;
    TD_TRY(take_part(c, i, 0, axis, first, out.dim[axis], &out));
    first += out.dim[axis];
  }
  return NULL;
}

/* ---- Unpack -------------------------------------------------------------- */

static td_status *unpack_to(const td_shape *in, int64_t given, int num,
                            int *axis, td_shape *out) {
  TD_TRY(no_scalar(in));
  TD_TRY(td_infer_axis(given, in->rank, "axis", axis));
  if (in->dim[*axis] >= 0 && in->dim[*axis] != num)
    return td_error(TD_INVALID_ARGUMENT,
                    "num is %d, but dimension %d has %lld elements", num, *axis,
                    (long long)in->dim[*axis]);
  *out = td_shape_ranked(in->rank - 1);
  for (int k = 0; k < out->rank; k++) out->dim[k] = in->dim[k + (k >= *axis)];
  return NULL;
}

static td_status *unpack_infer(td_infer *c) {
  int n = td_infer_outputs(c), axis;
  td_shape out;
  if (td_infer_in(c, 0)->rank < 0) return NULL;
  TD_TRY(unpack_to(td_infer_in(c, 0), td_infer_int(c, "axis"), n, &axis, &out));
  for (int i = 0; i < n; i++) td_infer_out(c, i, out);
  return NULL;
}

static bool unpack_value(td_infer *c, int out, td_small *v) {
  if (!part_of(c, 0, out, 1, v)) return false;
  v->rank = 0;
  return true;
}

td_status *td_moves_unpack(td_kernel_ctx *c) {
  td_shape shape;
  int axis;
  TD_TRY(unpack_to(&td_in(c, 0)->shape, td_node_int(td_ctx_node(c), "axis"),
                   c->n_out, &axis, &shape));
  for (int i = 0; i < c->n_out; i++)
    TD_TRY(take_part(c, i, 0, axis, i, 1, &shape));
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Split",
     .sig = "split_dim: int32, value: T -> output: num_split*T; "
            "num_split: int >= 1; T: type",
     .shape = split_infer,
     .cost = td_cost_move,
     .value = split_value,
     .doc = "The value cut along an axis into num_split equal parts.",
     .host = "split_dim",
     .section = "Array"},
    {.type = "SplitV",
     .sig = "value: T, size_splits: Tlen, split_dim: int32 -> "
            "output: num_split*T; num_split: int >= 1; T: type; "
            "Tlen: {int8, int32, int64} = int64",
     .shape = splitv_infer,
     .cost = td_cost_move,
     .value = splitv_value,
     .doc = "The value cut along an axis into parts of the sizes given; one "
            "may be -1: what is left.",
     .lua = "",
     .host = "size_splits, split_dim",
     .section = "Array"},
    {.type = "Unpack",
     .sig = "value: T -> output: num*T; num: int >= 0; T: type; "
            "axis: int = 0",
     .shape = unpack_infer,
     .cost = td_cost_move,
     .value = unpack_value,
     .doc = "The num slices along an axis, which disappears.",
     .lua = "unstack",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Split", .device = "CPU", .run = td_moves_split},
    {.op = "SplitV", .device = "CPU", .run = td_moves_split_v},
    {.op = "Unpack", .device = "CPU", .run = td_moves_unpack},
    {0},
};

TD_MODULE(split, ops, kernels)
