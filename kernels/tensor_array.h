/* tensor_array.h - the ops of arrays of tensors, whole: for devices whose rows
 * name them. Copies are the device's (strided_copy.h), sums by what it adds with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TENSOR_ARRAY_H
#define TD_TENSOR_ARRAY_H

#include "kernels/step_array.h"

TD_BEGIN

td_status *td_arrays_make(td_kernel_ctx *c) TD_MUST_USE;
td_status *td_arrays_read(td_kernel_ctx *c) TD_MUST_USE;
td_status *td_arrays_gather(td_kernel_ctx *c) TD_MUST_USE;
td_status *td_arrays_concat(td_kernel_ctx *c) TD_MUST_USE;
td_status *td_arrays_write(td_kernel_ctx *c, td_step_array_add add) TD_MUST_USE;
td_status *td_arrays_scatter(td_kernel_ctx *c,
                             td_step_array_add add) TD_MUST_USE;
td_status *td_arrays_split(td_kernel_ctx *c, td_step_array_add add) TD_MUST_USE;

TD_END
#endif
