/* leaky_relu.h - what LeakyRelu and its gradient check, on any device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LEAKY_RELU_H
#define TD_LEAKY_RELU_H

#include "engine/device/kernel.h"

TD_BEGIN

/* Inputs 0 and `sign` are of one shape; *alpha: the slope below 0. */
td_status *td_leaky_relu_of(const td_kernel_ctx *c, int sign,
                            double *alpha) TD_MUST_USE;

TD_END
#endif
