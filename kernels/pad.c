/* pad.c - Pad and PadV2.
 *
 * Padding is written border by border, so that no element is written twice:
 * the two slabs of axis k span the unpadded range of the axes before it and the
 * whole of those behind it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/moves.h"
#include "kernels/strided_copy.h"
#include "kernels/array.h"

/* A padded shape and where the input lies in it. */
typedef struct padding {
  int rank;
  int64_t before[TD_MAX_RANK], after[TD_MAX_RANK];
  td_shape in, out;
  int64_t steps[TD_MAX_RANK]; /* of the output */
} padding;

/* ---- shapes -------------------------------------------------------------- */

static td_status *check_paddings(const td_shape *s, int rank) {
  td_shape want = rank < 0 ? td_shape_matrix(-1, 2) : td_shape_matrix(rank, 2);
  td_shape_text text;
  if (td_shape_compatible(s, &want) &&
      (rank >= 0 || s->rank != 2 || s->dim[0] <= TD_MAX_RANK))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "paddings must be a matrix with a row of 2 for each "
                  "dimension of the input, not of shape %s",
                  td_shape_str(s, &text));
}

/* `in` is of known rank, its sizes perhaps not. */
static td_status *plan(const td_shape *in, const td_tensor *paddings,
                       padding *p) {
  TD_TRY(check_paddings(&paddings->shape, in->rank));
  *p = (padding){.rank = in->rank, .in = *in, .out = *in};
  for (int k = 0; k < in->rank; k++) {
    int64_t a = td_tensor_get_i(paddings, 2 * k), sum;
    int64_t b = td_tensor_get_i(paddings, 2 * k + 1);
    if (a < 0 || b < 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "paddings[%d] must not be negative, is {%lld, %lld}", k,
                      (long long)a, (long long)b);
    p->before[k] = a;
    p->after[k] = b;
    if (__builtin_add_overflow(a, b, &sum) ||
        __builtin_add_overflow(sum, in->dim[k] < 0 ? 0 : in->dim[k], &sum))
      return td_error(TD_INVALID_ARGUMENT,
                      "dimension %d would have more than 2^63-1 elements", k);
    if (in->dim[k] >= 0) p->out.dim[k] = sum;
  }
  return NULL;
}

static td_status *pad_infer(td_infer *c) {
  td_shape in = *td_infer_in(c, 0);
  const td_shape *s = td_infer_in(c, 1);
  const td_tensor *paddings = td_infer_const(c, 1);
  padding p;
  TD_TRY(check_paddings(s, in.rank));
  if (in.rank < 0 && s->rank == 2 && s->dim[0] >= 0)
    in = td_shape_ranked((int)s->dim[0]);
  if (in.rank < 0) return NULL;
  td_infer_out(c, 0, td_shape_ranked(in.rank));
  if (!paddings) return NULL;
  TD_TRY(plan(&in, paddings, &p));
  td_infer_out(c, 0, p.out);
  return NULL;
}

static td_status *pad_v2_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 2, 0, "constant_values", NULL));
  return pad_infer(c);
}

/* ---- Pad ----------------------------------------------------------------- */

/* Loops over the slab of `n` indices of axis k from `at` on; returns the
 * element of the output it begins at. */
static int64_t slab(const padding *p, int k, int64_t at, int64_t n,
                    td_strided_copy *m) {
  int64_t first = at * p->steps[k];
  td_strided_copy_init(m);
  for (int i = 0; i < p->rank; i++) {
    int64_t count = i < k ? p->in.dim[i] : i == k ? n : p->out.dim[i];
    if (i < k) first += p->before[i] * p->steps[i];
    td_strided_copy_loop(m, count, 0, p->steps[i]);
  }
  return first;
}

/* Puts the input into the middle of the output. */
static td_status *put_middle(const td_kernel_ctx *c, const padding *p,
                             const td_array *x, td_array *y) {
  int64_t from[TD_MAX_RANK], first = 0;
  td_strided_copy m;
  td_strided_copy_init(&m);
  td_shape_strides(&p->in, from);
  for (int k = 0; k < p->rank; k++) {
    first += p->before[k] * p->steps[k];
    td_strided_copy_loop(&m, p->in.dim[k], from[k], p->steps[k]);
  }
  return td_strided_copy_do(c, &m, y->size, x->at,
                            y->at + first * (int64_t)y->size);
}

static td_status *put_constant(const td_kernel_ctx *c, const padding *p,
                               const void *value, td_array *y) {
  td_strided_copy m;
  for (int k = 0; k < p->rank; k++)
    for (int side = 0; side < 2; side++) {
      int64_t at = side ? p->before[k] + p->in.dim[k] : 0;
      int64_t n = side ? p->after[k] : p->before[k];
      int64_t first = slab(p, k, at, n, &m);
      TD_TRY(td_strided_copy_spread(c, &m, y->size, value,
                                    y->at + first * (int64_t)y->size));
    }
  return NULL;
}

static td_status *pad_with(td_kernel_ctx *c, const void *value) {
  padding p;
  td_array x = {0}, y = {0};
  TD_TRY(plan(&td_in(c, 0)->shape, td_in(c, 1), &p));
  if (td_shape_equal(&p.in, &p.out)) return td_array_share(c, 0, 0, &p.out);
  TD_TRY(td_array_count(&p.out, NULL));
  td_shape_strides(&p.out, p.steps);
  td_status *s = td_array_in(td_in(c, 0), &x);
  if (td_ok(s)) s = td_array_out(c, 0, &p.out, &y);
  bool any = td_ok(s) && td_shape_count(&p.out) > 0;
  if (any) s = put_middle(c, &p, &x, &y);
  if (any && td_ok(s)) s = put_constant(c, &p, value, &y);
  if (td_ok(s)) s = td_array_done(c, 0, &y);
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}

td_status *td_moves_pad(td_kernel_ctx *c) {
  static const char zero[16];
  return pad_with(c, zero);
}

td_status *td_moves_pad_v2(td_kernel_ctx *c) {
  td_array value;
  if (td_in(c, 2)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "constant_values must be a scalar");
  TD_TRY(td_array_in(td_in(c, 2), &value));
  td_status *s = pad_with(c, value.at);
  td_array_drop(&value);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Pad",
     .sig = "input: T, paddings: Tpaddings -> output: T; "
            "T: type; Tpaddings: {int32, int64} = int32",
     .shape = pad_infer,
     .cost = td_cost_move,
     .doc = "Zeros before and after: paddings[i] is how many along "
            "dimension i.",
     .host = "paddings",
     .section = "Array"},
    {.type = "PadV2",
     .sig = "input: T, paddings: Tpaddings, constant_values: T -> output: T; "
            "T: type; Tpaddings: {int32, int64} = int32",
     .shape = pad_v2_infer,
     .cost = td_cost_move,
     .doc = "constant_values before and after: paddings[i] is how many along "
            "dimension i.",
     .lua = "",
     .host = "paddings, constant_values",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Pad", .device = "CPU", .run = td_moves_pad},
    {.op = "PadV2", .device = "CPU", .run = td_moves_pad_v2},
    {0},
};

TD_MODULE(pad, ops, kernels)
