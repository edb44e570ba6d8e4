/* dynamic_partition.c - DynamicPartition and DynamicStitch: rows dealt out by
 * number, and put together again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/row_gather.h"
#include "kernels/row_plans.h"
#include "kernels/array.h"

#include <string.h>

/* ---- DynamicPartition ---------------------------------------------------- */

static td_status *not_prefix(const char *what, const td_shape *data,
                             const td_shape *head) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT,
                  "the shape of data, %s, must begin with that of %s, %s",
                  td_shape_str(data, &a), what, td_shape_str(head, &b));
}

/* {rows, the dimensions of data behind those of head}. */
static td_status *rows_shape(const char *what, const td_shape *data,
                             const td_shape *head, int64_t rows,
                             td_shape *out) {
  *out = td_shape_unknown();
  if (data->rank < 0 || head->rank < 0) return NULL;
  if (head->rank > data->rank) return not_prefix(what, data, head);
  td_shape first = td_shape_of(head->rank, data->dim);
  if (!td_shape_compatible(&first, head)) return not_prefix(what, data, head);
  int rank = data->rank - head->rank + 1;
  TD_TRY(td_shape_check_rank(rank));
  *out = td_shape_ranked(rank);
  out->dim[0] = rows;
  for (int k = 1; k < rank; k++) out->dim[k] = data->dim[head->rank + k - 1];
  return NULL;
}

static td_status *partition_infer(td_infer *c) {
  td_shape out;
  TD_TRY(
      rows_shape("partitions", td_infer_in(c, 0), td_infer_in(c, 1), -1, &out));
  for (int i = 0; i < td_infer_outputs(c); i++) td_infer_out(c, i, out);
  return NULL;
}

/* Row numbers sorted by partition: those of partition p are
 * rows[begin[p] .. begin[p + 1]). */
typedef struct deal {
  int64_t *rows, *begin;
} deal;

static td_status *deal_rows(const td_tensor *partitions, int parts, deal *d) {
  int64_t n = td_tensor_count(partitions), sum = 0;
  const int32_t *part = partitions->data;
  for (int64_t i = 0; i < n; i++) {
    if (part[i] < 0 || part[i] >= parts)
      return td_error(TD_INVALID_ARGUMENT,
                      "partitions[%lld] is %d, which is not in [0, %d)",
                      (long long)i, part[i], parts);
    d->begin[part[i]]++;
  }
  for (int p = 0; p <= parts; p++) {
    int64_t here = d->begin[p];
    d->begin[p] = sum;
    sum += here;
  }
  for (int64_t i = 0; i < n; i++) d->rows[d->begin[part[i]]++] = i;
  memmove(d->begin + 1, d->begin, (size_t)parts * sizeof *d->begin);
  d->begin[0] = 0;
  return NULL;
}

static td_status *put_part(td_kernel_ctx *c, const td_array *x, int i,
                           const int64_t *rows, td_shape shape) {
  int64_t each = td_shape_span(&shape, 1, shape.rank);
  td_array y;
  TD_TRY(td_array_out(c, i, &shape, &y));
  td_row_gather(c, x->at, rows, shape.dim[0], (size_t)each * y.size, y.at);
  td_status *s = td_array_done(c, i, &y);
  td_array_drop(&y);
  return s;
}

td_status *td_dynamic_partition_shape(td_kernel_ctx *c, td_shape *out) {
  return rows_shape("partitions", &td_in(c, 0)->shape, &td_in(c, 1)->shape, 0,
                    out);
}

static td_status *partition_with(td_kernel_ctx *c, deal *d) {
  const td_tensor *data = td_in(c, 0), *partitions = td_in(c, 1);
  td_shape shape;
  td_array x;
  TD_TRY(td_dynamic_partition_shape(c, &shape));
  TD_TRY(deal_rows(partitions, c->n_out, d));
  TD_TRY(td_array_in(data, &x));
  td_status *s = NULL;
  for (int i = 0; i < c->n_out && td_ok(s); i++) {
    shape.dim[0] = d->begin[i + 1] - d->begin[i];
    s = put_part(c, &x, i, d->rows + d->begin[i], shape);
  }
  td_array_drop(&x);
  return s;
}

static td_status *partition_run(td_kernel_ctx *c) {
  size_t n = (size_t)td_tensor_count(td_in(c, 1));
  deal d = {.rows = td_calloc(n, sizeof *d.rows),
            .begin = td_calloc((size_t)c->n_out + 1, sizeof *d.begin)};
  td_status *s = d.rows && d.begin ? partition_with(c, &d) : td_oom();
  td_free(d.rows);
  td_free(d.begin);
  return s;
}

/* ---- DynamicStitch ------------------------------------------------------- */

/* What the values must agree in: the dimensions behind their indices'. */
static td_status *join_rest(int i, const td_shape *indices,
                            const td_shape *data, td_shape *rest) {
  td_shape one;
  td_shape_text a, b;
  TD_TRY(rows_shape("indices", data, indices, -1, &one));
  if (td_shape_merge(rest, &one, rest)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "data must agree in the dimensions behind those of their "
                  "indices: data %d gives rows %s, those before it %s",
                  i, td_shape_str(&one, &a), td_shape_str(rest, &b));
}

/* The largest index + 1; false when some indices are not known. */
static bool known_rows(td_infer *c, int n, int64_t *rows) {
  *rows = 0;
  for (int i = 0; i < n; i++) {
    const td_tensor *t = td_infer_const(c, i);
    if (!t) return false;
    for (int64_t k = 0; k < td_tensor_count(t); k++)
      if (td_tensor_get_i(t, k) >= *rows) *rows = td_tensor_get_i(t, k) + 1;
  }
  return true;
}

static td_status *stitch_infer(td_infer *c) {
  int n = td_infer_inputs(c) / 2;
  td_shape rest = td_shape_unknown();
  int64_t rows;
  for (int i = 0; i < n; i++)
    TD_TRY(join_rest(i, td_infer_in(c, i), td_infer_in(c, n + i), &rest));
  if (rest.rank > 0 && known_rows(c, n, &rows)) rest.dim[0] = rows;
  td_infer_out(c, 0, rest);
  return NULL;
}

static td_status *count_rows(td_kernel_ctx *c, int n, int64_t *rows) {
  *rows = 0;
  for (int i = 0; i < n; i++) {
    const td_tensor *t = td_in(c, i);
    for (int64_t k = 0; k < td_tensor_count(t); k++) {
      int64_t at = td_tensor_get_i(t, k);
      if (at < 0)
        return td_error(TD_INVALID_ARGUMENT,
                        "indices must not be negative: element %lld of "
                        "indices %d is %lld",
                        (long long)k, i, (long long)at);
      if (at >= *rows) *rows = at + 1;
    }
  }
  return NULL;
}

/* Later values win; rows that no index names are zero. */
static td_status *put_rows(td_kernel_ctx *c, int n, int64_t each, td_array *y) {
  size_t bytes = (size_t)each * y->size;
  memset(y->at, 0, (size_t)td_shape_count(&y->shape) * y->size);
  for (int i = 0; i < n; i++) {
    const td_tensor *t = td_in(c, i);
    td_array x;
    TD_TRY(td_array_in(td_in(c, n + i), &x));
    for (int64_t k = 0; bytes && k < td_tensor_count(t); k++)
      memcpy(y->at + (size_t)td_tensor_get_i(t, k) * bytes,
             x.at + (size_t)k * bytes, bytes);
    td_array_drop(&x);
  }
  return td_array_done(c, 0, y);
}

td_status *td_stitch_shape(td_kernel_ctx *c, td_shape *out) {
  int n = c->n_in / 2;
  int64_t rows;
  *out = td_shape_unknown();
  for (int i = 0; i < n; i++)
    TD_TRY(join_rest(i, &td_in(c, i)->shape, &td_in(c, n + i)->shape, out));
  TD_TRY(count_rows(c, n, &rows));
  out->dim[0] = rows;
  return td_array_count(out, NULL);
}

static td_status *stitch_run(td_kernel_ctx *c) {
  td_shape shape;
  td_array y;
  TD_TRY(td_stitch_shape(c, &shape));
  TD_TRY(td_array_out(c, 0, &shape, &y));
  td_status *s =
      put_rows(c, c->n_in / 2, td_shape_span(&shape, 1, shape.rank), &y);
  td_array_drop(&y);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "DynamicPartition",
     .sig = "data: T, partitions: int32 -> outputs: num_partitions*T; "
            "num_partitions: int >= 1; T: type",
     .shape = partition_infer,
     .cost = td_cost_move,
     .doc = "The rows of data dealt out to num_partitions outputs, each to "
            "the one its number in partitions names.",
     .example = "td.dynamic_partition({5, 6, 7}, {0, 1, 0}, {num_partitions = "
                "2})[1]  --> 5 7",
     .section = "Data flow: queues, stacks, arrays, accumulators"},
    {.type = "DynamicStitch",
     .sig = "indices: N*int32, data: N*T -> merged: T; N: int >= 1; T: type",
     .shape = stitch_infer,
     .cost = td_cost_move,
     .doc = "Rows put together: row indices[m][i] is row i of data[m]; of "
            "several the last.",
     .host = "indices",
     .example = "td.dynamic_stitch({{0, 2}, {1}}, {{5, 7}, {6}})  --> 5 6 7",
     .section = "Data flow: queues, stacks, arrays, accumulators"},
    {.type = "ParallelDynamicStitch",
     .sig = "indices: N*int32, data: N*T -> merged: T; N: int >= 1; T: type",
     .shape = stitch_infer,
     .cost = td_cost_move,
     .doc = "As DynamicStitch, which is as parallel here: of several rows the "
            "last.",
     .lua = "",
     .host = "indices",
     .section = "Data flow: queues, stacks, arrays, accumulators"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "DynamicPartition", .device = "CPU", .run = partition_run},
    {.op = "DynamicStitch", .device = "CPU", .run = stitch_run},
    {.op = "ParallelDynamicStitch", .device = "CPU", .run = stitch_run},
    {0},
};

TD_MODULE(dynamic_partition, ops, kernels)
