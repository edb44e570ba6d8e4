/* narrow.h - float32 in 16 bits on the wire.
 *
 * An edge that is marked, or a slow one, sends bfloat16: a float32's sign,
 * exponent and upper 7 bits of the mantissa. TensorFlow's transfers cut the
 * lower 16 bits off; here they are rounded to the nearest, ties to even, which
 * halves the error and has no bias. A normal number is off by at most 2^-8 of
 * itself; one whose lower 16 bits are zero comes back as it was, so do
 * infinities and zeros with their signs. Denormals are kept and rounded as all
 * others are, NaN stays NaN, and what is nearer to 2^128 than to the largest
 * becomes infinite.
 *
 * Elements are independent: a tensor may be converted in chunks, each by
 * itself, in any order. Bytes on the wire are lowest first, of any alignment.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_NARROW_H
#define TD_NARROW_H

#include "engine/base/base.h"

TD_BEGIN

/* `n` floats to 2 * n bytes. The two must not overlap. */
void td_narrow_pack(const float *from, size_t n, void *to);
/* 2 * n bytes to `n` floats. */
void td_narrow_unpack(const void *from, size_t n, float *to);

TD_END
#endif
