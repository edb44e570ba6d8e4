/* half_copy.h - float copies of whole float16 and bfloat16 tensors.
 *
 * For kernels that read elements several times or sum into their result: they
 * run in float and round once, at the end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_HALF_COPY_H
#define TD_HALF_COPY_H

#include "engine/device/kernel.h"

TD_BEGIN

/* *held is a float copy of `t`. Caller owns *held. */
td_status *td_half_copy_widen(td_kernel_ctx *c, const td_tensor *t,
                              td_tensor *held) TD_MUST_USE;
/* As many floats as `to` has elements, rounded into it. */
void td_half_copy_narrow(const td_kernel_ctx *c, const float *from,
                         const td_tensor *to);

TD_END
#endif
