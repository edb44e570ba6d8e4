/* kernel_rows.h - the registry of kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNEL_ROWS_H
#define TD_KERNEL_ROWS_H

#include "engine/device/kernel.h"

TD_BEGIN

/* The row for this node among the kernels of `device_type` (td_device.kernels);
 * NOT_FOUND lists what there is. */
td_status *td_kernel_find(const td_node *n, const char *device_type,
                          const td_kernel_def **out) TD_MUST_USE;
/* Is there one? For placement. */
bool td_kernel_exists(const td_node *n, const char *device_type);
/* Is there one that is made for that type, not for every device? */
bool td_kernel_is_own(const td_node *n, const char *device_type);
/* Rows of the registry are checked when first used: an asynchronous kernel
 * without cancel is refused. NULL, or what is wrong with the first bad row. */
td_status *td_kernel_check(void) TD_MUST_USE;
/* Adds the kernels of a library's module, after td_op_register; all or none. */
td_status *td_kernel_register(const td_module *m) TD_MUST_USE;
/* Would a row with these constraints be for this node? One that makes no sense
 * is for none. */
bool td_kernel_types_fit(const char *types, const td_node *n);
/* All rows of `device_type`, in no order. Caller owns *out (td_free). */
td_status *td_kernel_list(const char *device_type, const td_kernel_def ***out,
                          size_t *n) TD_MUST_USE;
/* dtypes that `device_type` has a kernel for, as bits, for attribute `attr`. */
uint32_t td_kernel_types(const td_op *op, const char *device_type,
                         const char *attr);

TD_END
#endif
