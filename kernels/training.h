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

/* ---- what several updates of training.def share ---- */

/* clang-format off */
/* x brought `by` nearer to 0, not past it. NaN stays. */
#define TD_TRAINING_SHRINK(x, by) \
  (td_num_abs(x) <= (by) ? 0 : (x) - td_num_sign(x) * (by))

/* One step of Ftrl and FtrlV2. With `option` b is kept multiplied by lr. */
#define TD_TRAINING_FTRL                                                       \
  const T pulled = g + two * shrink * v;                                       \
  const T sum = a + g * g;                                                     \
  const T was = td_num_pow(a, -power); const T is = td_num_pow(sum, -power);   \
  b += option ? pulled * lr - (is - was) * v : pulled - (is - was) / lr * v;   \
  const T bound = option ? l1 * lr : l1;                                       \
  const T curve = option ? is + two * l2 * lr : is / lr + two * l2;            \
  v = td_num_abs(b) <= bound ? 0 : (td_num_sign(b) * bound - b) / curve;       \
  a = sum;
/* clang-format on */

TD_END
#endif
