/* kernel_table.h - which kernels a device says it has.
 *
 * The kernels of a device of this process are rows of its registry. A device
 * elsewhere sends a table instead, of rows (op, dtypes), so that a process can
 * place nodes on a device whose kernels it has not. A table never changes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNEL_TABLE_H
#define TD_KERNEL_TABLE_H

#include "engine/device/kernel.h"

TD_BEGIN

typedef struct td_kernel_table td_kernel_table;

typedef struct td_kernel_offer {
  const char *op;    /* "MatMul"; this process need not know it */
  const char *types; /* as in td_kernel_def: "T=float|double"; NULL: any */
} td_kernel_offer;

/* Copies the rows. Caller owns the result. */
td_status *td_kernel_table_new(const td_kernel_offer *rows, size_t n,
                               td_kernel_table **out) TD_MUST_USE;
/* What this process has for `kernels` (td_device.kernels): a table to be sent.
 * Caller owns the result. */
td_status *td_kernel_table_here(const char *kernels,
                                td_kernel_table **out) TD_MUST_USE;
td_kernel_table *td_kernel_table_retain(td_kernel_table *t);
void td_kernel_table_release(td_kernel_table *t);
/* Sorted by op, as one row of an op comes before another. Borrowed; valid while
 * `t` lives. */
const td_kernel_offer *td_kernel_table_rows(const td_kernel_table *t, size_t *n);
/* Have both the same rows? NULL is the same as NULL only. */
bool td_kernel_table_same(const td_kernel_table *a, const td_kernel_table *b);
/* Is there a row for the node? With `t` NULL, in the registry for `kernels`. */
bool td_kernel_table_has(const td_kernel_table *t, const char *kernels,
                         const td_node *n);

TD_END
#endif
