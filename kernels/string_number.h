/* string_number.h - numbers written as text, read.
 *
 * White space around a number is left out. Integers are decimal; of floats
 * whatever strtod takes is one, "inf", "nan" and "0x1p-3" too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STRING_NUMBER_H
#define TD_STRING_NUMBER_H

#include "engine/tensor/tensor.h"

TD_BEGIN

/* Puts the number into element i of `y`, a tensor of float32, float64 or 32 or
 * 64 bit integers; *done is false when it is none that fits. */
td_status *td_string_number_put(td_bytes text, td_tensor *y, int64_t i,
                                bool *done) TD_MUST_USE;

TD_END
#endif
