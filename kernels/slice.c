/* slice.c - Slice. (x[a:b:c] is StridedSlice, in strided_slice.c.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/moves.h"
#include "kernels/strided_copy.h"
#include "kernels/operand.h"
#include "kernels/array.h"

/* ---- Slice --------------------------------------------------------------- */

static td_status *bad_begin(int k, int64_t begin, int64_t dim) {
  return td_error(TD_INVALID_ARGUMENT,
                  "begin[%d] must be in [0, %lld], is %lld", k, (long long)dim,
                  (long long)begin);
}

static td_status *bad_size(int k, int64_t size, int64_t left) {
  return td_error(TD_INVALID_ARGUMENT,
                  "size[%d] must be -1 or in [0, %lld], is %lld", k,
                  (long long)left, (long long)size);
}

/* The size of dimension k of the result, as far as it can be told. */
static td_status *slice_size(int k, int64_t dim, const td_small *begin,
                             const td_small *size, int64_t *out) {
  int64_t at = begin->known[k] ? begin->at[k] : 0;
  int64_t n = size->known[k] ? size->at[k] : -1;
  *out = -1;
  if (at < 0 || (dim >= 0 && at > dim))
    return bad_begin(k, at, dim < 0 ? INT64_MAX : dim);
  if (n < -1 || (dim >= 0 && n > dim - at))
    return bad_size(k, n, dim < 0 ? INT64_MAX : dim - at);
  if (!size->known[k]) return NULL;
  if (n >= 0)
    *out = n;
  else if (dim >= 0 && begin->known[k])
    *out = dim - at;
  return NULL;
}

static td_status *slice_to(const td_shape *in, const td_small *begin,
                           const td_small *size, td_shape *out) {
  TD_TRY(td_operand_vector(begin, "begin"));
  TD_TRY(td_operand_vector(size, "size"));
  if (begin->count != size->count || begin->count > TD_MAX_RANK ||
      (in->rank >= 0 && begin->count != in->rank))
    return td_error(TD_INVALID_ARGUMENT,
                    "begin and size must have one element for each of the %d "
                    "dimensions, not %d and %d",
                    in->rank < 0 ? begin->count : in->rank, begin->count,
                    size->count);
  *out = td_shape_ranked(begin->count);
  for (int k = 0; k < begin->count; k++)
    TD_TRY(slice_size(k, in->rank < 0 ? -1 : in->dim[k], begin, size,
                      &out->dim[k]));
  return NULL;
}

static td_status *slice_infer(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  td_small begin, size;
  bool has_begin, has_size;
  td_shape out;
  TD_TRY(td_operand_infer_ints(c, 1, "begin", &begin, &has_begin));
  TD_TRY(td_operand_infer_ints(c, 2, "size", &size, &has_size));
  if (in->rank >= 0) td_infer_out(c, 0, td_shape_ranked(in->rank));
  if (!has_begin && !has_size) return NULL;
  if (!has_begin) begin = (td_small){.rank = 1, .count = size.count};
  if (!has_size) size = (td_small){.rank = 1, .count = begin.count};
  TD_TRY(slice_to(in, &begin, &size, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static bool slice_value(td_infer *c, int out, td_small *v) {
  td_small all, begin, size;
  (void)out;
  if (!td_infer_small(c, 0, &all) || all.rank != 1) return false;
  if (!td_infer_small(c, 1, &begin) || begin.count != 1) return false;
  if (!td_infer_small(c, 2, &size) || size.count != 1) return false;
  if (!begin.known[0] || !size.known[0]) return false;
  int64_t at = begin.at[0], n = size.at[0];
  if (at < 0 || at > all.count) return false;
  if (n == -1) n = all.count - at;
  if (n < 0 || n > all.count - at) return false;
  *v = (td_small){.rank = 1, .count = (int)n};
  for (int k = 0; k < n; k++) {
    v->at[k] = all.at[at + k];
    v->known[k] = all.known[at + k];
  }
  return true;
}

/* Only the first axis of which more than one index is taken may be cut. */
static bool is_dense(const td_shape *in, const td_shape *out) {
  int k = 0;
  while (k < in->rank && out->dim[k] == 1) k++;
  for (k++; k < in->rank; k++)
    if (out->dim[k] != in->dim[k]) return false;
  return true;
}

td_status *td_moves_slice(td_kernel_ctx *c) {
  const td_shape *in = &td_in(c, 0)->shape;
  td_small begin, size;
  td_shape out;
  td_strided_copy m;
  td_strided_copy_init(&m);
  int64_t from[TD_MAX_RANK], to[TD_MAX_RANK], first = 0;
  bool taken = false;
  TD_TRY(td_operand_ints(td_in(c, 1), "begin", &begin));
  TD_TRY(td_operand_ints(td_in(c, 2), "size", &size));
  TD_TRY(slice_to(in, &begin, &size, &out));
  if (td_shape_equal(in, &out)) return td_array_share(c, 0, 0, &out);
  td_shape_strides(in, from);
  td_shape_strides(&out, to);
  for (int k = 0; k < in->rank; k++) {
    first += begin.at[k] * from[k];
    td_strided_copy_loop(&m, out.dim[k], from[k], to[k]);
  }
  if (td_shape_count(&out) > 0 && is_dense(in, &out))
    TD_TRY(td_array_view(c, 0, 0, first, &out, &taken));
  return taken ? NULL : td_strided_copy_kernel(c, 0, 0, &out, &m, first);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Slice",
     .sig = "input: T, begin: Index, size: Index -> output: T; "
            "T: type; Index: {int32, int64}",
     .shape = slice_infer,
     .cost = td_cost_take,
     .value = slice_value,
     .doc = "size[i] elements of dimension i from begin[i] on; -1 is all "
            "that are left.",
     .host = "begin, size",
     .example = "td.slice(td.tensor{1, 2, 3, 4}, {1}, {2})  --> 2 3",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Slice", .device = "CPU", .run = td_moves_slice},
    {0},
};

TD_MODULE(slice, ops, kernels)
