/* string_join.c - StringJoin, ReduceJoin: strings behind one another.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"
#include "kernels/operand.h"
#include "kernels/text.h"

static td_bytes separator_of(td_kernel_ctx *c) {
  const td_attr *a = td_node_attr(td_ctx_node(c), "separator");
  return a ? a->s : (td_bytes){"", 0};
}

/* ---- StringJoin ---------------------------------------------------------- */

/* The shape that all inputs have but for scalars. */
static td_status *join_shape(const td_shape *in, td_shape *all) {
  td_shape_text a, b;
  if (in->rank == 0) return NULL;
  if (all->rank == 0 || td_shape_merge(in, all, all)) {
    if (all->rank == 0) *all = *in;
    return NULL;
  }
  return td_error(TD_INVALID_ARGUMENT,
                  "inputs must be scalars or of one shape, not %s and %s",
                  td_shape_str(all, &a), td_shape_str(in, &b));
}

static td_status *join_infer(td_infer *c) {
  td_shape all = td_shape_scalar();
  bool unknown = false;
  for (int i = 0; i < td_infer_inputs(c); i++) {
    if (td_infer_in(c, i)->rank < 0)
      unknown = true;
    else
      TD_TRY(join_shape(td_infer_in(c, i), &all));
  }
  td_infer_out(c, 0, unknown && all.rank == 0 ? td_shape_unknown() : all);
  return NULL;
}

static td_status *join_run(td_kernel_ctx *c) {
  td_shape all = td_shape_scalar();
  td_bytes between = separator_of(c);
  td_text t = {0};
  for (int i = 0; i < c->n_in; i++)
    TD_TRY(join_shape(&td_in(c, i)->shape, &all));
  int64_t count = td_shape_count(&all);
  if (!td_text_reserve(&t, count)) return td_oom();
  for (int64_t k = 0; k < count; k++) {
    for (int i = 0; i < c->n_in; i++) {
      const td_tensor *x = td_in(c, i);
      td_bytes s = td_text_at(x, x->shape.rank ? k : 0);
      if (i > 0) td_str_addn(&t.all, between.at, between.len);
      td_str_addn(&t.all, s.at, s.len);
    }
    td_text_end(&t);
  }
  td_status *s = td_text_out(c, 0, &all, &t);
  td_text_drop(&t);
  return s;
}

/* ---- ReduceJoin ---------------------------------------------------------- */

/* The axes to join: those named first are joined first, so that they change
 * fastest; `at` has them last. */
typedef struct axes {
  int n, at[TD_MAX_RANK];
  bool joined[TD_MAX_RANK];
} axes;

/* No more than there are: the next would be one of them. */
static td_status *read_axes(const td_small *v, int rank, axes *a) {
  *a = (axes){0};
  for (int i = 0; i < v->count; i++) {
    if (v->at[i] < -rank || v->at[i] >= rank)
      return td_error(TD_OUT_OF_RANGE,
                      "reduction_indices must be in [%d, %d) for rank %d, is "
                      "%lld",
                      -rank, rank, rank, (long long)v->at[i]);
    int axis = (int)(v->at[i] < 0 ? v->at[i] + rank : v->at[i]);
    if (a->joined[axis])
      return td_error(TD_INVALID_ARGUMENT,
                      "reduction_indices names axis %d twice", axis);
    a->joined[axis] = true;
    a->at[a->n++] = axis;
  }
  for (int i = 0, j = a->n - 1; i < j; i++, j--) {
    int axis = a->at[i];
    a->at[i] = a->at[j];
    a->at[j] = axis;
  }
  return NULL;
}

static td_shape reduced_shape(const td_shape *x, const axes *a, bool keep) {
  td_shape out = td_shape_scalar();
  for (int k = 0; k < x->rank; k++)
    if (!a->joined[k])
      out.dim[out.rank++] = x->dim[k];
    else if (keep)
      out.dim[out.rank++] = 1;
  return out;
}

static td_status *reduce_infer(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0);
  td_small v;
  bool known;
  axes a;
  TD_TRY(td_operand_infer_ints(c, 1, "reduction_indices", &v, &known));
  bool keep = td_infer_bool(c, "keep_dims");
  if (x->rank < 0) return NULL;
  if (known && td_operand_known(&v)) {
    TD_TRY(read_axes(&v, x->rank, &a));
    td_infer_out(c, 0, reduced_shape(x, &a, keep));
  } else if (keep) {
    td_infer_out(c, 0, td_shape_ranked(x->rank));
  }
  return NULL;
}

/* Where in the input the string at `index` along `n` axes of `x` begins. */
static int64_t place_of(const td_shape *x, const int64_t *step, const int *at,
                        int n, int64_t index) {
  int64_t place = 0;
  for (int k = n - 1; k >= 0; k--) {
    place += index % x->dim[at[k]] * step[at[k]];
    index /= x->dim[at[k]];
  }
  return place;
}

static void join_axes(const td_tensor *x, const axes *a, td_bytes between,
                      int64_t count, td_text *t) {
  int64_t step[TD_MAX_RANK], joined = 1;
  int kept[TD_MAX_RANK], n = 0;
  for (int k = 0; k < x->shape.rank; k++) {
    step[k] = td_shape_span(&x->shape, k + 1, x->shape.rank);
    if (a->joined[k])
      joined *= x->shape.dim[k];
    else
      kept[n++] = k;
  }
  for (int64_t i = 0; i < count; i++) {
    int64_t first = place_of(&x->shape, step, kept, n, i);
    for (int64_t j = 0; j < joined; j++) {
      int64_t at = first + place_of(&x->shape, step, a->at, a->n, j);
      td_bytes s = td_text_at(x, at);
      if (j > 0) td_str_addn(&t->all, between.at, between.len);
      td_str_addn(&t->all, s.at, s.len);
    }
    td_text_end(t);
  }
}

static td_status *reduce_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  td_small v;
  axes a;
  td_text t = {0};
  TD_TRY(td_operand_ints(td_in(c, 1), "reduction_indices", &v));
  TD_TRY(read_axes(&v, x->shape.rank, &a));
  td_shape out =
      reduced_shape(&x->shape, &a, td_node_bool(td_ctx_node(c), "keep_dims"));
  int64_t count;
  TD_TRY(td_array_count(&out, &count));
  TD_TRY(td_array_fits(c, &out)); /* nothing joined is many strings too */
  if (!td_text_reserve(&t, count)) return td_oom();
  join_axes(x, &a, separator_of(c), count, &t);
  td_status *s = td_text_out(c, 0, &out, &t);
  td_text_drop(&t);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "StringJoin",
     .sig = "inputs: N*string -> output: string; N: int >= 0; "
            "separator: string = \"\"",
     .shape = join_infer,
     .doc = "The strings at one place of every input, joined; scalars are at "
            "every place.",
     .example = "td.string_join({\"a\", \"b\"}, {separator = \"-\"})  --> a-b",
     .section = "Strings"},
    {.type = "ReduceJoin",
     .sig = "inputs: string, reduction_indices: int32 -> output: string; "
            "keep_dims: bool = false; separator: string = \"\"",
     .shape = reduce_infer,
     .doc = "The strings along axes, joined, those named first joined first.",
     .host = "reduction_indices",
     .section = "Strings"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "StringJoin", .device = "CPU", .run = join_run},
    {.op = "ReduceJoin", .device = "CPU", .run = reduce_run},
    {0},
};

TD_MODULE(string_join, ops, kernels)
