/* tile.c - Tile: a tensor repeated along its axes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/moves.h"
#include "kernels/strided_copy.h"
#include "kernels/operand.h"
#include "kernels/array.h"

static td_status *tile_to(const td_shape *in, const td_small *times,
                          td_shape *out) {
  TD_TRY(td_operand_vector(times, "multiples"));
  if (times->count != in->rank)
    return td_error(TD_INVALID_ARGUMENT,
                    "multiples must have one element for each of the %d "
                    "dimensions, not %d",
                    in->rank, times->count);
  *out = td_shape_ranked(in->rank);
  for (int k = 0; k < in->rank; k++) {
    if (!times->known[k]) continue;
    if (times->at[k] < 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "multiples[%d] must not be negative, is %lld", k,
                      (long long)times->at[k]);
    if (in->dim[k] >= 0 &&
        __builtin_mul_overflow(in->dim[k], times->at[k], &out->dim[k]))
      return td_error(TD_INVALID_ARGUMENT,
                      "dimension %d would have more than 2^63-1 elements", k);
  }
  return NULL;
}

static td_status *tile_infer(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  td_small times;
  td_shape out;
  bool known;
  TD_TRY(td_operand_infer_ints(c, 1, "multiples", &times, &known));
  if (!known) {
    if (in->rank >= 0) td_infer_out(c, 0, td_shape_ranked(in->rank));
    return NULL;
  }
  TD_TRY(td_shape_check_rank(times.count));
  td_shape full = in->rank < 0 ? td_shape_ranked(times.count) : *in;
  TD_TRY(tile_to(&full, &times, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

td_status *td_moves_tile(td_kernel_ctx *c) {
  const td_shape *in = &td_in(c, 0)->shape;
  td_small times;
  td_shape out;
  td_strided_copy m;
  td_strided_copy_init(&m);
  int64_t from[TD_MAX_RANK], to[TD_MAX_RANK];
  TD_TRY(td_operand_ints(td_in(c, 1), "multiples", &times));
  TD_TRY(tile_to(in, &times, &out));
  if (td_shape_equal(in, &out)) return td_array_share(c, 0, 0, &out);
  TD_TRY(td_array_count(&out, NULL));
  td_shape_strides(in, from);
  td_shape_strides(&out, to);
  for (int k = 0; k < in->rank; k++) {
    td_strided_copy_loop(&m, times.at[k], 0, in->dim[k] * to[k]);
    td_strided_copy_loop(&m, in->dim[k], from[k], to[k]);
  }
  return td_strided_copy_kernel(c, 0, 0, &out, &m, 0);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Tile",
     .sig = "input: T, multiples: Tmultiples -> output: T; "
            "T: type; Tmultiples: {int32, int64} = int32",
     .shape = tile_infer,
     .cost = td_cost_move,
     .doc = "The input repeated multiples[i] times along dimension i.",
     .host = "multiples",
     .example = "td.tile(td.tensor{1, 2}, {2})  --> 1 2 1 2",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Tile", .device = "CPU", .run = td_moves_tile},
    {0},
};

TD_MODULE(tile, ops, kernels)
