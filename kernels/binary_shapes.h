/* binary_shapes.h - what every device asks of operands that do not broadcast.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BINARY_SHAPES_H
#define TD_BINARY_SHAPES_H

#include "engine/tensor/tensor.h"

TD_BEGIN

/* INVALID_ARGUMENT with both shapes when they differ. */
td_status *td_binary_same_shapes(const td_tensor *x,
                                 const td_tensor *y) TD_MUST_USE;

TD_END
#endif
