/* diag.c - Diag, DiagPart: a tensor as the diagonal of one of twice its rank.
 * Matrices in the last two axes are in matrix_diag.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/moves.h"
#include "kernels/strided_copy.h"
#include "kernels/array.h"

static td_status *diag_to(const td_shape *in, td_shape *out) {
  td_shape_text text;
  if (in->rank < 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "diagonal must be of rank 1 or more, not of shape %s",
                    td_shape_str(in, &text));
  TD_TRY(td_shape_check_rank(2 * in->rank));
  *out = td_shape_ranked(2 * in->rank);
  for (int k = 0; k < out->rank; k++) out->dim[k] = in->dim[k % in->rank];
  return NULL;
}

static td_status *diag_infer(td_infer *c) {
  td_shape out;
  if (td_infer_in(c, 0)->rank < 0) return NULL;
  TD_TRY(diag_to(td_infer_in(c, 0), &out));
  td_infer_out(c, 0, out);
  return NULL;
}

td_status *td_moves_diag(td_kernel_ctx *c) {
  static const char zero[16];
  const td_tensor *x = td_in(c, 0);
  td_strided_copy fill, m;
  td_strided_copy_init(&fill);
  td_strided_copy_init(&m);
  td_shape shape;
  td_array y = {0};
  TD_TRY(diag_to(&x->shape, &shape));
  TD_TRY(td_array_out(c, 0, &shape, &y));
  int64_t n = td_tensor_count(x);
  td_strided_copy_loop(&fill, td_shape_count(&shape), 0, 1);
  TD_TRY(td_strided_copy_spread(c, &fill, y.size, zero, y.at));
  td_strided_copy_loop(&m, n, 1, n + 1);
  return td_strided_copy_do(c, &m, y.size, x->data, y.at);
}

static td_status *part_to(const td_shape *in, td_shape *out) {
  td_shape a = td_shape_ranked(in->rank / 2), b = a;
  td_shape_text text;
  for (int k = 0; k < in->rank / 2; k++) {
    a.dim[k] = in->dim[k];
    b.dim[k] = in->dim[in->rank / 2 + k];
  }
  if (in->rank < 2 || in->rank % 2 != 0 || !td_shape_merge(&a, &b, out))
    return td_error(TD_INVALID_ARGUMENT,
                    "input must be of even rank, its second half of sizes "
                    "like the first, not of shape %s",
                    td_shape_str(in, &text));
  return NULL;
}

static td_status *part_infer(td_infer *c) {
  td_shape out;
  if (td_infer_in(c, 0)->rank < 0) return NULL;
  TD_TRY(part_to(td_infer_in(c, 0), &out));
  td_infer_out(c, 0, out);
  return NULL;
}

td_status *td_moves_diag_part(td_kernel_ctx *c) {
  td_strided_copy m;
  td_strided_copy_init(&m);
  td_shape shape;
  TD_TRY(part_to(&td_in(c, 0)->shape, &shape));
  int64_t n = td_shape_count(&shape);
  td_strided_copy_loop(&m, n, n + 1, 1);
  return td_strided_copy_kernel(c, 0, 0, &shape, &m, 0);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Diag",
     .sig = "diagonal: T -> output: T; T: {bfloat16, half, float, double, "
            "int32, int64, complex64, complex128}",
     .shape = diag_infer,
     .cost = td_cost_move,
     .doc = "Zeros with the elements of diagonal on the diagonal: "
            "output[i, j, i, j] = diagonal[i, j].",
     .example = "td.diag(td.tensor{1, 2})  --> {2, 2} 1 0 0 2",
     .section = "Array"},
    {.type = "DiagPart",
     .sig = "input: T -> diagonal: T; T: {bfloat16, half, float, double, "
            "int32, int64, complex64, complex128}",
     .shape = part_infer,
     .cost = td_cost_move,
     .doc = "The diagonal: output[i, j] = input[i, j, i, j].",
     .example = "td.diag_part(td.tensor{{1, 2}, {3, 4}})  --> 1 4",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Diag", .device = "CPU", .run = td_moves_diag},
    {.op = "DiagPart", .device = "CPU", .run = td_moves_diag_part},
    {0},
};

TD_MODULE(diag, ops, kernels)
