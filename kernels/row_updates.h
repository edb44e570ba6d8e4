/* row_updates.h - updates of those rows of a table that indices name, each
 * perhaps several times.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ROW_UPDATES_H
#define TD_ROW_UPDATES_H

#include "engine/device/kernel.h"

/* Every index of `indices` (int32 or int64) is in [0, rows); INVALID_ARGUMENT
 * names the first that is not. Where this process may not look, the kernel that
 * uses them does. */
td_status *td_row_updates_check(const td_kernel_ctx *c,
                                const td_tensor *indices,
                                int64_t rows) TD_MUST_USE;
/* May the kernel that runs as `c` look at the contents of its input? */
bool td_row_updates_sees(const td_kernel_ctx *c, const td_tensor *t);

static inline int64_t td_row_updates_index(const td_tensor *indices,
                                           int64_t i) {
  return indices->dtype == TD_INT32 ? ((const int32_t *)indices->data)[i]
                                    : ((const int64_t *)indices->data)[i];
}

/* Calls fn(arg, i, row) for every index, in parallel; those of one row in their
 * order, on one thread. `each`: elements that a call works on. */
typedef void (*td_row_update)(void *arg, int64_t i, int64_t row);
void td_row_updates_run(const td_kernel_ctx *c, const td_tensor *indices,
                        int64_t each, td_row_update fn, void *arg);

#endif
