/* segment.c - rows reduced by segments: SegmentSum and its kin, whose ids are
 * sorted, and the unsorted ones, which know how many segments there are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/row_plans.h"
#include "kernels/row_reduce.h"
#include "kernels/operand.h"
#include "kernels/array.h"
#include "kernels/cost.h"

/* ---- unsorted: shapes ---------------------------------------------------- */

static td_status *not_prefix(const td_shape *data, const td_shape *ids) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT,
                  "the shape of data, %s, must begin with that of "
                  "segment_ids, %s",
                  td_shape_str(data, &a), td_shape_str(ids, &b));
}

/* num_segments (-1: not known), then data's dimensions behind those of the
 * ids. */
static td_status *segments_to(const td_shape *data, const td_shape *ids,
                              int64_t segments, td_shape *out) {
  *out = td_shape_unknown();
  if (data->rank < 0 || ids->rank < 0) return NULL;
  if (ids->rank > data->rank) return not_prefix(data, ids);
  td_shape head = td_shape_of(ids->rank, data->dim);
  if (!td_shape_compatible(&head, ids)) return not_prefix(data, ids);
  TD_TRY(td_shape_check_rank(data->rank - ids->rank + 1));
  *out = td_shape_ranked(data->rank - ids->rank + 1);
  out->dim[0] = segments;
  for (int k = ids->rank; k < data->rank; k++)
    out->dim[k - ids->rank + 1] = data->dim[k];
  return NULL;
}

static td_status *check_segments(int64_t segments) {
  if (segments >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "num_segments must not be negative, is %lld",
                  (long long)segments);
}

static td_status *unsorted_infer(td_infer *c) {
  td_small v;
  td_shape out;
  TD_TRY(td_infer_rank(c, 2, 0, "num_segments", NULL));
  bool known = td_infer_small(c, 2, &v) && v.count == 1 && v.known[0];
  if (known) TD_TRY(check_segments(v.at[0]));
  TD_TRY(segments_to(td_infer_in(c, 0), td_infer_in(c, 1), known ? v.at[0] : -1,
                     &out));
  td_infer_out(c, 0, out);
  return NULL;
}

/* ---- unsorted ------------------------------------------------------------ */

/* Caller owns *rows. */
static td_status *read_ids(const td_tensor *ids, int64_t segments,
                           int64_t **rows) {
  int64_t n = td_tensor_count(ids);
  *rows = td_calloc((size_t)n, sizeof **rows);
  if (!*rows) return td_oom();
  for (int64_t i = 0; i < n; i++) {
    int64_t id = td_tensor_get_i(ids, i);
    if (id >= segments) {
      td_free(*rows);
      return td_error(TD_INVALID_ARGUMENT,
                      "segment_ids[%lld] is %lld, which is not below "
                      "num_segments, %lld",
                      (long long)i, (long long)id, (long long)segments);
    }
    (*rows)[i] = id < 0 ? -1 : id;
  }
  return NULL;
}

td_status *td_unsorted_read(td_kernel_ctx *c, td_segments_plan *p) {
  const td_shape *data = &td_in(c, 0)->shape, *ids = &td_in(c, 1)->shape;
  TD_TRY(td_operand_scalar(td_in(c, 2), "num_segments", &p->segments));
  TD_TRY(check_segments(p->segments));
  TD_TRY(segments_to(data, ids, p->segments, &p->out));
  TD_TRY(td_array_count(&p->out, NULL));
  p->n = td_shape_count(ids);
  p->each = td_shape_span(data, ids->rank, data->rank);
  return NULL;
}

static td_status *unsorted_run(td_kernel_ctx *c, td_row_reduce_op op) {
  int64_t *rows;
  td_segments_plan p;
  TD_TRY(td_unsorted_read(c, &p));
  TD_TRY(read_ids(td_in(c, 1), p.segments, &rows));
  td_row_reduce f = {.op = op, .n = p.n, .each = p.each, .to = rows};
  td_status *s = td_row_reduce_run(c, 0, &f, &p.out);
  td_free(rows);
  return s;
}

static td_status *unsorted_sum(td_kernel_ctx *c) {
  return unsorted_run(c, TD_ROW_REDUCE_SUM);
}
static td_status *unsorted_prod(td_kernel_ctx *c) {
  return unsorted_run(c, TD_ROW_REDUCE_PROD);
}
static td_status *unsorted_max(td_kernel_ctx *c) {
  return unsorted_run(c, TD_ROW_REDUCE_MAX);
}
static td_status *unsorted_min(td_kernel_ctx *c) {
  return unsorted_run(c, TD_ROW_REDUCE_MIN);
}

/* ---- sorted -------------------------------------------------------------- */

static td_status *check_sorted_shapes(const td_shape *data,
                                      const td_shape *ids) {
  td_shape_text a, b;
  bool fit = data->rank != 0 && (ids->rank < 0 || ids->rank == 1) &&
             (data->rank < 0 || ids->rank < 0 || data->dim[0] < 0 ||
              ids->dim[0] < 0 || data->dim[0] == ids->dim[0]);
  if (fit) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "segment_ids must be a vector with an id for each row of "
                  "data, of shape %s, not of shape %s",
                  td_shape_str(data, &a), td_shape_str(ids, &b));
}

static td_status *sorted_infer(td_infer *c) {
  td_shape out = *td_infer_in(c, 0);
  TD_TRY(check_sorted_shapes(&out, td_infer_in(c, 1)));
  if (out.rank > 0) out.dim[0] = -1;
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *bad_order(int64_t i, int64_t id, int64_t before) {
  if (id < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "segment_ids[%lld] is %lld: ids must not be negative",
                    (long long)i, (long long)id);
  return td_error(TD_INVALID_ARGUMENT,
                  "segment_ids must be sorted: number %lld is %lld, the one "
                  "before it %lld",
                  (long long)i, (long long)id, (long long)before);
}

/* The ids as rows, and how many segments they make. Caller owns *rows. */
static td_status *read_sorted(const td_tensor *ids, int64_t **rows,
                              int64_t *segments) {
  int64_t n = td_tensor_count(ids), before = 0;
  td_status *s = NULL;
  *rows = td_calloc((size_t)n, sizeof **rows);
  if (!*rows) return td_oom();
  for (int64_t i = 0; i < n && td_ok(s); i++) {
    int64_t id = td_tensor_get_i(ids, i);
    if (id < before) s = bad_order(i, id, before);
    (*rows)[i] = before = id;
  }
  if (td_ok(s) && n > 0 && before == INT64_MAX)
    s = td_error(TD_INVALID_ARGUMENT, "an id of 2^63-1 is too large");
  *segments = n > 0 ? before + 1 : 0;
  if (!td_ok(s)) td_free(*rows);
  return s;
}

/* How many rows each segment has, at least 1. Caller owns the result. */
static td_status *count_rows(td_kernel_ctx *c, const int64_t *rows, int64_t n,
                             int64_t segments, td_tensor *counts) {
  td_shape shape = td_shape_vector(segments);
  TD_TRY(td_temp(c, TD_FLOAT64, &shape, counts));
  double *v = counts->data;
  for (int64_t k = 0; k < segments; k++) v[k] = 0;
  for (int64_t i = 0; i < n; i++) v[rows[i]]++;
  for (int64_t k = 0; k < segments; k++)
    if (v[k] == 0) v[k] = 1;
  return NULL;
}

td_status *td_search_sorted_read(td_kernel_ctx *c, td_segments_plan *p) {
  p->out = td_in(c, 0)->shape;
  TD_TRY(check_sorted_shapes(&p->out, &td_in(c, 1)->shape));
  p->n = td_tensor_count(td_in(c, 1));
  p->each = td_shape_span(&p->out, 1, p->out.rank);
  return NULL;
}

static td_status *sorted_run(td_kernel_ctx *c, td_row_reduce_op op, bool mean) {
  int64_t *rows, segments = 0;
  td_tensor counts = {0};
  td_segments_plan p;
  TD_TRY(td_search_sorted_read(c, &p));
  TD_TRY(read_sorted(td_in(c, 1), &rows, &segments));
  td_shape out = p.out;
  out.dim[0] = segments;
  td_status *s = td_array_count(&out, NULL);
  if (td_ok(s) && mean && td_shape_count(&out) > 0)
    s = count_rows(c, rows, p.n, segments, &counts);
  if (td_ok(s)) {
    td_row_reduce f = {.op = op,
                       .n = p.n,
                       .each = p.each,
                       .to = rows,
                       .over = counts.data,
                       .zero = true};
    s = td_row_reduce_run(c, 0, &f, &out);
  }
  td_free(rows);
  td_tensor_release(&counts);
  return s;
}

static td_status *sorted_sum(td_kernel_ctx *c) {
  return sorted_run(c, TD_ROW_REDUCE_SUM, false);
}
static td_status *sorted_mean(td_kernel_ctx *c) {
  return sorted_run(c, TD_ROW_REDUCE_SUM, true);
}
static td_status *sorted_prod(td_kernel_ctx *c) {
  return sorted_run(c, TD_ROW_REDUCE_PROD, false);
}
static td_status *sorted_max(td_kernel_ctx *c) {
  return sorted_run(c, TD_ROW_REDUCE_MAX, false);
}
static td_status *sorted_min(td_kernel_ctx *c) {
  return sorted_run(c, TD_ROW_REDUCE_MIN, false);
}

/* ---- tables -------------------------------------------------------------- */

#define REAL                                                                   \
  "float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, "  \
  "uint32, uint64"
#define NUMBER                                                                 \
  REAL ", complex64, complex128, qint8, quint8, qint32, qint16, quint16"
#define REALS                                                                  \
  "T=half|bfloat16|float|double|int8|uint8|int16|uint16|int32|uint32|int64|"   \
  "uint64"
#define NUMBERS REALS "|complex64|complex128"

#define UNSORTED(name, allowed, ids, text, part)                               \
  {                                                                            \
    .type = name,                                                              \
    .sig = "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> "    \
           "output: T; T: {" allowed "}; Tindices: {" ids "}; "                \
           "Tnumsegments: {int32, int64} = int32",                             \
    .shape = unsorted_infer, .cost = td_cost_reduce, .doc = text,              \
    .host = "num_segments", .section = part                                    \
  }
#define SORTED(name, allowed, text)                                            \
  {                                                                            \
    .type = name,                                                              \
    .sig = "data: T, segment_ids: Tindices -> output: T; T: {" allowed "}; "   \
           "Tindices: {int32, int64}",                                         \
    .shape = sorted_infer, .cost = td_cost_reduce, .doc = text,                \
    .section = "Reductions, ranges, segments"                                  \
  }
#define KERNEL(name, dtypes, fn)                                               \
  { .op = name, .device = "CPU", .types = dtypes, .run = fn }

static const td_op_def ops[] = {
    UNSORTED("UnsortedSegmentSum", NUMBER, "int16, int32, int64",
             "Row i is the sum of the rows of data whose segment id is i; rows "
             "with a negative id are left out.",
             "Reductions, ranges, segments"),
    UNSORTED("UnsortedSegmentProd", NUMBER, "int32, int64",
             "Row i is the product of the rows of data whose segment id is i.",
             "Reductions, ranges, segments"),
    UNSORTED("UnsortedSegmentMax", REAL, "int32, int64",
             "Row i is the maximum of the rows of data whose segment id is i; "
             "of none, the least number.",
             "Reductions, ranges, segments"),
    UNSORTED("UnsortedSegmentMin", REAL, "int32, int64",
             "Row i is the minimum of the rows of data whose segment id is i; "
             "of none, the greatest number.",
             "Reductions, ranges, segments"),
    SORTED("SegmentSum", NUMBER,
           "Row i is the sum of the rows of data whose segment id, all of them "
           "sorted, is i; of none, 0."),
    SORTED("SegmentMean", NUMBER,
           "Row i is the mean of the rows of data whose segment id, all of "
           "them sorted, is i; of none, 0."),
    SORTED("SegmentProd", NUMBER,
           "Row i is the product of the rows of data whose segment id, all of "
           "them sorted, is i; of none, 1."),
    SORTED("SegmentMax", REAL,
           "Row i is the maximum of the rows of data whose segment id, all of "
           "them sorted, is i; of none, 0."),
    SORTED("SegmentMin", REAL,
           "Row i is the minimum of the rows of data whose segment id, all of "
           "them sorted, is i; of none, 0."),
    {0},
};

static const td_kernel_def kernels[] = {
    KERNEL("UnsortedSegmentSum", NUMBERS, unsorted_sum),
    KERNEL("UnsortedSegmentProd", NUMBERS, unsorted_prod),
    KERNEL("UnsortedSegmentMax", REALS, unsorted_max),
    KERNEL("UnsortedSegmentMin", REALS, unsorted_min),
    KERNEL("SegmentSum", NUMBERS, sorted_sum),
    KERNEL("SegmentMean", NUMBERS, sorted_mean),
    KERNEL("SegmentProd", NUMBERS, sorted_prod),
    KERNEL("SegmentMax", REALS, sorted_max),
    KERNEL("SegmentMin", REALS, sorted_min),
    {0},
};

TD_MODULE(segment, ops, kernels)
