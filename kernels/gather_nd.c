/* gather_nd.c - GatherNd: slices by index vectors.
 *
 * The last dimension of indices, of k elements, names a slice of the first k
 * dimensions; it is turned into the number of a row of what is left.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/gather_nd.h"

#include "kernels/row_gather.h"
#include "kernels/row_plans.h"

#include <string.h>

/* ---- shapes -------------------------------------------------------------- */

static td_status *bad_depth(const td_shape *indices, const td_shape *of) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT,
                  "indices must be of rank 1 or more, its last dimension at "
                  "most %d for a tensor of shape %s, not of shape %s",
                  of->rank, td_shape_str(of, &a), td_shape_str(indices, &b));
}

td_status *td_gather_nd_shape(const td_shape *indices, const td_shape *of,
                              td_shape *out) {
  *out = td_shape_unknown();
  if (indices->rank == 0) return bad_depth(indices, of);
  if (indices->rank < 0 || of->rank < 0) return NULL;
  int last = indices->rank - 1;
  int64_t k = indices->dim[last];
  if (k > of->rank) return bad_depth(indices, of);
  if (k < 0) return NULL;
  int rank = last + of->rank - (int)k;
  TD_TRY(td_shape_check_rank(rank));
  *out = td_shape_ranked(rank);
  for (int i = 0; i < last; i++) out->dim[i] = indices->dim[i];
  for (int i = (int)k; i < of->rank; i++) out->dim[last + i - k] = of->dim[i];
  return NULL;
}

td_status *td_gather_nd_policy(const char *policy, bool *ignore) {
  static const char *const known[] = {"", "DEFAULT", "ERROR", "IGNORE"};
  for (size_t i = 0; i < TD_COUNT(known); i++)
    if (strcmp(policy, known[i]) == 0) {
      *ignore = i == 3;
      return NULL;
    }
  return td_error(TD_INVALID_ARGUMENT,
                  "bad_indices_policy must be DEFAULT, ERROR or IGNORE, not "
                  "\"%s\"",
                  policy);
}

/* ---- rows ---------------------------------------------------------------- */

static td_status *bad_index(const td_tensor *indices, int64_t row, int64_t k,
                            const td_shape *of) {
  td_shape_text shape;
  td_str text;
  td_str_init(&text);
  for (int64_t i = 0; i < k; i++)
    td_str_addf(&text, "%s%lld", i ? ", " : "",
                (long long)td_tensor_get_i(indices, row * k + i));
  td_status *s =
      td_error(TD_INVALID_ARGUMENT,
               "indices[%lld] = {%s} is not in a tensor of shape %s",
               (long long)row, td_str_c(&text), td_shape_str(of, &shape));
  td_str_deinit(&text);
  return s;
}

td_status *td_gather_nd_rows(const td_tensor *indices, const td_shape *of,
                             bool ignore, int64_t **rows, int64_t *n) {
  int last = indices->shape.rank - 1;
  int64_t k = indices->shape.dim[last];
  td_status *s = NULL;
  td_shape_text text;
  *n = td_shape_span(&indices->shape, 0, last);
  if (*n > 0 && td_shape_count(of) == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "there are %lld index vectors for a tensor without "
                    "elements, %s",
                    (long long)*n, td_shape_str(of, &text));
  *rows = td_calloc((size_t)*n, sizeof **rows);
  if (!*rows) return td_oom();
  for (int64_t i = 0; i < *n && td_ok(s); i++) {
    int64_t row = 0;
    for (int64_t j = 0; j < k; j++) {
      int64_t at = td_tensor_get_i(indices, i * k + j);
      if (at < 0 || at >= of->dim[j]) {
        row = -1;
        break;
      }
      row = row * of->dim[j] + at;
    }
    if (row < 0 && !ignore) s = bad_index(indices, i, k, of);
    (*rows)[i] = row;
  }
  if (!td_ok(s)) td_free(*rows);
  return s;
}

/* ---- GatherNd ------------------------------------------------------------ */

static td_status *gather_infer(td_infer *c) {
  td_shape out;
  bool ignore = false;
  TD_TRY(
      td_gather_nd_policy(td_infer_string(c, "bad_indices_policy"), &ignore));
  TD_TRY(td_gather_nd_shape(td_infer_in(c, 1), td_infer_in(c, 0), &out));
  td_infer_out(c, 0, out);
  return NULL;
}

td_status *td_gather_nd_read(td_kernel_ctx *c, bool *ignore, td_shape *out) {
  const td_tensor *params = td_in(c, 0), *indices = td_in(c, 1);
  TD_TRY(td_gather_nd_policy(
      td_node_string(td_ctx_node(c), "bad_indices_policy"), ignore));
  TD_TRY(td_gather_nd_shape(&indices->shape, &params->shape, out));
  int last = indices->shape.rank - 1;
  if (td_tensor_count(params) == 0 &&
      td_shape_span(&indices->shape, 0, last) > 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "params is empty: no slice of it can be asked for");
  return NULL;
}

static td_status *gather_run(td_kernel_ctx *c) {
  td_shape out;
  bool ignore = false;
  int64_t *rows, n;
  TD_TRY(td_gather_nd_read(c, &ignore, &out));
  TD_TRY(
      td_gather_nd_rows(td_in(c, 1), &td_in(c, 0)->shape, ignore, &rows, &n));
  td_status *s = td_row_gather_kernel(c, 0, rows, n, &out);
  td_free(rows);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "GatherNd",
     .sig = "params: Tparams, indices: Tindices -> output: Tparams; "
            "Tparams: type; Tindices: {int16, int32, int64}; "
            "bad_indices_policy: string = \"\"",
     .shape = gather_infer,
     .cost = td_cost_take,
     .doc = "The slices of params named by the vectors along the last "
            "dimension of indices.",
     .example = "td.gather_nd({{1, 2}, {3, 4}}, {{0, 1}, {1, 0}})  --> 2 3",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "GatherNd", .device = "CPU", .run = gather_run},
    {0},
};

TD_MODULE(gather_nd, ops, kernels)
