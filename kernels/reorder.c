/* reorder.c - rows in another order: ReverseSequence, Roll.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/row_gather.h"

/* Writes the rows' numbers: rows[i] is where row i of the output comes from. */
typedef struct order {
  td_shape shape;
  int axes;      /* rows are counted over these axes */
  int64_t n;     /* rows */
  int64_t *rows; /* caller's, freed by order_end */
} order;

static td_status *order_begin(const td_shape *shape, int axes, order *o) {
  *o = (order){
      .shape = *shape, .axes = axes, .n = td_array_span(shape, 0, axes)};
  o->rows = td_alloc_zero((size_t)o->n, sizeof *o->rows);
  return o->rows ? NULL : td_oom();
}

static td_status *order_end(td_kernel_ctx *c, order *o) {
  td_status *s = td_row_gather_kernel(c, 0, o->rows, o->n, &o->shape);
  td_free(o->rows);
  return s;
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

static td_status *reverse_infer(td_infer *c) {
  TD_TRY(check_axes(td_infer_in(c, 0), td_infer_in(c, 1),
                    td_infer_int(c, "seq_dim"), td_infer_int(c, "batch_dim")));
  return td_shape_same(c);
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

static td_status *reverse_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0), *lengths = td_in(c, 1);
  int64_t seq = td_node_int(td_ctx_node(c), "seq_dim");
  int64_t batch = td_node_int(td_ctx_node(c), "batch_dim");
  order o;
  TD_TRY(check_axes(&x->shape, &lengths->shape, seq, batch));
  TD_TRY(check_lengths(lengths, x->shape.dim[seq]));
  int axes = (int)(seq > batch ? seq : batch) + 1;
  TD_TRY(order_begin(&x->shape, axes, &o));
  int64_t seq_step = td_array_span(&x->shape, (int)seq + 1, axes);
  int64_t batch_step = td_array_span(&x->shape, (int)batch + 1, axes);
  for (int64_t i = 0; i < o.n; i++) {
    int64_t s = i / seq_step % x->shape.dim[seq];
    int64_t n = td_tensor_get_i(lengths, i / batch_step % x->shape.dim[batch]);
    o.rows[i] = s < n ? i + (n - 1 - 2 * s) * seq_step : i;
  }
  return order_end(c, &o);
}

/* ---- Roll ---------------------------------------------------------------- */

static td_status *check_shifts(const td_shape *shift, const td_shape *axis) {
  td_shape_text a, b;
  if (shift->rank <= 1 && axis->rank <= 1 && td_shape_compatible(shift, axis))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "shift and axis must be scalars or vectors of one size, not "
                  "of shapes %s and %s",
                  td_shape_str(shift, &a), td_shape_str(axis, &b));
}

static td_status *roll_infer(td_infer *c) {
  TD_TRY(check_shifts(td_infer_in(c, 1), td_infer_in(c, 2)));
  TD_TRY(td_infer_rank_at_least(c, 0, 1, "input"));
  return td_shape_same(c);
}

/* Sums the shifts of each axis, in [0, size). */
static td_status *read_shifts(const td_tensor *shift, const td_tensor *axis,
                              const td_shape *x, int64_t *by, int *axes) {
  *axes = 0;
  for (int64_t i = 0; i < td_tensor_count(axis); i++) {
    int k;
    TD_TRY(td_infer_axis(td_tensor_get_i(axis, i), x->rank, "axis", &k));
    int64_t n = x->dim[k];
    if (n == 0) continue;
    int64_t s = td_tensor_get_i(shift, i) % n;
    by[k] = (by[k] + (s < 0 ? s + n : s)) % n;
    if (*axes <= k) *axes = k + 1;
  }
  return NULL;
}

static td_status *roll_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0), *shift = td_in(c, 1), *axis = td_in(c, 2);
  int64_t by[TD_MAX_RANK] = {0}, at[TD_MAX_RANK] = {0};
  int axes;
  order o;
  if (x->shape.rank == 0)
    return td_error(TD_INVALID_ARGUMENT, "input must be of rank 1 or more");
  TD_TRY(check_shifts(&shift->shape, &axis->shape));
  TD_TRY(read_shifts(shift, axis, &x->shape, by, &axes));
  TD_TRY(order_begin(&x->shape, axes, &o));
  for (int64_t i = 0; i < o.n; i++) {
    int64_t row = 0;
    for (int k = 0; k < axes; k++) {
      int64_t n = x->shape.dim[k], from = at[k] - by[k];
      row = row * n + (from < 0 ? from + n : from);
    }
    o.rows[i] = row;
    for (int k = axes - 1; k >= 0 && ++at[k] == x->shape.dim[k]; k--) at[k] = 0;
  }
  return order_end(c, &o);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "ReverseSequence",
     .sig = "input: T, seq_lengths: Tlen -> output: T; seq_dim: int; "
            "batch_dim: int = 0; T: type; Tlen: {int32, int64} = int64",
     .shape = reverse_infer,
     .doc = "The first seq_lengths[b] elements along seq_dim in the opposite "
            "order, for every b of batch_dim.",
     .host = "seq_lengths",
     .example = "td.reverse_sequence({{1, 2, 3}}, {2}, {seq_dim = 1})"
                "  --> 2 1 3",
     .section = "Array"},
    {.type = "Roll",
     .sig = "input: T, shift: Tshift, axis: Taxis -> output: T; T: type; "
            "Tshift: {int32, int64}; Taxis: {int32, int64}",
     .shape = roll_infer,
     .doc = "Elements moved by shift along axis; what leaves at one end comes "
            "in at the other.",
     .host = "shift, axis",
     .example = "td.roll(td.tensor{1, 2, 3}, 1, 0)  --> 3 1 2",
     .section = "Beyond"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ReverseSequence", .device = "CPU", .run = reverse_run},
    {.op = "Roll", .device = "CPU", .run = roll_run},
    {0},
};

TD_MODULE(reorder, ops, kernels)
