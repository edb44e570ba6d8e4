/* training.h - the loops of training.def, by update, dtype, instruction set.
 *
 * An update is one pass over an optimizer's arrays: that of Adam
 * (TD_TRAINING_Adam) changes the variable and its two slots, the moments, by a
 * gradient and six scalars (learning rate, beta1, ...).
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

/* Updates n elements: var[0] is the variable, var[1] and on its slots. Gradient
 * and scalars are of the same dtype; `option` is the op's attribute, such as
 * use_nesterov. No two arrays overlap. */
typedef void (*td_training_loop)(int64_t n, void *const *var, const void *grad,
                                 const void *scalars, bool option);
typedef td_training_loop td_training_table[TD_TRAININGS][TD_DTYPES];

/* An entry is NULL where the loop of the instruction set before serves as well.
 * All give the same bits. */
extern const td_training_table td_training_scalar, td_training_avx2,
    td_training_avx512;

/* The best that `isa` may run, for float, double and complex numbers. */
td_training_loop td_training_find(int update, td_dtype t, td_isa isa);

TD_END
#endif
