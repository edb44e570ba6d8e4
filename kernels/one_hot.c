/* one_hot.c - OneHot: a new axis of zeros with a one where the index says.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cost.h"
#include "kernels/strided_copy.h"
#include "kernels/array.h"

#include <string.h>

/* Bytes that one piece writes, about. */
enum { PIECE = 1 << 17 };

/* The output is {before, depth, after}; before * after are the indices. */
typedef struct one_hot {
  const td_tensor *indices;
  int64_t depth, after;
  int64_t chunk, chunks; /* of the depth, that one unit writes */
  const char *on, *off;
  td_array y;
} one_hot;

static td_status *one_hot_axis(int64_t given, int rank, int *axis) {
  TD_TRY(td_shape_check_rank(rank + 1));
  if (given < -1)
    return td_error(TD_INVALID_ARGUMENT,
                    "axis must be -1 or in [0, %d], is %lld", rank,
                    (long long)given);
  return td_infer_axis(given, rank + 1, "axis", axis);
}

static td_shape one_hot_shape(const td_shape *in, int axis, int64_t depth) {
  td_shape out = td_shape_ranked(in->rank + 1);
  for (int k = 0; k < in->rank; k++) out.dim[k + (k >= axis)] = in->dim[k];
  out.dim[axis] = depth;
  return out;
}

static td_status *check_depth(int64_t depth) {
  if (depth >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "depth must not be negative, is %lld",
                  (long long)depth);
}

static td_status *one_hot_infer(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  td_small v;
  int axis;
  for (int i = 1; i < 4; i++)
    TD_TRY(td_infer_rank(c, i, 0,
                         i == 1   ? "depth"
                         : i == 2 ? "on_value"
                                  : "off_value",
                         NULL));
  bool known = td_infer_small(c, 1, &v) && v.count == 1 && v.known[0];
  if (known) TD_TRY(check_depth(v.at[0]));
  if (in->rank < 0) return NULL;
  TD_TRY(one_hot_axis(td_infer_int(c, "axis"), in->rank, &axis));
  td_infer_out(c, 0, one_hot_shape(in, axis, known ? v.at[0] : -1));
  return NULL;
}

static void one_hot_units(void *arg, int64_t begin, int64_t end) {
  const one_hot *h = arg;
  int64_t size = (int64_t)h->y.size;
  for (int64_t u = begin; u < end; u++) {
    int64_t row = u / h->chunks, low = u % h->chunks * h->chunk;
    int64_t high = low + h->chunk < h->depth ? low + h->chunk : h->depth;
    char *to = h->y.at + (row * h->depth + low) * h->after * size;
    td_strided_copy_fill(h->off, h->y.size, to, (high - low) * h->after);
    for (int64_t i = 0; i < h->after; i++) {
      int64_t hot = td_tensor_get_i(h->indices, row * h->after + i);
      if (hot < low || hot >= high) continue;
      memcpy(to + ((hot - low) * h->after + i) * size, h->on, h->y.size);
    }
  }
}

static td_status *one_hot_fill(td_kernel_ctx *c, one_hot *h, int64_t before) {
  if (td_shape_count(&h->y.shape) > 0) {
    int64_t layer = h->after * (int64_t)h->y.size;
    h->chunk = layer < PIECE ? PIECE / layer : 1;
    if (h->chunk > h->depth) h->chunk = h->depth;
    h->chunks = h->depth / h->chunk + (h->depth % h->chunk != 0);
    int64_t bytes = h->chunk * layer;
    td_for(c, before * h->chunks, bytes < PIECE ? PIECE / bytes : 1,
           one_hot_units, h);
  }
  return td_array_done(c, 0, &h->y);
}

td_status *td_one_hot_check(const td_kernel_ctx *c, int *axis, td_shape *out) {
  const td_shape *in = &td_in(c, 0)->shape;
  for (int i = 1; i < 4; i++)
    if (td_in(c, i)->shape.rank != 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "depth, on_value and off_value must be scalars");
  int64_t depth = td_tensor_get_i(td_in(c, 1), 0);
  TD_TRY(check_depth(depth));
  TD_TRY(one_hot_axis(td_node_int(td_ctx_node(c), "axis"), in->rank, axis));
  *out = one_hot_shape(in, *axis, depth);
  return NULL;
}

static td_status *one_hot_run(td_kernel_ctx *c) {
  const td_shape *in = &td_in(c, 0)->shape;
  one_hot h = {.indices = td_in(c, 0)};
  td_array on = {0}, off = {0};
  td_shape shape;
  int axis;
  TD_TRY(td_one_hot_check(c, &axis, &shape));
  h.depth = shape.dim[axis];
  h.after = td_shape_span(in, axis, in->rank);
  td_status *s = td_array_in(td_in(c, 2), &on);
  if (td_ok(s)) s = td_array_in(td_in(c, 3), &off);
  if (td_ok(s)) s = td_array_out(c, 0, &shape, &h.y);
  h.on = on.at;
  h.off = off.at;
  if (td_ok(s)) s = one_hot_fill(c, &h, td_shape_span(in, 0, axis));
  td_array_drop(&on);
  td_array_drop(&off);
  td_array_drop(&h.y);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "OneHot",
     .sig = "indices: TI, depth: int32, on_value: T, off_value: T -> "
            "output: T; axis: int = -1; T: type; "
            "TI: {uint8, int8, int32, int64} = int64",
     .shape = one_hot_infer,
     .cost = td_cost_move,
     .doc = "A new dimension of size depth at axis, on_value where its index "
            "is the one given, off_value elsewhere.",
     .flags = TD_NO_GRADIENT,
     .host = "depth",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "OneHot", .device = "CPU", .run = one_hot_run},
    {0},
};

TD_MODULE(one_hot, ops, kernels)
