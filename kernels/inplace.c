/* inplace.c - rows changed: InplaceUpdate, InplaceAdd, InplaceSub.
 *
 * TensorFlow's write into the memory of x, which others may be reading. Here x
 * is a value: its memory is used where nobody else holds it, and copied where
 * somebody does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/row_plans.h"
#include "kernels/row_reduce.h"

/* ---- rows ---------------------------------------------------------------- */

static td_status *check(const td_shape *x, const td_shape *i,
                        const td_shape *v) {
  td_shape_text a, b, n;
  td_shape want = *x;
  if (x->rank == 0)
    return td_error(TD_INVALID_ARGUMENT, "x must have rows, not be a scalar");
  if (x->rank > 0) want.dim[0] = i->rank == 1 ? i->dim[0] : -1;
  if ((i->rank < 0 || i->rank == 1) && td_shape_compatible(v, &want))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "i must be a vector of row numbers of x, and v a row for "
                  "each; x is of shape %s, i %s, v %s",
                  td_shape_str(x, &a), td_shape_str(i, &n),
                  td_shape_str(v, &b));
}

static td_status *infer(td_infer *c) {
  TD_TRY(check(td_infer_in(c, 0), td_infer_in(c, 1), td_infer_in(c, 2)));
  return td_infer_same(c);
}

td_status *td_inplace_check(const td_kernel_ctx *c) {
  return check(&td_in(c, 0)->shape, &td_in(c, 1)->shape, &td_in(c, 2)->shape);
}

static td_status *run(td_kernel_ctx *c, td_row_reduce_op op) {
  const td_tensor *i = td_in(c, 1);
  td_shape shape = td_in(c, 0)->shape;
  TD_TRY(td_inplace_check(c));
  int64_t rows = shape.dim[0], n = rows ? td_tensor_count(i) : 0;
  const int32_t *at = i->data;
  int64_t *to = td_calloc((size_t)n, sizeof *to);
  if (!to) return td_oom();
  for (int64_t k = 0; k < n; k++) to[k] = (at[k] % rows + rows) % rows;
  td_row_reduce f = {.op = op,
                     .n = n,
                     .each = td_shape_span(&shape, 1, shape.rank),
                     .to = to,
                     .onto = true};
  td_status *s = td_row_reduce_run(c, 2, &f, &shape);
  td_free(to);
  return s;
}

static td_status *run_update(td_kernel_ctx *c) {
  return run(c, TD_ROW_REDUCE_SET);
}
static td_status *run_add(td_kernel_ctx *c) {
  return run(c, TD_ROW_REDUCE_SUM);
}
static td_status *run_sub(td_kernel_ctx *c) {
  return run(c, TD_ROW_REDUCE_SUB);
}

/* ---- tables -------------------------------------------------------------- */

#define NUMBERS                                                                \
  "half|bfloat16|float|double|int8|uint8|int16|uint16|int32|uint32|int64|"     \
  "uint64|complex64|complex128"
#define ROWS(name, text, line)                                                 \
  {                                                                            \
    .type = name, .sig = "x: T, i: int32, v: T -> y: T; T: type",              \
    .shape = infer, .doc = text, .flags = TD_NO_GRADIENT, .example = line,     \
    .section = "Array"                                                         \
  }

static const td_op_def ops[] = {
    ROWS("InplaceUpdate",
         "x with the rows of v in place of those numbered i; numbers wrap "
         "round.",
         "td.inplace_update({1, 2, 3}, {0, 2}, {7, 8})  --> 7 2 8"),
    ROWS("InplaceAdd",
         "x with the rows of v added to those numbered i; numbers wrap round.",
         "td.inplace_add({1, 2, 3}, {0, 2}, {7, 8})  --> 8 2 11"),
    ROWS("InplaceSub",
         "x with the rows of v subtracted from those numbered i; numbers wrap "
         "round.",
         "td.inplace_sub({1, 2, 3}, {0, 2}, {7, 8})  --> -6 2 -5"),
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "InplaceUpdate",
     .device = "CPU",
     .types = "T=bool|" NUMBERS,
     .run = run_update},
    {.op = "InplaceAdd",
     .device = "CPU",
     .types = "T=" NUMBERS,
     .run = run_add},
    {.op = "InplaceSub",
     .device = "CPU",
     .types = "T=" NUMBERS,
     .run = run_sub},
    {0},
};

TD_MODULE(inplace, ops, kernels)
