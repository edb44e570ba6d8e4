/* gradient.h - gradients that are added up, dense ones and those of some rows:
 * sums, means.
 *
 * Those of 16 bits are added in float and rounded once, when they are given. The
 * rows of a sparse one are ascending, each once, and know how many gradients
 * they come from: a mean is, for each row, over those that had it, as
 * TensorFlow's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GRADIENT_H
#define TD_GRADIENT_H

#include "engine/device/kernel.h"

TD_BEGIN

/* The sum of `count` gradients; owned by whoever has it. */
typedef struct td_gradient {
  struct td_gradient *next;
  int64_t count;
  td_tensor values;  /* float32 where gradients are of 16 bits; host memory */
  td_tensor indices; /* sparse: of the rows in `values`, ascending, each once */
  td_tensor counts;  /* sparse: how many gradients each row comes from */
} td_gradient;

td_gradient *td_gradient_new(void);       /* NULL when there is no memory */
void td_gradient_free(td_gradient *g);    /* NULL is ok */
/* Shares of `t`, in that dtype. Caller owns *out. */
td_status *td_gradient_widen(td_kernel_ctx *c, const td_tensor *t,
                             td_tensor *out) TD_MUST_USE;
/* x += y, of one shape; both are sums, x is changed in place or replaced. On
 * error it is as it was. */
td_status *td_gradient_add(td_kernel_ctx *c, td_tensor *x,
                           const td_tensor *y) TD_MUST_USE;
/* Output i is x, each row divided by its divisor (NULL: all by n), as dtype
 * `t`. x may be used up. */
td_status *td_gradient_out(td_kernel_ctx *c, int i, td_dtype t, td_tensor *x,
                           const int64_t *divisors, int64_t n) TD_MUST_USE;

/* The gradient whose rows are `values`, by `indices`, in any order and perhaps
 * several times: of those, the sum. *g is zeroed before; on error its owner
 * frees it. */
td_status *td_gradient_of_rows(td_kernel_ctx *c, const td_tensor *indices,
                               const td_tensor *values,
                               td_gradient *g) TD_MUST_USE;
/* x += y, of rows of one shape. On error x is as it was. */
td_status *td_gradient_add_rows(td_kernel_ctx *c, td_gradient *x,
                                const td_gradient *y) TD_MUST_USE;
/* Outputs 0, 1 and 2 are the indices, the values of dtype `t` (means or sums)
 * and the shape of the whole, of `rows` rows (-1: not known). g may be used
 * up. */
td_status *td_gradient_out_rows(td_kernel_ctx *c, td_gradient *g, td_dtype t,
                                bool mean, int64_t rows) TD_MUST_USE;

TD_END
#endif
