/* batch_norm_plan.h - what FusedBatchNorm and its gradient check and read, on
 * any device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BATCH_NORM_PLAN_H
#define TD_BATCH_NORM_PLAN_H

#include "engine/device/kernel.h"

TD_BEGIN

typedef struct td_batch_norm_plan {
  int64_t outer, channels, inner; /* what x is seen as */
  double epsilon;
  float factor; /* what a batch counts for in the averages; forward */
  bool training;
} td_batch_norm_plan;

td_status *td_batch_norm_forward_of(const td_kernel_ctx *c,
                                    td_batch_norm_plan *p) TD_MUST_USE;
td_status *td_batch_norm_grad_of(const td_kernel_ctx *c,
                                 td_batch_norm_plan *p) TD_MUST_USE;
/* The shape of reserve_space_3, which has zeros. */
td_shape td_batch_norm_reserved(td_dtype t, int rank);
/* Of BatchNormWithGlobalNormalization, or its gradient. */
td_status *td_batch_norm_global_of(const td_kernel_ctx *c,
                                   bool gradient) TD_MUST_USE;

TD_END
#endif
