/* variable.h - kernels of variables, or parts of them, that every device with
 * copy_inside has.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_VARIABLE_H
#define TD_KERNELS_VARIABLE_H

#include "engine/device/kernel.h"

TD_BEGIN

/* ReadVariableOp and AssignVariableOp. */
td_status *td_assign_read_run(td_kernel_ctx *c) TD_MUST_USE;
td_status *td_assign_run(td_kernel_ctx *c) TD_MUST_USE;
/* Input 0 is a variable that fits input 1, which is to be added and the like:
 * its value, to be written. */
td_status *td_assign_change(td_kernel_ctx *c, td_tensor **x) TD_MUST_USE;

TD_END
#endif
