/* training.h - the loops of training.def, by update, dtype, instruction set.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TRAINING_H
#define TD_TRAINING_H

#include "engine/base/cpu.h"
#include "engine/tensor/dtype.h"

TD_BEGIN

enum {
#define UPDATE(name, ...) TD_TRAINING_##name,
#define REAL_UPDATE UPDATE
#include "kernels/training.def"
#undef REAL_UPDATE
#undef UPDATE
  TD_TRAININGS
};

enum { TD_TRAINING_SLOTS = 3, TD_TRAINING_SCALARS = 6 };

/* n elements of the variable and its slots, of the gradient; the scalars are
 * of the same dtype. None overlap. */
typedef void (*td_training_loop)(int64_t n, void *const *var, const void *grad,
                                 const void *scalars, bool option);
typedef td_training_loop td_training_table[TD_TRAININGS][TD_DTYPES];

/* NULL where one of lower instructions serves. Same bits from each. */
extern const td_training_table td_training_scalar, td_training_avx2,
    td_training_avx512;

/* The best that `isa` may run, for float, double and complex numbers. */
td_training_loop td_training_find(int update, td_dtype t, td_isa isa);

TD_END
#endif
