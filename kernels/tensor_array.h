/* tensor_array.h - the ops of arrays of tensors, whole: for devices whose rows
 * name them. Copies are the device's (strided_copy.h), sums by what it adds with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TENSOR_ARRAY_H
#define TD_TENSOR_ARRAY_H

#include "kernels/step_array.h"

TD_BEGIN

td_status *td_tensor_array_make(td_kernel_ctx *c) TD_MUST_USE;
td_status *td_tensor_array_read(td_kernel_ctx *c) TD_MUST_USE;
td_status *td_tensor_array_gather(td_kernel_ctx *c) TD_MUST_USE;
td_status *td_tensor_array_concat(td_kernel_ctx *c) TD_MUST_USE;
td_status *td_tensor_array_write(td_kernel_ctx *c,
                                 td_step_array_add add) TD_MUST_USE;
td_status *td_tensor_array_scatter(td_kernel_ctx *c,
                                   td_step_array_add add) TD_MUST_USE;
td_status *td_tensor_array_split(td_kernel_ctx *c,
                                 td_step_array_add add) TD_MUST_USE;

TD_END
#endif
