/* eval.h - ops computed at once, without a session.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_EVAL_H
#define TD_EVAL_H

#include "engine/device/kernel.h"

TD_BEGIN

/* Computes a stateless node now, on the CPU device `d`, from host tensors
 * (n->n_in of them); out: n->n_out tensors, the caller's. For folding and for
 * values in Lua. `stop` may be NULL. */
td_status *td_eval_node(const td_node *n, td_device *d, int threads,
                          const td_tensor *in, td_tensor *out,
                          const int *stop) TD_MUST_USE;
/* The same for an op and tensors without a graph: infers, checks, computes.
 * `groups`: tensors in each input argument (op->n_in of them). Caller owns
 * out[0 .. *n_out), at most `cap`. */
td_status *td_eval(const td_op *op, td_device *d, int threads,
                   const td_tensor *in, const int *groups, const td_note *attrs,
                   int n_attrs, td_tensor *out, int cap, int *n_out,
                   const int *stop) TD_MUST_USE;

TD_END
#endif
