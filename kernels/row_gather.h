/* row_gather.h - rows copied in an order that a list of row numbers gives, as
 * GatherNd, DynamicPartition, ReverseSequence and others come down to.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ROW_GATHER_H
#define TD_ROW_GATHER_H

#include "engine/device/kernel.h"

TD_BEGIN

/* Row i of `to` becomes row rows[i] of `from`, or zero bytes where that is -1.
 * Rows have `bytes` bytes. */
void td_row_gather(const td_kernel_ctx *c, const void *from,
                   const int64_t *rows, int64_t n, size_t bytes, void *to);

/* A whole kernel: output 0, of `shape`, is made of the n rows of input `in`. */
td_status *td_row_gather_kernel(td_kernel_ctx *c, int in, const int64_t *rows,
                                int64_t n, const td_shape *shape) TD_MUST_USE;

TD_END
#endif
