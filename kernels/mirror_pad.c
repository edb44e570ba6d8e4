/* mirror_pad.c - MirrorPad and its gradient: borders that are the inside seen
 * in a mirror.
 *
 * Every element of the padded tensor is one of the input; which one is a list
 * of row numbers, made axis by axis. Forward copies by that list, backward sums
 * by it. What lies behind the last padded axis is moved as one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/row_reduce.h"
#include "kernels/row_gather.h"
#include "kernels/row_plans.h"
#include "kernels/array.h"

#include <string.h>

typedef td_mirror_plan plan;

/* ---- shapes -------------------------------------------------------------- */

static int64_t edge_of(const char *mode) {
  return strcmp(mode, "SYMMETRIC") == 0;
}

static td_status *check_paddings(const td_shape *s, int rank) {
  td_shape want = td_shape_matrix(rank, 2);
  td_shape_text text;
  if (td_shape_compatible(s, &want)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "paddings must be a matrix with a row of 2 for each "
                  "dimension of the input, not of shape %s",
                  td_shape_str(s, &text));
}

/* Adds the borders of axis k to, or takes them from, a size; -1: not known. */
static td_status *axis_size(const td_tensor *paddings, int k, int64_t edge,
                            bool back, int64_t size, int64_t *out,
                            int64_t *before) {
  int64_t a = td_tensor_get_i(paddings, 2 * k);
  int64_t b = td_tensor_get_i(paddings, 2 * k + 1), sum;
  int64_t inside = back && size >= 0 ? size - a - b : size;
  *before = a;
  *out = -1;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ||
      sum > INT64_MAX / 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "paddings[%d] must not be negative or too large, is {%lld, "
                    "%lld}",
                    k, (long long)a, (long long)b);
  if (size < 0) return NULL;
  int64_t most = inside - 1 + edge;
  if (back && inside == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "paddings[%d], {%lld, %lld}, leave nothing of %lld "
                    "elements",
                    k, (long long)a, (long long)b, (long long)size);
  if (inside < 0 || (a > 0 && a > most) || (b > 0 && b > most) ||
      size > INT64_MAX / 2)
    return td_error(
        TD_INVALID_ARGUMENT,
        "paddings[%d], {%lld, %lld}, must be at most %lld: a mirror "
        "shows no more of %lld elements",
        k, (long long)a, (long long)b, (long long)(most < 0 ? 0 : most),
        (long long)(inside < 0 ? 0 : inside));
  *out = back ? inside : size + sum;
  return NULL;
}

/* `back`: from the padded shape to the one without borders. */
static td_status *make_plan(const td_shape *in, const td_tensor *paddings,
                            const char *mode, bool back, plan *p) {
  *p = (plan){.in = *in, .out = *in, .edge = edge_of(mode)};
  for (int k = 0; k < in->rank; k++)
    TD_TRY(axis_size(paddings, k, p->edge, back, in->dim[k], &p->out.dim[k],
                     &p->before[k]));
  return NULL;
}

static td_status *infer(td_infer *c, bool back) {
  td_shape in = *td_infer_in(c, 0);
  const td_shape *s = td_infer_in(c, 1);
  const td_tensor *paddings = td_infer_const(c, 1);
  plan p;
  if (in.rank >= 0) TD_TRY(check_paddings(s, in.rank));
  if (in.rank < 0 && s->rank == 2 && s->dim[0] >= 0 && s->dim[0] <= TD_MAX_RANK)
    in = td_shape_ranked((int)s->dim[0]);
  if (in.rank < 0) return NULL;
  td_infer_out(c, 0, td_shape_ranked(in.rank));
  if (!paddings) return NULL;
  TD_TRY(check_paddings(&paddings->shape, in.rank));
  TD_TRY(make_plan(&in, paddings, td_infer_string(c, "mode"), back, &p));
  td_infer_out(c, 0, p.out);
  return NULL;
}

static td_status *pad_infer(td_infer *c) {
  return infer(c, false);
}
static td_status *back_infer(td_infer *c) {
  return infer(c, true);
}

/* ---- rows ---------------------------------------------------------------- */

/* Where index `at` of a padded axis is seen in one of `size` elements. */
static int64_t mirrored(int64_t at, int64_t before, int64_t size,
                        int64_t edge) {
  at -= before;
  if (at < 0) return -at - edge;
  if (at >= size) return 2 * (size - 1) - at + edge;
  return at;
}

/* Behind the last axis with borders: elements that stay together. */
static int64_t together(const td_shape *in, const td_shape *out, int *axes) {
  int k = in->rank;
  while (k > 0 && in->dim[k - 1] == out->dim[k - 1]) k--;
  *axes = k;
  return td_shape_span(in, k, in->rank);
}

/* For every row of the padded tensor its row inside. Caller owns *rows. */
static td_status *mirror_rows(const plan *p, const td_shape *inside,
                              const td_shape *padded, int64_t **rows,
                              int64_t *n, int64_t *each) {
  int axes;
  int64_t at[TD_MAX_RANK] = {0};
  *each = together(inside, padded, &axes);
  *n = td_shape_span(padded, 0, axes);
  *rows = td_calloc((size_t)*n, sizeof **rows);
  if (!*rows) return td_oom();
  for (int64_t i = 0; i < *n; i++) {
    int64_t row = 0;
    for (int k = 0; k < axes; k++)
      row = row * inside->dim[k] +
            mirrored(at[k], p->before[k], inside->dim[k], p->edge);
    (*rows)[i] = row;
    for (int k = axes - 1; k >= 0 && ++at[k] == padded->dim[k]; k--) at[k] = 0;
  }
  return NULL;
}

td_status *td_mirror_read(td_kernel_ctx *c, bool back, td_mirror_plan *p) {
  td_shape in = td_in(c, 0)->shape;
  TD_TRY(check_paddings(&td_in(c, 1)->shape, in.rank));
  TD_TRY(make_plan(&in, td_in(c, 1), td_node_string(td_ctx_node(c), "mode"),
                   back, p));
  return td_array_count(&p->out, NULL);
}

static td_status *run(td_kernel_ctx *c, bool back) {
  int64_t *rows, n, each;
  plan p;
  TD_TRY(td_mirror_read(c, back, &p));
  if (td_shape_equal(&p.in, &p.out)) return td_array_share(c, 0, 0, &p.out);
  TD_TRY(mirror_rows(&p, back ? &p.out : &p.in, back ? &p.in : &p.out, &rows,
                     &n, &each));
  td_row_reduce f = {.n = n, .each = each, .to = rows};
  td_status *s = back ? td_row_reduce_run(c, 0, &f, &p.out)
                      : td_row_gather_kernel(c, 0, rows, n, &p.out);
  td_free(rows);
  return s;
}

static td_status *pad_run(td_kernel_ctx *c) {
  return run(c, false);
}
static td_status *back_run(td_kernel_ctx *c) {
  return run(c, true);
}

/* ---- tables -------------------------------------------------------------- */

#define SIG                                                                    \
  "input: T, paddings: Tpaddings -> output: T; T: type; "                      \
  "Tpaddings: {int32, int64} = int32; mode: {\"REFLECT\", \"SYMMETRIC\"}"

static const td_op_def ops[] = {
    {.type = "MirrorPad",
     .sig = SIG,
     .shape = pad_infer,
     .cost = td_cost_move,
     .doc = "Borders that mirror the inside; SYMMETRIC repeats the outermost "
            "element, REFLECT does not.",
     .host = "paddings",
     .example = "td.mirror_pad({1, 2, 3}, {{1, 1}}, {mode = 'REFLECT'})"
                "  --> 2 1 2 3 2",
     .section = "Array"},
    {.type = "MirrorPadGrad",
     .sig = SIG,
     .shape = back_infer,
     .cost = td_cost_reduce,
     .doc = "Gradient of MirrorPad: what the borders got is added to what they "
            "mirror.",
     .lua = "",
     .host = "paddings",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "MirrorPad", .device = "CPU", .run = pad_run},
    {.op = "MirrorPadGrad",
     .device = "CPU",
     .types = "T=half|bfloat16|float|double|int8|uint8|int16|uint16|int32|"
              "uint32|int64|uint64|complex64|complex128",
     .run = back_run},
    {0},
};

TD_MODULE(mirror_pad, ops, kernels)
