/* roll.c - Roll: elements moved along axes; those that leave at one end come
 * in at the other.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "kernels/cost.h"
#include "kernels/row_gather.h"
#include "kernels/row_plans.h"

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
  return td_infer_same(c);
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

td_status *td_rolling_read(td_kernel_ctx *c, td_roll_plan *p) {
  const td_tensor *x = td_in(c, 0), *shift = td_in(c, 1), *axis = td_in(c, 2);
  *p = (td_roll_plan){0};
  if (x->shape.rank == 0)
    return td_error(TD_INVALID_ARGUMENT, "input must be of rank 1 or more");
  TD_TRY(check_shifts(&shift->shape, &axis->shape));
  return read_shifts(shift, axis, &x->shape, p->by, &p->axes);
}

static td_status *roll_run(td_kernel_ctx *c) {
  const td_shape *x = &td_in(c, 0)->shape;
  int64_t at[TD_MAX_RANK] = {0};
  td_roll_plan p;
  TD_TRY(td_rolling_read(c, &p));
  int64_t n = td_shape_span(x, 0, p.axes);
  int64_t *rows = td_calloc((size_t)n, sizeof *rows);
  if (!rows) return td_oom();
  for (int64_t i = 0; i < n; i++) {
    int64_t row = 0;
    for (int k = 0; k < p.axes; k++) {
      int64_t size = x->dim[k], from = at[k] - p.by[k];
      row = row * size + (from < 0 ? from + size : from);
    }
    rows[i] = row;
    for (int k = p.axes - 1; k >= 0 && ++at[k] == x->dim[k]; k--) at[k] = 0;
  }
  td_status *s = td_row_gather_kernel(c, 0, rows, n, x);
  td_free(rows);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Roll",
     .sig = "input: T, shift: Tshift, axis: Taxis -> output: T; T: type; "
            "Tshift: {int32, int64}; Taxis: {int32, int64}",
     .shape = roll_infer,
     .cost = td_cost_move,
     .doc = "Elements moved by shift along axis; what leaves at one end comes "
            "in at the other.",
     .host = "shift, axis",
     .example = "td.roll(td.tensor{1, 2, 3}, 1, 0)  --> 3 1 2",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Roll", .device = "CPU", .run = roll_run},
    {0},
};

TD_MODULE(roll, ops, kernels)
