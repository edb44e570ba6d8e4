/* reverse.c - ReverseV2, ReverseSequence: elements in the opposite order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "kernels/cost.h"
#include "kernels/moves.h"
#include "kernels/strided_copy.h"
#include "kernels/row_gather.h"
#include "kernels/row_plans.h"
#include "kernels/operand.h"

/* ---- ReverseV2 ----------------------------------------------------------- */

static td_status *mark_axes(const td_small *axes, int rank, bool *reversed) {
  for (int k = 0; k < axes->count; k++) {
    int axis;
    if (!axes->known[k]) continue;
    TD_TRY(td_infer_axis(axes->at[k], rank, "axis", &axis));
    if (reversed[axis])
      return td_error(TD_INVALID_ARGUMENT, "axis %d is given twice", axis);
    reversed[axis] = true;
  }
  return NULL;
}

static td_status *reverse_infer(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  bool reversed[TD_MAX_RANK] = {false}, known;
  td_small axes;
  TD_TRY(td_infer_rank(c, 1, 1, "axis", NULL));
  TD_TRY(td_operand_infer_ints(c, 1, "axis", &axes, &known));
  if (known && in->rank >= 0) TD_TRY(mark_axes(&axes, in->rank, reversed));
  td_infer_out(c, 0, *in);
  return NULL;
}

td_status *td_moves_reverse(td_kernel_ctx *c) {
  const td_shape *in = &td_in(c, 0)->shape;
  bool reversed[TD_MAX_RANK] = {false};
  td_small axes;
  td_strided_copy m;
  td_strided_copy_init(&m);
  int64_t steps[TD_MAX_RANK], first = 0;
  TD_TRY(td_operand_ints(td_in(c, 1), "axis", &axes));
  if (axes.rank != 1)
    return td_error(TD_INVALID_ARGUMENT, "axis must be a vector");
  TD_TRY(mark_axes(&axes, in->rank, reversed));
  td_shape_strides(in, steps);
  for (int k = 0; k < in->rank; k++) {
    int64_t back = reversed[k] ? -steps[k] : steps[k];
    if (reversed[k] && in->dim[k] > 0) first += (in->dim[k] - 1) * steps[k];
    td_strided_copy_loop(&m, in->dim[k], back, steps[k]);
  }
  return td_strided_copy_kernel(c, 0, 0, in, &m, first);
}

/* ---- ReverseSequence ----------------------------------------------------- */

/* Axes of sequences and of batches; lengths is a vector, one for each batch. */
static td_status *check_axes(const td_shape *x, const td_shape *lengths,
                             int64_t seq, int64_t batch) {
  td_shape vector = td_shape_vector(-1);
  td_shape_text a, b;
  if (seq < 0 || batch < 0 || seq == batch)
    return td_error(TD_INVALID_ARGUMENT,
                    "seq_dim, %lld, and batch_dim, %lld, must be two axes",
                    (long long)seq, (long long)batch);
  if (x->rank >= 0 && (seq >= x->rank || batch >= x->rank))
    return td_error(TD_INVALID_ARGUMENT,
                    "seq_dim, %lld, and batch_dim, %lld, must be axes of the "
                    "input, of shape %s",
                    (long long)seq, (long long)batch, td_shape_str(x, &a));
  if (x->rank >= 0) vector.dim[0] = x->dim[batch];
  if (td_shape_compatible(lengths, &vector)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "seq_lengths must be of shape %s, a length for each batch, "
                  "not %s",
                  td_shape_str(&vector, &a), td_shape_str(lengths, &b));
}

static td_status *sequence_infer(td_infer *c) {
  TD_TRY(check_axes(td_infer_in(c, 0), td_infer_in(c, 1),
                    td_infer_int(c, "seq_dim"), td_infer_int(c, "batch_dim")));
  return td_infer_same(c);
}

static td_status *check_lengths(const td_tensor *lengths, int64_t most) {
  for (int64_t i = 0; i < td_tensor_count(lengths); i++) {
    int64_t n = td_tensor_get_i(lengths, i);
    if (n < 0 || n > most)
      return td_error(TD_INVALID_ARGUMENT,
                      "seq_lengths[%lld] is %lld, not in [0, %lld]",
                      (long long)i, (long long)n, (long long)most);
  }
  return NULL;
}

td_status *td_reverse_sequence_read(td_kernel_ctx *c, int *seq, int *batch) {
  const td_tensor *x = td_in(c, 0), *lengths = td_in(c, 1);
  int64_t s = td_node_int(td_ctx_node(c), "seq_dim");
  int64_t b = td_node_int(td_ctx_node(c), "batch_dim");
  TD_TRY(check_axes(&x->shape, &lengths->shape, s, b));
  *seq = (int)s;
  *batch = (int)b;
  return check_lengths(lengths, x->shape.dim[s]);
}

static td_status *sequence_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0), *lengths = td_in(c, 1);
  int seq, batch;
  TD_TRY(td_reverse_sequence_read(c, &seq, &batch));
  int axes = (seq > batch ? seq : batch) + 1;
  int64_t n = td_shape_span(&x->shape, 0, axes);
  int64_t *rows = td_calloc((size_t)n, sizeof *rows);
  if (!rows) return td_oom();
  int64_t seq_step = td_shape_span(&x->shape, seq + 1, axes);
  int64_t batch_step = td_shape_span(&x->shape, batch + 1, axes);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = i / seq_step % x->shape.dim[seq];
    int64_t len =
        td_tensor_get_i(lengths, i / batch_step % x->shape.dim[batch]);
    rows[i] = at < len ? i + (len - 1 - 2 * at) * seq_step : i;
  }
  td_status *s = td_row_gather_kernel(c, 0, rows, n, &x->shape);
  td_free(rows);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "ReverseV2",
     .sig = "tensor: T, axis: Tidx -> output: T; "
            "Tidx: {int32, int64} = int32; "
            "T: {uint8, int8, uint16, int16, int32, uint32, int64, uint64, "
            "bool, bfloat16, half, float, double, complex64, complex128, "
            "string}",
     .shape = reverse_infer,
     .cost = td_cost_move,
     .doc = "The elements in the opposite order along the axes given.",
     .host = "axis",
     .example = "td.reverse(td.tensor{1, 2, 3}, {0})  --> 3 2 1",
     .section = "Array"},
    {.type = "ReverseSequence",
     .sig = "input: T, seq_lengths: Tlen -> output: T; seq_dim: int; "
            "batch_dim: int = 0; T: type; Tlen: {int32, int64} = int64",
     .shape = sequence_infer,
     .cost = td_cost_move,
     .doc = "The first seq_lengths[b] elements along seq_dim in the opposite "
            "order, for every b of batch_dim.",
     .host = "seq_lengths",
     .example = "td.reverse_sequence({{1, 2, 3}}, {2}, {seq_dim = 1})"
                "  --> 2 1 3",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ReverseV2", .device = "CPU", .run = td_moves_reverse},
    {.op = "ReverseSequence", .device = "CPU", .run = sequence_run},
    {0},
};

TD_MODULE(reverse, ops, kernels)
