/* training_run.h - the operands of an optimizer's kernel, whatever device it
 * runs on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TRAINING_RUN_H
#define TD_TRAINING_RUN_H

#include "engine/device/kernel.h"
#include "kernels/training.h"

TD_BEGIN

enum { TD_TRAINING_VARS = 1 + TD_TRAINING_SLOTS };

typedef struct td_training_run {
  int update;  /* TD_TRAINING_* */
  bool option; /* the op's attribute, such as use_nesterov */
  td_dtype dtype;
  td_shape shape; /* of the variables */
  int n_vars, n_scalars;
  void *var[TD_TRAINING_VARS]; /* the variable and its slots, to be written */
  const void *grad, *scalar[TD_TRAINING_SCALARS];
  const td_tensor *indices; /* the rows that are updated; NULL: all */
} td_training_run;

/* A kernel's state, from its op and attributes (td_free). */
td_status *td_training_make(const td_kernel_info *info,
                            void **state) TD_MUST_USE;
/* Checks all operands before the first variable is made ready to be written.
 * Indices in memory that this process may not look at are the kernel's to
 * check. */
td_status *td_training_begin(td_kernel_ctx *c,
                             td_training_run *out) TD_MUST_USE;

TD_END
#endif
