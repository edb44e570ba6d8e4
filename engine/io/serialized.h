/* serialized.h - a tensor as a string of bytes, those of a TensorProto.
 *
 * What kernels know of messages: graphs and functions are not their business.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERIALIZED_H
#define TD_SERIALIZED_H

#include "engine/tensor/tensor.h"

TD_BEGIN

/* Caller owns the result (td_free). */
td_status *td_serialized_write(const td_tensor *t, char **bytes,
                               size_t *len) TD_MUST_USE;
/* Caller owns the result, in host memory. No byte is trusted: values that a
 * message repeats take a bounded amount of memory. */
td_status *td_serialized_read(td_bytes from, td_tensor *out) TD_MUST_USE;

TD_END
#endif
