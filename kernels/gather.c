/* gather.c - Gather, GatherV2: slices of one axis by index.
 *
 * params is seen as {batch, outer, along, inner}, indices as {batch, each}, the
 * result as {batch, outer, each, inner}: rows of `inner` elements are copied.
 * An index out of range is found while copying; of several the first is
 * reported, whichever thread meets it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/strided_copy.h"
#include "kernels/operand.h"
#include "kernels/array.h"
#include "kernels/row_plans.h"

#include <string.h>

/* ---- shapes -------------------------------------------------------------- */

/* `axis` -1: not known. */
static td_status *check_batch(const td_shape *params, const td_shape *indices,
                              int axis, int64_t batch) {
  td_shape_text a, b;
  if (batch < 0 || batch > indices->rank || batch >= params->rank ||
      (axis >= 0 && batch > axis))
    return td_error(TD_INVALID_ARGUMENT,
                    "batch_dims must be at most the rank of indices and the "
                    "axis; counted from 0 it is %lld for params %s, indices "
                    "%s, axis %d",
                    (long long)batch, td_shape_str(params, &a),
                    td_shape_str(indices, &b), axis);
  for (int k = 0; k < batch; k++)
    if (params->dim[k] >= 0 && indices->dim[k] >= 0 &&
        params->dim[k] != indices->dim[k])
      return td_error(TD_INVALID_ARGUMENT,
                      "params %s and indices %s must agree in the first %d "
                      "dimensions",
                      td_shape_str(params, &a), td_shape_str(indices, &b),
                      (int)batch);
  return NULL;
}

/* Both of known rank. */
static td_status *gather_to(const td_shape *params, const td_shape *indices,
                            int axis, int64_t from, td_shape *out) {
  int n = 0;
  TD_TRY(check_batch(params, indices, axis, from));
  int batch = (int)from, rank = params->rank - 1 + indices->rank - batch;
  TD_TRY(td_shape_check_rank(rank));
  *out = td_shape_ranked(rank);
  if (axis < 0) return NULL;
  for (int k = 0; k < axis; k++) out->dim[n++] = params->dim[k];
  for (int k = batch; k < indices->rank; k++) out->dim[n++] = indices->dim[k];
  for (int k = axis + 1; k < params->rank; k++) out->dim[n++] = params->dim[k];
  return NULL;
}

static td_status *gather_infer(td_infer *c, int axis, int64_t batch) {
  const td_shape *params = td_infer_in(c, 0), *indices = td_infer_in(c, 1);
  td_shape out;
  TD_TRY(td_infer_rank_at_least(c, 0, 1, "params"));
  if (params->rank < 0 || indices->rank < 0) return NULL;
  if (batch < 0) batch += indices->rank;
  TD_TRY(gather_to(params, indices, axis, batch, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *gather_v1_infer(td_infer *c) {
  return gather_infer(c, 0, 0);
}

static td_status *gather_v2_infer(td_infer *c) {
  int axis;
  TD_TRY(td_infer_rank_at_least(c, 0, 1, "params"));
  TD_TRY(td_infer_rank(c, 2, 0, "axis", NULL));
  TD_TRY(td_operand_infer_axis(c, 2, td_infer_in(c, 0)->rank, "axis", &axis));
  return gather_infer(c, axis, td_infer_int(c, "batch_dims"));
}

/* Elements of a vector; a vector has no other axis. */
static bool gather_value(td_infer *c, int out, td_small *v) {
  td_small all, at;
  (void)out;
  if (td_infer_int(c, "batch_dims") != 0) return false;
  if (!td_infer_small(c, 0, &all) || all.rank != 1) return false;
  if (!td_infer_small(c, 1, &at)) return false;
  *v = (td_small){.rank = at.rank, .count = at.count};
  for (int k = 0; k < at.count; k++) {
    if (!at.known[k]) continue;
    if (at.at[k] < 0 || at.at[k] >= all.count) return false;
    v->at[k] = all.at[at.at[k]];
    v->known[k] = all.known[at.at[k]];
  }
  return true;
}

/* ---- copying ------------------------------------------------------------- */

typedef struct gather {
  int64_t outer, along, inner, each;
  const td_tensor *params, *indices;
  size_t size; /* bytes of an element */
  char *to;
  int64_t bad; /* atomic: the first index out of range, or INT64_MAX */
} gather;

static int64_t index_at(const td_tensor *t, int64_t i) {
  if (t->dtype == TD_INT32) return ((const int32_t *)t->data)[i];
  if (t->dtype == TD_INT64) return ((const int64_t *)t->data)[i];
  return ((const int16_t *)t->data)[i];
}

static void report(gather *g, int64_t at) {
  int64_t have = __atomic_load_n(&g->bad, __ATOMIC_RELAXED);
  while (at < have &&
         !__atomic_compare_exchange_n(&g->bad, &have, at, true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
}

static void copy_text(const gather *g, int64_t row, char *to) {
  td_bytes *text = (void *)to;
  for (int64_t k = 0; k < g->inner; k++)
    text[k].at = td_tensor_str(g->params, row * g->inner + k, &text[k].len);
}

/* Rows of `bytes` bytes, which may be a constant: `first` is the row of index
 * 0, the indices are those from `at` on. Returns how many were in range. */
static inline int64_t copy_rows(const gather *g, int64_t first, int64_t at,
                                int64_t n, size_t bytes, char *to) {
  const char *from = (const char *)g->params->data + (size_t)first * bytes;
  bool text = g->params->dtype == TD_STRING;
  for (int64_t i = 0; i < n; i++) {
    int64_t index = index_at(g->indices, at + i);
    if (TD_UNLIKELY(index < 0 || index >= g->along)) return i;
    if (text)
      copy_text(g, first + index, to + (size_t)i * bytes);
    else
      memcpy(to + (size_t)i * bytes, from + (size_t)index * bytes, bytes);
  }
  return n;
}

static int64_t copy_some(const gather *g, int64_t first, int64_t at, int64_t n,
                         char *to) {
  size_t bytes = (size_t)g->inner * g->size;
  if (bytes == 4) return copy_rows(g, first, at, n, 4, to);
  if (bytes == 8) return copy_rows(g, first, at, n, 8, to);
  return copy_rows(g, first, at, n, bytes, to);
}

/* Rows [begin, end) of the result, of batch * outer * each. */
static void gather_rows(void *arg, int64_t begin, int64_t end) {
  gather *g = arg;
  while (begin < end) {
    int64_t plane = begin / g->each, j = begin % g->each;
    int64_t n = g->each - j < end - begin ? g->each - j : end - begin;
    int64_t at = plane / g->outer * g->each + j;
    char *to = g->to + (size_t)begin * (size_t)g->inner * g->size;
    int64_t good = copy_some(g, plane * g->along, at, n, to);
    if (good < n) {
      report(g, at + good);
      return;
    }
    begin += n;
  }
}

static td_status *gather_all(td_kernel_ctx *c, gather *g, const td_array *y) {
  int64_t count = td_shape_count(&y->shape);
  if (count > 0) {
    g->size = y->size;
    g->to = y->at;
    td_for(c, count / g->inner, td_grain_of(g->inner), gather_rows, g);
    if (g->bad != INT64_MAX)
      return td_error(
          TD_INVALID_ARGUMENT,
          "indices[%lld] is %lld, which is not in [0, %lld)", (long long)g->bad,
          (long long)index_at(g->indices, g->bad), (long long)g->along);
  }
  return td_array_done(c, 0, y);
}

static td_status *no_scalar(const td_tensor *params) {
  if (params->shape.rank > 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "params must be of rank 1 or more, not a scalar");
}

static td_status *read_axis(td_kernel_ctx *c, int *axis, int64_t *batch) {
  *axis = 0;
  *batch = 0;
  if (c->n_in == 2) return NULL; /* the older form */
  if (td_in(c, 2)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "axis must be a scalar");
  *batch = td_node_int(td_ctx_node(c), "batch_dims");
  return td_operand_axis(td_in(c, 2), td_in(c, 0)->shape.rank, "axis", axis);
}

td_status *td_gather_read(td_kernel_ctx *c, td_gather_plan *plan) {
  const td_shape *p = &td_in(c, 0)->shape, *i = &td_in(c, 1)->shape;
  int axis;
  int64_t batch;
  TD_TRY(no_scalar(td_in(c, 0)));
  TD_TRY(read_axis(c, &axis, &batch));
  if (batch < 0) batch += i->rank;
  TD_TRY(gather_to(p, i, axis, batch, &plan->out));
  plan->outer = td_shape_span(p, (int)batch, axis);
  plan->along = p->dim[axis];
  plan->inner = td_shape_span(p, axis + 1, p->rank);
  plan->each = td_shape_span(i, (int)batch, i->rank);
  return NULL;
}

static td_status *gather_run(td_kernel_ctx *c) {
  td_gather_plan p;
  td_array y;
  TD_TRY(td_gather_read(c, &p));
  gather g = {.outer = p.outer,
              .along = p.along,
              .inner = p.inner,
              .each = p.each,
              .params = td_in(c, 0),
              .indices = td_in(c, 1),
              .bad = INT64_MAX};
  TD_TRY(td_array_out(c, 0, &p.out, &y));
  td_status *s = gather_all(c, &g, &y);
  td_array_drop(&y);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "GatherV2",
     .sig = "params: Tparams, indices: Tindices, axis: Taxis -> "
            "output: Tparams; batch_dims: int = 0; Tparams: type; "
            "Tindices: {int16, int32, int64}; Taxis: {int32, int64}",
     .shape = gather_v2_infer,
     .cost = td_cost_take,
     .value = gather_value,
     .doc = "The slices of params at the given indices along an axis; the "
            "first batch_dims dimensions go side by side.",
     .lua = "gather",
     .host = "axis",
     .section = "Array"},
    {.type = "Gather",
     .sig = "params: Tparams, indices: Tindices -> output: Tparams; "
            "validate_indices: bool = true; Tparams: type; "
            "Tindices: {int32, int64}",
     .shape = gather_v1_infer,
     .cost = td_cost_take,
     .value = gather_value,
     .doc = "The rows of params at the given indices; the older form.",
     .lua = "",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "GatherV2", .device = "CPU", .run = gather_run},
    {.op = "Gather", .device = "CPU", .run = gather_run},
    {0},
};

TD_MODULE(gather, ops, kernels)
