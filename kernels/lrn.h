/* lrn.h - what local response normalisation checks and reads, on any device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LRN_H
#define TD_LRN_H

#include "engine/device/kernel.h"

TD_BEGIN

typedef struct td_lrn {
  int64_t rows, depth, radius; /* radius <= depth */
  float bias, alpha, beta;
} td_lrn;

/* Of the op, or of its gradient. */
td_status *td_lrn_of(const td_kernel_ctx *c, bool gradient,
                     td_lrn *p) TD_MUST_USE;

TD_END
#endif
