/* recurrent.h - what the fused recurrent cells share: operands whose sizes
 * belong together, computed in float, and products of them.
 *
 * An operand's sizes are letters: T times, B batch, I inputs, N cells, 2 and 4
 * that many cells, S inputs and cells, the rows of [x, h].
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECURRENT_H
#define TD_RECURRENT_H

#include "engine/device/kernel.h"

TD_BEGIN

typedef struct td_recurrent_arg {
  const char *name, *dims; /* "cs_prev", "BN" */
} td_recurrent_arg;

/* -1 where not known. */
typedef struct td_recurrent_sizes {
  int64_t times, batch, inputs, cells;
} td_recurrent_sizes;

enum { TD_RECURRENT_ARGS = 18 };

/* Operands and results as floats: their own or copies of halves. */
typedef struct td_recurrent {
  td_kernel_ctx *c;
  td_recurrent_sizes sizes;
  td_tensor in[TD_RECURRENT_ARGS], out[8];
  int n_in, n_out;
} td_recurrent;

/* Operands and results of the ops. */
extern const td_recurrent_arg td_gru_args[], td_gru_grad_args[];
extern const char *const td_gru_outs[], *const td_gru_grad_outs[];

/* A shape function: checks the operands, which end with {0}; gives the results
 * the shapes in `outs`, which end with NULL. */
td_status *td_recurrent_infer(td_infer *c, const td_recurrent_arg *args,
                              const char *const *outs) TD_MUST_USE;
/* Checks the operands of a kernel. */
td_status *td_recurrent_check(const td_kernel_ctx *c,
                              const td_recurrent_arg *args,
                              td_recurrent_sizes *z) TD_MUST_USE;
td_shape td_recurrent_shape(const td_recurrent_sizes *z, const char *dims);
/* The same when run: *r has the operands, and results to be written. End it
 * with td_recurrent_end, also after an error. */
td_status *td_recurrent_begin(td_kernel_ctx *c, const td_recurrent_arg *args,
                              const char *const *outs,
                              td_recurrent *r) TD_MUST_USE;
/* Where `s` is NULL, rounds the results. Passes `s` on. */
td_status *td_recurrent_end(td_recurrent *r, td_status *s) TD_MUST_USE;

static inline const float *td_recurrent_in(const td_recurrent *r, int i) {
  return (const float *)r->in[i].data;
}
static inline float *td_recurrent_out(const td_recurrent *r, int i) {
  return (float *)r->out[i].data;
}

/* A multiply-add for each row of x (input `x`) and each weight of input `w`. */
double td_recurrent_flops(const td_infer *c, int x, int w);

/* Working memory of rows * columns floats. */
td_status *td_recurrent_temp(td_recurrent *r, int64_t rows, int64_t columns,
                             td_tensor *t) TD_MUST_USE;
/* to {m, n} = from {m, k} * w {k, n}, or w {n, k} transposed. */
td_status *td_recurrent_product(td_recurrent *r, int64_t m, int64_t n,
                                int64_t k, const float *from, const float *w,
                                bool transposed, float *to) TD_MUST_USE;

TD_END
#endif
