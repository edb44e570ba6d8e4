/* segment.c - UnsortedSegmentSum.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rows.h"

/* ---- shapes -------------------------------------------------------------- */

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
  if (data->rank - ids->rank + 1 > TD_MAX_RANK)
    return td_error(TD_INVALID_ARGUMENT,
                    "the result would have more than %d dimensions",
                    TD_MAX_RANK);
  *out = td_array_rank(data->rank - ids->rank + 1);
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

static td_status *segment_infer(td_infer *c) {
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

/* ---- the sum ------------------------------------------------------------- */

/* Caller owns *rows. */
static td_status *read_ids(const td_tensor *ids, int64_t segments,
                           int64_t **rows) {
  int64_t n = td_tensor_count(ids);
  *rows = td_alloc_zero((size_t)n, sizeof **rows);
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

static td_status *segment_run(td_kernel_ctx *c) {
  const td_tensor *data = td_in(c, 0), *ids = td_in(c, 1);
  int64_t segments = 0, *rows;
  td_shape out;
  TD_TRY(td_array_scalar(td_in(c, 2), "num_segments", &segments));
  TD_TRY(check_segments(segments));
  TD_TRY(segments_to(&data->shape, &ids->shape, segments, &out));
  TD_TRY(td_array_count(&out, NULL));
  TD_TRY(read_ids(ids, segments, &rows));
  int64_t each = td_array_span(&data->shape, ids->shape.rank, data->shape.rank);
  td_status *s = td_rows_sum(c, 0, rows, td_tensor_count(ids), each, 0, &out);
  td_free(rows);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "UnsortedSegmentSum",
     .sig = "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> "
            "output: T; T: {float, double, int32, uint8, int16, int8, "
            "complex64, int64, qint8, quint8, qint32, bfloat16, qint16, "
            "quint16, uint16, complex128, half, uint32, uint64}; "
            "Tindices: {int16, int32, int64}; "
            "Tnumsegments: {int32, int64} = int32",
     .shape = segment_infer,
     .doc = "Row i is the sum of the rows of data whose segment id is i; rows "
            "with a negative id are left out.",
     .host = "num_segments",
     .section = "Reductions, ranges, segments"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "UnsortedSegmentSum",
     .device = "CPU",
     .types = "T=half|bfloat16|float|double|int8|uint8|int16|uint16|int32|"
              "uint32|int64|uint64|complex64|complex128",
     .run = segment_run},
    {0},
};

TD_MODULE(segment, ops, kernels)
