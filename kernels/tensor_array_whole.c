/* tensor_array_whole.c - arrays of tensors as one tensor, and back: gather,
 * concat; scatter, split.
 *
 * What becomes elements (scatter, split) is not copied: they are views of its
 * rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/array.h"
#include "kernels/cpu.h"
#include "kernels/step_array.h"

/* ---- reading ------------------------------------------------------------- */

/* What was read; those that were never written are TD_INVALID. */
typedef struct parts {
  td_tensor *at; /* owned, and counted each */
  int64_t n;
} parts;

static void drop_parts(parts *p) {
  for (int64_t i = 0; i < p->n; i++) td_tensor_release(&p->at[i]);
  td_free(p->at);
}

/* Reads n elements, `index` (NULL: all in order). Ends with drop_parts in any
 * case. */
static td_status *read_parts(td_kernel_ctx *c, td_step_array *a,
                             const int32_t *index, int64_t n, parts *p) {
  *p = (parts){.at = td_calloc((size_t)n + 1, sizeof *p->at)};
  if (!p->at) return td_oom();
  for (int64_t i = 0; i < n; i++) {
    td_tensor t;
    TD_TRY(td_step_array_read(c, a, index ? index[i] : i, &t));
    p->at[p->n++] = t;
  }
  return NULL;
}

typedef struct join_job {
  const parts *from;
  td_array *to;
  const int64_t *begin; /* where each begins, in elements; n + 1 of them */
} join_job;

static void join_piece(void *arg, int64_t begin, int64_t end) {
  const join_job *j = arg;
  for (int64_t i = begin; i < end; i++) {
    const td_tensor *t = &j->from->at[i];
    int64_t at = j->begin[i], n = j->begin[i + 1] - at;
    char *to = j->to->at + (size_t)at * j->to->size;
    if (n == 0) continue;
    if (td_tensor_valid(t))
      memcpy(to, t->data, (size_t)n * j->to->size);
    else
      memset(to, 0, (size_t)n * j->to->size);
  }
}

/* Strings and objects, one part after the other. */
static td_status *join_objects(const join_job *j) {
  for (int64_t i = 0; i < j->from->n; i++) {
    td_array x;
    if (!td_tensor_valid(&j->from->at[i])) continue;
    TD_TRY(td_array_in(&j->from->at[i], &x));
    int64_t at = j->begin[i], n = j->begin[i + 1] - at;
    memcpy(j->to->at + (size_t)at * x.size, x.at, (size_t)n * x.size);
    td_array_drop(&x);
  }
  return NULL;
}

/* Output 0, of `shape`: the parts one after the other. */
static td_status *out_joined(td_kernel_ctx *c, const parts *p,
                             const int64_t *begin, const td_shape *shape) {
  td_array y;
  td_status *s = NULL;
  TD_TRY(td_array_out(c, 0, shape, &y));
  join_job j = {p, &y, begin};
  int64_t all = begin[p->n];
  if (!td_dtype_is_plain(y.dtype))
    s = join_objects(&j);
  else if (p->n)
    td_for(c, p->n, td_grain_of(all / p->n), join_piece, &j);
  if (td_ok(s)) s = td_array_done(c, 0, &y);
  td_array_drop(&y);
  return s;
}

/* Where each of the parts begins. Caller frees *out. */
static td_status *begins(const parts *p, int64_t **out) {
  int64_t *begin = td_calloc((size_t)p->n + 1, sizeof *begin);
  if (!begin) return td_oom();
  for (int64_t i = 0; i < p->n; i++)
    begin[i + 1] = begin[i] + td_shape_count(&p->at[i].shape);
  *out = begin;
  return NULL;
}

/* A shape of n elements, each of a known shape. */
static td_status *stacked(const td_shape *each, int64_t n, td_shape *out) {
  int64_t count = 0;
  if (each->rank == TD_MAX_RANK)
    return td_error(TD_INVALID_ARGUMENT,
                    "elements of rank %d have no room for another dimension",
                    each->rank);
  *out = *each;
  out->rank++;
  out->dim[0] = n;
  for (int k = 0; k < each->rank; k++) out->dim[k + 1] = each->dim[k];
  return td_array_count(out, &count);
}

/* All parts have one shape, which *each agrees with; sets it. */
static td_status *same_shape(const parts *p, td_shape *each) {
  td_shape_text a, b;
  for (int64_t i = 0; i < p->n; i++)
    if (!td_shape_merge(each, &p->at[i].shape, each))
      return td_error(TD_INVALID_ARGUMENT,
                      "elements must have one shape: element %lld is of %s, "
                      "those before it %s",
                      (long long)i, td_shape_str(&p->at[i].shape, &a),
                      td_shape_str(each, &b));
  if (td_shape_known(each)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "there are no elements, and their shape, %s, is not known "
                  "without them",
                  td_shape_str(each, &a));
}

static td_status *gather_parts(td_kernel_ctx *c, const parts *p,
                               td_shape each) {
  td_shape shape;
  int64_t *begin = NULL;
  TD_TRY(same_shape(p, &each));
  TD_TRY(stacked(&each, p->n, &shape));
  TD_TRY(begins(p, &begin));
  td_status *s = out_joined(c, p, begin, &shape);
  td_free(begin);
  return s;
}

static td_status *gather_run(td_kernel_ctx *c) {
  const td_tensor *index = td_in(c, 1);
  const td_node *n = td_ctx_node(c);
  const td_shape *said = td_attr_as_shape(td_node_attr(n, "element_shape"));
  td_step_array *a = NULL;
  td_shape_text text;
  td_shape each;
  parts p;
  if (index->shape.rank != 1)
    return td_error(TD_INVALID_ARGUMENT, "indices must be a vector, not of %s",
                    td_shape_str(&index->shape, &text));
  TD_TRY(td_step_array_find(c, n->out[0].dtype, &a));
  TD_TRY(td_step_array_shape(a, said, &each));
  td_status *s = read_parts(c, a, index->data, index->shape.dim[0], &p);
  if (td_ok(s)) s = gather_parts(c, &p, each);
  drop_parts(&p);
  return s;
}

/* ---- concat -------------------------------------------------------------- */

static td_status *without_first(const td_shape *s, td_shape *out) {
  if (s->rank == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "elements are scalars: they are stacked, not joined");
  *out = *s;
  for (int k = 1; k < s->rank; k++) out->dim[k - 1] = s->dim[k];
  if (s->rank > 0) out->rank--;
  return NULL;
}

/* The shape of the parts end to end, of which `rest` says all but the first
 * dimension; and the lengths as output 1. */
static td_status *concat_shape(td_kernel_ctx *c, const parts *p, td_shape rest,
                               td_shape *out) {
  td_shape vector = td_shape_vector(p->n), own;
  td_shape_text a, b;
  td_tensor *lengths;
  int64_t sum = 0;
  TD_TRY(td_out(c, 1, &vector, &lengths));
  for (int64_t i = 0; i < p->n; i++) {
    const td_shape *s = &p->at[i].shape;
    TD_TRY(without_first(s, &own));
    if (!td_shape_merge(&rest, &own, &rest))
      return td_error(TD_INVALID_ARGUMENT,
                      "elements must agree in all dimensions but the first: "
                      "element %lld is of %s, those before it end with %s",
                      (long long)i, td_shape_str(s, &a),
                      td_shape_str(&rest, &b));
    td_tensor_set_i(lengths, i, s->dim[0]);
    if (__builtin_add_overflow(sum, s->dim[0], &sum))
      return td_error(TD_INVALID_ARGUMENT, "the lengths sum to over 2^63-1");
  }
  if (!td_shape_known(&rest))
    return td_error(TD_INVALID_ARGUMENT,
                    "there are no elements, and their shape but for the first "
                    "dimension, %s, is not known without them",
                    td_shape_str(&rest, &a));
  return stacked(&rest, sum, out);
}

static td_status *concat_parts(td_kernel_ctx *c, const parts *p,
                               const td_shape *rest) {
  td_shape shape;
  int64_t *begin = NULL;
  TD_TRY(concat_shape(c, p, *rest, &shape));
  TD_TRY(begins(p, &begin));
  td_status *s = out_joined(c, p, begin, &shape);
  td_free(begin);
  return s;
}

static td_status *concat_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  const td_shape *said =
      td_attr_as_shape(td_node_attr(n, "element_shape_except0"));
  td_shape any = td_shape_unknown(), each, rest;
  td_shape_text a, b;
  td_step_array *array = NULL;
  int64_t size = 0;
  parts p;
  TD_TRY(td_step_array_find(c, n->out[0].dtype, &array));
  TD_TRY(td_step_array_size(array, &size));
  TD_TRY(td_step_array_shape(array, &any, &each));
  TD_TRY(without_first(&each, &rest));
  if (!td_shape_merge(&rest, said, &rest))
    return td_error(TD_INVALID_ARGUMENT,
                    "element_shape_except0 is %s, but the elements are of %s",
                    td_shape_str(said, &a), td_shape_str(&each, &b));
  td_status *s = read_parts(c, array, NULL, size, &p);
  if (td_ok(s)) s = concat_parts(c, &p, &rest);
  drop_parts(&p);
  return s;
}

/* ---- writing ------------------------------------------------------------- */

/* Puts rows [begin, begin + n) of `t`; n < 0: row `begin`, without its first
 * dimension. */
static td_status *write_rows(td_kernel_ctx *c, td_step_array *a, int64_t i,
                             const td_tensor *t, int64_t begin, int64_t n) {
  td_tensor rows, row;
  td_shape each;
  TD_TRY(td_tensor_rows(t, begin, n < 0 ? 1 : n, &rows));
  if (n >= 0) {
    td_status *s = td_step_array_write(c, a, i, &rows);
    td_tensor_release(&rows);
    return s;
  }
  td_status *s = without_first(&rows.shape, &each);
  if (td_ok(s)) s = td_tensor_reshape(&rows, &each, &row);
  td_tensor_release(&rows);
  if (!td_ok(s)) return s;
  s = td_step_array_write(c, a, i, &row);
  td_tensor_release(&row);
  return s;
}

static td_status *scatter_run(td_kernel_ctx *c) {
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
    TD_TRY(write_rows(c, a, ((const int32_t *)index->data)[i], value, i, -1));
  td_out_pass(c, 0, 3);
  return NULL;
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

static td_status *split_run(td_kernel_ctx *c) {
  const td_tensor *value = td_in(c, 1), *lengths = td_in(c, 2);
  td_step_array *a = NULL;
  int64_t at = 0;
  TD_TRY(check_lengths(value, lengths));
  TD_TRY(td_step_array_find(c, value->dtype, &a));
  TD_TRY(td_step_array_fit(a, lengths->shape.dim[0]));
  for (int64_t i = 0; i < lengths->shape.dim[0]; i++) {
    int64_t n = td_tensor_get_i(lengths, i);
    TD_TRY(write_rows(c, a, i, value, at, n));
    at += n;
  }
  td_out_pass(c, 0, 3);
  return NULL;
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
  if (each->rank == TD_MAX_RANK)
    return td_error(TD_INVALID_ARGUMENT,
                    "elements of rank %d have no room for another dimension",
                    each->rank);
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
     .doc = "Elements of an array side by side along a new axis.",
     .flags = TD_STATEFUL,
     .host = "indices",
     SECTION},
    {.type = "TensorArrayScatterV3",
     .sig = "handle: resource, indices: int32, value: T, flow_in: float -> "
            "flow_out: float; T: type",
     .shape = scatter_infer,
     .doc = "Puts the slices of value into an array.",
     .flags = TD_STATEFUL,
     .host = "indices",
     SECTION},
    {.type = "TensorArrayConcatV3",
     .sig = "handle: resource, flow_in: float -> value: dtype, "
            "lengths: int64; dtype: type; element_shape_except0: shape = ?",
     .shape = concat_infer,
     .doc = "All elements of an array one after the other, and how long each "
            "is.",
     .flags = TD_STATEFUL,
     .host = "lengths",
     SECTION},
    {.type = "TensorArraySplitV3",
     .sig = "handle: resource, value: T, lengths: int64, flow_in: float -> "
            "flow_out: float; T: type",
     .shape = split_infer,
     .doc = "Puts parts of value, of those lengths, into an array.",
     .flags = TD_STATEFUL,
     .host = "lengths",
     SECTION},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "TensorArrayGatherV3", .device = "CPU", .run = gather_run},
    {.op = "TensorArrayScatterV3", .device = "CPU", .run = scatter_run},
    {.op = "TensorArrayConcatV3", .device = "CPU", .run = concat_run},
    {.op = "TensorArraySplitV3", .device = "CPU", .run = split_run},
    {0},
};

TD_MODULE(tensor_array_whole, ops, kernels)
