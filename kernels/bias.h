/* bias.h - a tensor seen by its channels, as BiasAdd and its gradient do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BIAS_H
#define TD_BIAS_H

#include "engine/device/kernel.h"

TD_BEGIN

/* [outer, channels, inner] */
typedef struct td_bias {
  int64_t outer, channels, inner;
  int axis; /* of the channels */
} td_bias;

/* Of input 0 of a kernel; input 1 of BiasAdd must fit it. */
td_status *td_bias_add_of(const td_kernel_ctx *c, td_bias *b) TD_MUST_USE;
td_status *td_bias_grad_of(const td_kernel_ctx *c, td_bias *b) TD_MUST_USE;

TD_END
#endif
