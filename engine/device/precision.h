/* precision.h - how exact devices are to compute, and how they tell of errors;
 * td.config sets it, for all sessions of the process and from the next step on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PRECISION_H
#define TD_PRECISION_H

#include <stdbool.h>

#include "engine/base/base.h"

TD_BEGIN

/* What a device may take in place of float32 inside products and convolutions. */
typedef enum td_matmul_type {
  TD_PRECISION_FLOAT32, /* nothing: the default */
  TD_PRECISION_TF32,
  TD_PRECISION_BFLOAT16
} td_matmul_type;

typedef struct td_precision {
  td_matmul_type matmul;
  bool deterministic; /* the same bits in every run, slower where it must be */
  bool sync; /* an accelerator's kernels are waited for, one by one: what goes
                wrong in one is told of that one */
} td_precision;

td_precision td_precision_get(void);
void td_precision_set(td_precision p);

TD_END
#endif
