/* cross_entropy.h - what softmax and the cross entropies check of their
 * operands, on any device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CROSS_ENTROPY_H
#define TD_CROSS_ENTROPY_H

#include "engine/device/kernel.h"

TD_BEGIN

/* Rows of a kernel's logits, and how many elements each has. */
td_status *td_softmax_size(const td_kernel_ctx *c, int64_t *rows,
                           int64_t *n) TD_MUST_USE;
/* The shape of all logits, once those of a kernel and their labels are
 * repeated to one. */
td_status *td_cross_entropy_dense(const td_kernel_ctx *c,
                                  td_shape *shape) TD_MUST_USE;
/* The same for labels that are classes, which are not looked at. */
td_status *td_cross_entropy_sparse(const td_kernel_ctx *c,
                                   td_shape *shape) TD_MUST_USE;

TD_END
#endif
