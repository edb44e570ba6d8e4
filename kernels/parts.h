/* parts.h - many tensors that become one, and one that becomes many.
 *
 * What arrays of tensors (tensor_array_whole.c) and lists of them
 * (tensor_list_whole.c) share. A part without a value (TD_INVALID) counts as
 * zeros of its shape.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PARTS_H
#define TD_PARTS_H

#include "engine/device/kernel.h"

TD_BEGIN

typedef struct td_parts {
  td_tensor *at; /* owned, and counted each */
  int64_t n;
} td_parts;

/* Room for n parts; p->n is 0 until somebody adds them. Ends with
 * td_parts_drop, which a zeroed one may be given too. */
td_status *td_parts_init(td_parts *p, int64_t n) TD_MUST_USE;
void td_parts_drop(td_parts *p);

/* Output `out`: the parts side by side along a new first axis. Each has the
 * shape `each`, as far as that is known. */
td_status *td_parts_stack(td_kernel_ctx *c, int out, const td_parts *p,
                          td_shape each) TD_MUST_USE;
/* Output 0: the parts one after the other; output 1, how long each is. `rest`
 * says what is known of all dimensions but the first. */
td_status *td_parts_concat(td_kernel_ctx *c, const td_parts *p,
                           const td_shape *rest) TD_MUST_USE;

/* A view of row i of `t`, without its first dimension. Caller owns the
 * result. */
td_status *td_parts_row(const td_tensor *t, int64_t i,
                        td_tensor *out) TD_MUST_USE;
/* A shape without its first dimension; an error for a scalar's. */
td_status *td_parts_rest(const td_shape *s, td_shape *out) TD_MUST_USE;

TD_END
#endif
