/* space_depth.c - SpaceToDepth, DepthToSpace: blocks of places as channels.
 *
 * Both are a tensor of six axes in another order: the blocks' rows and columns
 * are axes of their own on either side.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/moves.h"
#include "kernels/strided_copy.h"
#include "kernels/array.h"

#include <string.h>

enum { AXES = 6 };

/* ---- shapes -------------------------------------------------------------- */

typedef struct layout {
  int height, width, depth; /* axes */
} layout;

static td_status *layout_of(const char *format, layout *at) {
  *at = (layout){1, 2, 3};
  if (strcmp(format, "NHWC") == 0) return NULL;
  *at = (layout){2, 3, 1};
  if (strcmp(format, "NCHW") == 0) return NULL;
  return td_error(TD_UNIMPLEMENTED, "data_format %s is for GPUs", format);
}

static td_status *check_multiple(const td_shape *s, int axis, int64_t of) {
  td_shape_text text;
  if (s->dim[axis] < 0 || s->dim[axis] % of == 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "dimension %d of the input, of shape %s, must be a multiple "
                  "of %lld",
                  axis, td_shape_str(s, &text), (long long)of);
}

static void scale(int64_t *size, int64_t times, int64_t parts) {
  if (*size >= 0) *size = *size / parts * times;
}

/* `to_depth`, or to space. */
static td_status *shape_of(const td_shape *in, const layout *at, int64_t block,
                           bool to_depth, td_shape *out) {
  td_shape_text text;
  *out = *in;
  if (in->rank != 4)
    return td_error(TD_INVALID_ARGUMENT, "input must be of rank 4, not %s",
                    td_shape_str(in, &text));
  if (block < 2 || block > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT, "block_size must be 2 or more");
  int64_t square = block * block;
  if (to_depth) {
    TD_TRY(check_multiple(in, at->height, block));
    TD_TRY(check_multiple(in, at->width, block));
  } else {
    TD_TRY(check_multiple(in, at->depth, square));
  }
  if (to_depth && in->dim[at->depth] > INT64_MAX / square)
    return td_error(TD_INVALID_ARGUMENT, "the depth would be too large");
  scale(&out->dim[at->height], to_depth ? 1 : block, to_depth ? block : 1);
  scale(&out->dim[at->width], to_depth ? 1 : block, to_depth ? block : 1);
  scale(&out->dim[at->depth], to_depth ? square : 1, to_depth ? 1 : square);
  return NULL;
}

static td_status *infer(td_infer *c, bool to_depth) {
  td_shape in, out;
  layout at;
  TD_TRY(layout_of(td_infer_string(c, "data_format"), &at));
  TD_TRY(td_infer_rank(c, 0, 4, "input", &in));
  TD_TRY(shape_of(&in, &at, td_infer_int(c, "block_size"), to_depth, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *depth_infer(td_infer *c) {
  return infer(c, true);
}
static td_status *space_infer(td_infer *c) {
  return infer(c, false);
}

/* ---- the copy ------------------------------------------------------------ */

/* Steps of batch, row and column of blocks, row and column inside a block, and
 * channel, of a tensor with blocks in space or in depth. */
static void block_steps(const td_shape *s, const layout *at, int64_t block,
                        bool in_depth, int64_t *steps) {
  int64_t of[TD_MAX_RANK];
  td_shape_strides(s, of);
  int64_t channels = s->dim[at->depth] / (in_depth ? block * block : 1);
  steps[0] = of[0];
  steps[1] = of[at->height] * (in_depth ? 1 : block);
  steps[2] = of[at->width] * (in_depth ? 1 : block);
  steps[3] = in_depth ? of[at->depth] * channels * block : of[at->height];
  steps[4] = in_depth ? of[at->depth] * channels : of[at->width];
  steps[5] = of[at->depth];
}

static td_status *run(td_kernel_ctx *c, bool to_depth) {
  const td_shape *in = &td_in(c, 0)->shape;
  int64_t block = td_node_int(td_ctx_node(c), "block_size");
  int64_t from[AXES], to[AXES];
  layout at;
  td_shape out;
  td_strided_copy m;
  td_strided_copy_init(&m);
  TD_TRY(layout_of(td_node_string(td_ctx_node(c), "data_format"), &at));
  TD_TRY(shape_of(in, &at, block, to_depth, &out));
  TD_TRY(td_array_count(&out, NULL));
  const td_shape *deep = to_depth ? &out : in;
  const int64_t count[AXES] = {in->dim[0],
                               deep->dim[at.height],
                               deep->dim[at.width],
                               block,
                               block,
                               deep->dim[at.depth] / (block * block)};
  block_steps(in, &at, block, !to_depth, from);
  block_steps(&out, &at, block, to_depth, to);
  static const int nhwc[] = {0, 1, 3, 2, 4, 5}, nchw[] = {0, 5, 1, 3, 2, 4};
  const int *order = at.depth == 3 ? nhwc : nchw;
  for (int k = 0; k < AXES; k++)
    td_strided_copy_loop(&m, count[order[k]], from[order[k]], to[order[k]]);
  return td_strided_copy_kernel(c, 0, 0, &out, &m, 0);
}

td_status *td_moves_space_to_depth(td_kernel_ctx *c) {
  return run(c, true);
}
td_status *td_moves_depth_to_space(td_kernel_ctx *c) {
  return run(c, false);
}

/* ---- tables -------------------------------------------------------------- */

#define SIG                                                                    \
  "input: T -> output: T; T: type; block_size: int >= 2; "                     \
  "data_format: {\"NHWC\", \"NCHW\", \"NCHW_VECT_C\"} = \"NHWC\""

static const td_op_def ops[] = {
    {.type = "SpaceToDepth",
     .sig = SIG,
     .shape = depth_infer,
     .cost = td_cost_move,
     .doc = "Squares of block_size places become the channels of one place.",
     .example =
         "td.space_to_depth({{{{1}, {2}}, {{3}, {4}}}}, {block_size = 2})"
         "  --> 1 2 3 4",
     .section = "Array"},
    {.type = "DepthToSpace",
     .sig = SIG,
     .shape = space_infer,
     .cost = td_cost_move,
     .doc = "Channels of one place become squares of block_size places.",
     .example = "td.depth_to_space({{{{1, 2, 3, 4}}}}, {block_size = 2})"
                "  --> 1 2 3 4",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "SpaceToDepth", .device = "CPU", .run = td_moves_space_to_depth},
    {.op = "DepthToSpace", .device = "CPU", .run = td_moves_depth_to_space},
    {0},
};

TD_MODULE(space_depth, ops, kernels)
