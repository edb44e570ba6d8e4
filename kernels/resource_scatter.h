/* resource_scatter.h - what kernels of rows of variables check, whatever device
 * they run on. Indices and updates in memory that this process may not look at
 * are theirs to check.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RESOURCE_SCATTER_H
#define TD_RESOURCE_SCATTER_H

#include "engine/device/variable.h"

TD_BEGIN

/* Of ResourceGather: the variable's value, the axis that is gathered from and
 * the shape of the result. */
td_status *td_gather_resource_begin(td_kernel_ctx *c, const td_tensor **out,
                                    int *axis, td_shape *shape) TD_MUST_USE;
/* Of ResourceScatter: the variable, which has a value that updates fit. */
td_status *td_resource_scatter_begin(td_kernel_ctx *c, bool divides,
                                     td_variable **out) TD_MUST_USE;

/* Of ResourceGatherNd: the variable's value and the shape of the result. */
td_status *td_gather_resource_nd_begin(td_kernel_ctx *c, const td_tensor **x,
                                       td_shape *shape) TD_MUST_USE;
/* Of ResourceScatterNd: the variable, its value; `ignore`: slices that there are
 * not. */
td_status *td_resource_scatter_nd_begin(td_kernel_ctx *c, td_variable **v,
                                        const td_tensor **now,
                                        bool *ignore) TD_MUST_USE;

TD_END
#endif
