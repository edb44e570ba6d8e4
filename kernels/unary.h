/* unary.h - the loops of unary.def, by op, dtype and instruction set.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_UNARY_H
#define TD_UNARY_H

#include "engine/base/cpu.h"
#include "engine/tensor/dtype.h"

TD_BEGIN

/* TD_UNARY_Abs, ... */
enum {
#define UNARY(op, ...) TD_UNARY_##op,
#include "kernels/unary.def"
#undef UNARY
  TD_UNARIES
};

/* n elements; y may be x. */
typedef void (*td_unary_loop)(int64_t n, const void *x, void *y);
typedef td_unary_loop td_unary_table[TD_UNARIES][TD_DTYPES];

extern const td_unary_table td_unary_scalar, td_unary_avx2, td_unary_avx512;

/* The best loop that `isa` may run; NULL when the op has none of its own for
 * the dtype (float16 and bfloat16 never have). */
td_unary_loop td_unary_find(int op, td_dtype t, td_isa isa);

/* Computes n elements of any dtype the op has a kernel for. y may be x when
 * their elements are of one size. */
void td_unary_apply(int op, td_dtype t, td_isa isa, int64_t n, const void *x,
                    void *y);

TD_END
#endif
