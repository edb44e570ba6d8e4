/* unique.h - what the operands of Unique and its kin say, on any device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_UNIQUE_H
#define TD_UNIQUE_H

#include "engine/device/kernel.h"

TD_BEGIN

/* The axis whose slices are compared; the operands are checked, and so many
 * slices can be numbered. */
td_status *td_unique_axis(td_kernel_ctx *c, int *axis) TD_MUST_USE;
/* Of ListDiff. */
td_status *td_list_diff_check(td_kernel_ctx *c) TD_MUST_USE;

TD_END
#endif
