/* space_batch.c - SpaceToBatchND, BatchToSpaceND and their two-dimensional
 * forms: places of a grid, block_shape apart, as batches of their own.
 *
 * A place at index i * block + j, counted from where padding begins or what is
 * cut off ends, is place i of batch j: both ways that gives a list of rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/row_gather.h"
#include "kernels/row_plans.h"
#include "kernels/operand.h"
#include "kernels/array.h"

typedef td_space_batch_plan plan;

/* ---- shapes -------------------------------------------------------------- */

static td_status *check_operands(const td_shape *in, int axes,
                                 const td_shape *pads, const char *what) {
  td_shape want = td_shape_matrix(axes, 2);
  td_shape_text a, b;
  if (in->rank >= 0 && in->rank < 1 + axes)
    return td_error(TD_INVALID_ARGUMENT,
                    "input must be of rank %d or more, not of shape %s",
                    1 + axes, td_shape_str(in, &a));
  if (td_shape_compatible(pads, &want)) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be of shape %s, not %s", what,
                  td_shape_str(&want, &a), td_shape_str(pads, &b));
}

static td_status *read_block(const td_small *block, plan *p) {
  p->axes = block->count;
  p->blocks = 1;
  TD_TRY(td_shape_check_rank(1 + p->axes));
  for (int k = 0; k < p->axes; k++) {
    p->block[k] = block->at[k];
    if (block->at[k] < 1 || block->at[k] > INT32_MAX ||
        __builtin_mul_overflow(p->blocks, block->at[k], &p->blocks))
      return td_error(TD_INVALID_ARGUMENT,
                      "block_shape[%d] must be positive and not too large, is "
                      "%lld",
                      k, (long long)block->at[k]);
  }
  return NULL;
}

static td_status *read_pads(const td_tensor *pads, const char *what, plan *p,
                            int64_t *sum) {
  for (int k = 0; k < p->axes; k++) {
    int64_t a = td_tensor_get_i(pads, 2 * k);
    int64_t b = td_tensor_get_i(pads, 2 * k + 1);
    p->before[k] = a;
    if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum[k]))
      return td_error(TD_INVALID_ARGUMENT,
                      "%s[%d] must not be negative, is {%lld, %lld}", what, k,
                      (long long)a, (long long)b);
  }
  return NULL;
}

static td_status *bad_size(const char *what, int axis, int64_t size,
                           int64_t of) {
  return td_error(TD_INVALID_ARGUMENT,
                  "%s, %lld, must be a multiple of %lld along dimension %d",
                  what, (long long)size, (long long)of, axis);
}

static td_status *to_batch(plan *p, const int64_t *sum) {
  p->batch = p->space;
  if (p->space.dim[0] >= 0 &&
      __builtin_mul_overflow(p->space.dim[0], p->blocks, &p->batch.dim[0]))
    return td_error(TD_INVALID_ARGUMENT, "there would be too many batches");
  for (int k = 0; k < p->axes; k++) {
    int64_t size = p->space.dim[k + 1];
    if (size < 0) continue;
    if (__builtin_add_overflow(size, sum[k], &size))
      return td_error(TD_INVALID_ARGUMENT, "paddings[%d] is too large", k);
    if (size % p->block[k])
      return bad_size("the padded size", k + 1, size, p->block[k]);
    p->batch.dim[k + 1] = size / p->block[k];
  }
  return NULL;
}

static td_status *to_space(plan *p, const int64_t *sum) {
  p->space = p->batch;
  if (p->batch.dim[0] >= 0) {
    if (p->batch.dim[0] % p->blocks)
      return bad_size("the number of batches", 0, p->batch.dim[0], p->blocks);
    p->space.dim[0] = p->batch.dim[0] / p->blocks;
  }
  for (int k = 0; k < p->axes; k++) {
    int64_t size = p->batch.dim[k + 1];
    if (size < 0) continue;
    if (__builtin_mul_overflow(size, p->block[k], &size) || size < sum[k])
      return td_error(TD_INVALID_ARGUMENT,
                      "crops[%d], %lld together, leave nothing of %lld blocks "
                      "of %lld",
                      k, (long long)sum[k], (long long)p->batch.dim[k + 1],
                      (long long)p->block[k]);
    p->space.dim[k + 1] = size - sum[k];
  }
  return NULL;
}

static td_status *make_plan(const td_shape *in, const td_small *block,
                            const td_tensor *pads, bool back, plan *p) {
  const char *what = back ? "crops" : "paddings";
  int64_t sum[TD_MAX_RANK];
  *p = (plan){.space = *in, .batch = *in};
  TD_TRY(read_block(block, p));
  TD_TRY(check_operands(in, p->axes, &pads->shape, what));
  TD_TRY(read_pads(pads, what, p, sum));
  return back ? to_space(p, sum) : to_batch(p, sum);
}

/* ---- operands: block_shape is an input, or an attribute ------------------ */

static td_small square_of(int64_t block) {
  return (td_small){
      .rank = 1, .count = 2, .at = {block, block}, .known = {true, true}};
}

static td_status *infer(td_infer *c, bool back) {
  const td_shape *in = td_infer_in(c, 0);
  bool nd = td_infer_inputs(c) == 3, known = true;
  const td_tensor *pads = td_infer_const(c, nd ? 2 : 1);
  td_small block = square_of(nd ? 0 : td_infer_int(c, "block_size"));
  plan p;
  if (nd) {
    TD_TRY(td_infer_rank(c, 1, 1, "block_shape", NULL));
    TD_TRY(td_operand_infer_ints(c, 1, "block_shape", &block, &known));
  }
  if (!nd) TD_TRY(td_infer_rank(c, 0, 4, "input", NULL));
  if (known)
    TD_TRY(check_operands(in, block.count, td_infer_in(c, nd ? 2 : 1),
                          back ? "crops" : "paddings"));
  if (in->rank < 0) return NULL;
  td_shape unknown = td_shape_ranked(in->rank);
  if (known)
    for (int k = block.count + 1; k < in->rank; k++)
      unknown.dim[k] = in->dim[k];
  td_infer_out(c, 0, unknown);
  if (!known || !pads || !td_operand_known(&block)) return NULL;
  TD_TRY(make_plan(in, &block, pads, back, &p));
  td_infer_out(c, 0, back ? p.space : p.batch);
  return NULL;
}

static td_status *batch_infer(td_infer *c) {
  return infer(c, false);
}
static td_status *space_infer(td_infer *c) {
  return infer(c, true);
}

/* ---- rows ---------------------------------------------------------------- */

/* The next index of the axes of batches and space. */
static void step(const td_shape *s, int axes, int64_t *at) {
  for (int k = axes; k >= 0 && ++at[k] == s->dim[k]; k--) at[k] = 0;
}

/* Where a place in batches lies in space; -1: in the padding. */
static int64_t space_row(const plan *p, const int64_t *at) {
  int64_t part = at[0] / p->space.dim[0], row = at[0] % p->space.dim[0];
  int64_t inside[TD_MAX_RANK];
  for (int k = p->axes - 1; k >= 0; k--) {
    inside[k] = part % p->block[k];
    part /= p->block[k];
  }
  for (int k = 0; k < p->axes; k++) {
    int64_t size = p->space.dim[k + 1];
    int64_t i = at[k + 1] * p->block[k] + inside[k] - p->before[k];
    if (i < 0 || i >= size) return -1;
    row = row * size + i;
  }
  return row;
}

static int64_t batch_row(const plan *p, const int64_t *at) {
  int64_t part = 0, row;
  for (int k = 0; k < p->axes; k++)
    part = part * p->block[k] + (at[k + 1] + p->before[k]) % p->block[k];
  row = part * p->space.dim[0] + at[0];
  for (int k = 0; k < p->axes; k++)
    row = row * p->batch.dim[k + 1] + (at[k + 1] + p->before[k]) / p->block[k];
  return row;
}

static td_status *copy_places(td_kernel_ctx *c, const plan *p, bool back) {
  const td_shape *out = back ? &p->space : &p->batch;
  int64_t at[TD_MAX_RANK] = {0};
  td_tensor list;
  int64_t n = td_shape_count(out) ? td_shape_span(out, 0, p->axes + 1) : 0;
  td_shape shape = td_shape_vector(n);
  TD_TRY(td_temp(c, TD_INT64, &shape, &list));
  int64_t *rows = list.data;
  for (int64_t i = 0; i < n; i++) {
    rows[i] = back ? batch_row(p, at) : space_row(p, at);
    step(out, p->axes, at);
  }
  td_status *s = td_row_gather_kernel(c, 0, rows, n, out);
  td_tensor_release(&list);
  return s;
}

td_status *td_space_batch_read(td_kernel_ctx *c, bool back,
                               td_space_batch_plan *p) {
  bool nd = c->n_in == 3;
  td_small block = square_of(0);
  if (!nd) {
    td_shape_text text;
    if (td_in(c, 0)->shape.rank != 4)
      return td_error(TD_INVALID_ARGUMENT, "input must be of rank 4, not %s",
                      td_shape_str(&td_in(c, 0)->shape, &text));
    block = square_of(td_node_int(td_ctx_node(c), "block_size"));
  } else {
    TD_TRY(td_operand_ints(td_in(c, 1), "block_shape", &block));
    if (block.rank != 1)
      return td_error(TD_INVALID_ARGUMENT, "block_shape must be a vector");
  }
  TD_TRY(make_plan(&td_in(c, 0)->shape, &block, td_in(c, nd ? 2 : 1), back, p));
  return td_array_count(back ? &p->space : &p->batch, NULL);
}

static td_status *run(td_kernel_ctx *c, bool back) {
  plan p;
  TD_TRY(td_space_batch_read(c, back, &p));
  return copy_places(c, &p, back);
}

static td_status *batch_run(td_kernel_ctx *c) {
  return run(c, false);
}
static td_status *space_run(td_kernel_ctx *c) {
  return run(c, true);
}

/* ---- tables -------------------------------------------------------------- */

#define ND_SIG(pads, attr)                                                     \
  "input: T, block_shape: Tblock_shape, " pads ": " attr " -> output: T; "     \
  "T: type; Tblock_shape: {int32, int64} = int32; " attr                       \
  ": {int32, int64} = int32"

static const td_op_def ops[] = {
    {.type = "SpaceToBatchND",
     .sig = ND_SIG("paddings", "Tpaddings"),
     .shape = batch_infer,
     .cost = td_cost_move,
     .doc = "Every block_shape-th place of the padded input, from each place "
            "of a block on, as batches of their own.",
     .lua = "space_to_batch_nd",
     .host = "block_shape, paddings",
     .example = "td.space_to_batch_nd({{1, 2, 3, 4}}, {2}, {{0, 0}})"
                "  --> 1 3 2 4",
     .section = "Array"},
    {.type = "BatchToSpaceND",
     .sig = ND_SIG("crops", "Tcrops"),
     .shape = space_infer,
     .cost = td_cost_move,
     .doc = "Batches as the places of blocks, the other way than "
            "SpaceToBatchND; crops are cut off.",
     .lua = "batch_to_space_nd",
     .host = "block_shape, crops",
     .example = "td.batch_to_space_nd({{1, 3}, {2, 4}}, {2}, {{0, 0}})"
                "  --> 1 2 3 4",
     .section = "Array"},
    {.type = "SpaceToBatch",
     .sig = "input: T, paddings: Tpaddings -> output: T; T: type; "
            "Tpaddings: {int32, int64} = int32; block_size: int >= 2",
     .shape = batch_infer,
     .cost = td_cost_move,
     .doc = "SpaceToBatchND for squares of block_size places.",
     .lua = "space_to_batch",
     .host = "paddings",
     .example = "td.space_to_batch(td.value.ones{1, 2, 2, 1}, {{0, 0}, {0, "
                "0}}, {block_size = 2})"
                "  --> 1 1 1 1",
     .section = "Array"},
    {.type = "BatchToSpace",
     .sig = "input: T, crops: Tidx -> output: T; T: type; block_size: int >= "
            "2; Tidx: {int32, int64} = int32",
     .shape = space_infer,
     .cost = td_cost_move,
     .doc = "BatchToSpaceND for squares of block_size places.",
     .lua = "batch_to_space",
     .host = "crops",
     .example = "td.batch_to_space(td.value.ones{4, 1, 1, 1}, {{0, 0}, {0, "
                "0}}, {block_size = 2})"
                "  --> 1 1 1 1",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "SpaceToBatchND", .device = "CPU", .run = batch_run},
    {.op = "BatchToSpaceND", .device = "CPU", .run = space_run},
    {.op = "SpaceToBatch", .device = "CPU", .run = batch_run},
    {.op = "BatchToSpace", .device = "CPU", .run = space_run},
    {0},
};

TD_MODULE(space_batch, ops, kernels)
