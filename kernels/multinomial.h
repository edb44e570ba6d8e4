/* multinomial.h - what Multinomial and StatelessMultinomial draw, on any device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MULTINOMIAL_H
#define TD_MULTINOMIAL_H

#include "engine/base/philox.h"
#include "engine/device/kernel.h"

TD_BEGIN

/* Sample i of all takes words 2 i and 2 i + 1 of the stream. */
typedef struct td_multinomial {
  int64_t rows, classes, samples; /* of each row */
  td_philox base;
  td_tensor *out;
} td_multinomial;

/* Checks the operands, makes the output, reserves the stream. */
td_status *td_multinomial_read(td_kernel_ctx *c,
                               td_multinomial *p) TD_MUST_USE;

TD_END
#endif
