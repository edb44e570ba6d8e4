/* rows.h - rows of elements by number: copied, or summed where they meet.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ROWS_H
#define TD_ROWS_H

#include "kernels/array.h"

TD_BEGIN

/* Row i of `to` becomes row rows[i] of `from`, or zero bytes where that is -1.
 * Rows have `bytes` bytes. */
void td_rows_copy(const td_kernel_ctx *c, const void *from, const int64_t *rows,
                  int64_t n, size_t bytes, void *to);

/* Output `out`, of `shape`, seen as rows of `each` elements: zeros, and row i
 * of input `in` added to row rows[i], in the order of i; -1 is left out. Bools
 * are or-ed; half and bfloat16 are summed in float and rounded once. The rows
 * must be in range. */
td_status *td_rows_sum(td_kernel_ctx *c, int in, const int64_t *rows, int64_t n,
                       int64_t each, int out,
                       const td_shape *shape) TD_MUST_USE;

TD_END
#endif
