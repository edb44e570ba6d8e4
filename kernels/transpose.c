/* transpose.c - Transpose, ConjugateTranspose and the permutations they are
 * given.
 *
 * A permutation that moves only dimensions of size 1 leaves every element where
 * it is: the buffer is then shared. Everything else is one strided copy, which
 * merges the dimensions that stay neighbours.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/moves.h"
#include "kernels/strided_copy.h"
#include "kernels/operand.h"
#include "kernels/array.h"

enum { CONJUGATED = 16384 /* elements of a piece */ };

/* ---- Transpose ----------------------------------------------------------- */

static td_status *bad_perm(const td_shape *in, int count) {
  td_shape_text text;
  return td_error(TD_INVALID_ARGUMENT,
                  "perm must have one element for each of the %d dimensions "
                  "of %s, not %d",
                  in->rank, td_shape_str(in, &text), count);
}

/* perm, known in part, as axes of `in`; -1 where not known. */
static td_status *read_perm(const td_small *perm, const td_shape *in,
                            int *axes) {
  bool used[TD_MAX_RANK] = {false};
  if (perm->rank != 1 || perm->count != in->rank)
    return bad_perm(in, perm->count);
  for (int k = 0; k < in->rank; k++) {
    axes[k] = -1;
    if (!perm->known[k]) continue;
    TD_TRY(
        td_infer_axis(perm->at[k], in->rank, "an element of perm", &axes[k]));
    if (used[axes[k]])
      return td_error(TD_INVALID_ARGUMENT,
                      "perm must name every dimension once, but has %d twice",
                      axes[k]);
    used[axes[k]] = true;
  }
  return NULL;
}

static td_shape permuted(const td_shape *in, const int *axes) {
  td_shape out = td_shape_ranked(in->rank);
  for (int k = 0; k < in->rank; k++)
    if (axes[k] >= 0) out.dim[k] = in->dim[axes[k]];
  return out;
}

static td_status *transpose_infer(td_infer *c) {
  td_shape in = *td_infer_in(c, 0);
  int axes[TD_MAX_RANK];
  td_small perm;
  bool known;
  TD_TRY(td_infer_rank(c, 1, 1, "perm", NULL));
  TD_TRY(td_operand_infer_ints(c, 1, "perm", &perm, &known));
  if (in.rank < 0 && known && perm.count <= TD_MAX_RANK)
    in = td_shape_ranked(perm.count);
  if (in.rank < 0) return NULL;
  if (!known) perm = (td_small){.rank = 1, .count = in.rank};
  TD_TRY(read_perm(&perm, &in, axes));
  td_infer_out(c, 0, permuted(&in, axes));
  return NULL;
}

/* Do the dimensions that matter keep their order? */
static bool keeps_order(const td_shape *in, const int *axes) {
  int last = -1;
  for (int k = 0; k < in->rank; k++) {
    if (in->dim[axes[k]] == 1) continue;
    if (axes[k] < last) return false;
    last = axes[k];
  }
  return true;
}

td_status *td_moves_permute(td_kernel_ctx *c, bool copied) {
  const td_shape *in = &td_in(c, 0)->shape;
  int axes[TD_MAX_RANK];
  int64_t from[TD_MAX_RANK], to[TD_MAX_RANK];
  td_small perm;
  td_strided_copy m;
  td_strided_copy_init(&m);
  TD_TRY(td_operand_ints(td_in(c, 1), "perm", &perm));
  TD_TRY(read_perm(&perm, in, axes));
  td_shape out = permuted(in, axes);
  if (!copied && keeps_order(in, axes)) return td_array_share(c, 0, 0, &out);
  td_shape_strides(in, from);
  td_shape_strides(&out, to);
  for (int k = 0; k < in->rank; k++)
    td_strided_copy_loop(&m, out.dim[k], from[axes[k]], to[k]);
  return td_strided_copy_kernel(c, 0, 0, &out, &m, 0);
}

td_status *td_moves_transpose(td_kernel_ctx *c) {
  return td_moves_permute(c, false);
}

static void conjugate_piece(void *arg, int64_t begin, int64_t end) {
  const td_tensor *y = arg;
  for (int64_t i = begin; i < end; i++) /* the imaginary parts */
    if (y->dtype == TD_COMPLEX64)
      ((float *)y->data)[2 * i + 1] *= -1;
    else
      ((double *)y->data)[2 * i + 1] *= -1;
}

static td_status *conjugate_run(td_kernel_ctx *c) {
  bool complex = td_dtype_is_complex(td_in(c, 0)->dtype);
  TD_TRY(td_moves_permute(c, complex));
  if (complex)
    td_for(c, td_tensor_count(&c->out[0]), CONJUGATED, conjugate_piece,
           &c->out[0]);
  return NULL;
}

/* ---- InvertPermutation --------------------------------------------------- */

static td_status *invert_infer(td_infer *c) {
  td_shape s;
  TD_TRY(td_infer_rank(c, 0, 1, "x", &s));
  td_infer_out(c, 0, s);
  return NULL;
}

static td_status *bad_element(int64_t n, int64_t i, int64_t x) {
  return td_error(TD_INVALID_ARGUMENT,
                  "x must hold each of 0 to %lld once: x[%lld] is %lld",
                  (long long)n - 1, (long long)i, (long long)x);
}

static bool invert_value(td_infer *c, int out, td_small *v) {
  td_small x;
  (void)out;
  if (!td_infer_small(c, 0, &x) || x.rank != 1 || !td_operand_known(&x))
    return false;
  *v = (td_small){.rank = 1, .count = x.count};
  for (int k = 0; k < x.count; k++) {
    if (x.at[k] < 0 || x.at[k] >= x.count) return false;
    v->at[x.at[k]] = k;
    v->known[x.at[k]] = true;
  }
  return true;
}

static td_status *invert_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  td_tensor *y;
  if (x->shape.rank != 1)
    return td_error(TD_INVALID_ARGUMENT, "x must be a vector");
  int64_t n = x->shape.dim[0];
  TD_TRY(td_out(c, 0, &x->shape, &y));
  for (int64_t i = 0; i < n; i++) td_tensor_set_i(y, i, -1);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = td_tensor_get_i(x, i);
    if (at < 0 || at >= n || td_tensor_get_i(y, at) >= 0)
      return bad_element(n, i, at);
    TD_TRY(td_array_put(y, at, i, "an index"));
  }
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Transpose",
     .sig = "x: T, perm: Tperm -> y: T; "
            "T: type; Tperm: {int32, int64} = int32",
     .shape = transpose_infer,
     .cost = td_cost_move,
     .doc = "The dimensions in another order: dimension i of the result is "
            "dimension perm[i] of x.",
     .host = "perm",
     .section = "Array"},
    {.type = "ConjugateTranspose",
     .sig = "x: T, perm: Tperm -> y: T; "
            "T: type; Tperm: {int32, int64} = int32",
     .shape = transpose_infer,
     .cost = td_cost_move,
     .doc = "The dimensions in another order, as Transpose, and the complex "
            "conjugate of each element.",
     .example = "td.conjugate_transpose(td.complex({{1.0, 2.0}}, {{3.0, 4.0}})"
                ", {1, 0})  --> {2, 1} 1-3i 2-4i",
     .host = "perm",
     .section = "Array"},
    {.type = "InvertPermutation",
     .sig = "x: T -> y: T; T: {int32, int64} = int32",
     .shape = invert_infer,
     .value = invert_value,
     .doc = "The permutation that undoes x: y[x[i]] = i.",
     .flags = TD_NO_GRADIENT | TD_CHEAP,
     .host = "*",
     .example = "td.invert_permutation(td.tensor{2, 0, 1})  --> 1 2 0",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Transpose", .device = "CPU", .run = td_moves_transpose},
    {.op = "ConjugateTranspose", .device = "CPU", .run = conjugate_run},
    {.op = "InvertPermutation",
     .device = "CPU",
     .run = invert_run,
     .flags = TD_KERNEL_INLINE},
    {0},
};

TD_MODULE(transpose, ops, kernels)
