/* binary.h - the loops of binary.def, by op, dtype and instruction set.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BINARY_H
#define TD_BINARY_H

#include "kernels/cpu.h"

TD_BEGIN

/* TD_BINARY_Add, ... */
enum {
#define BINARY(op, ...) TD_BINARY_##op,
#include "kernels/binary.def"
#undef BINARY
  TD_BINARIES
};

/* n elements; z may be x or y. */
typedef void (*td_binary_loop)(int64_t n, const void *x, const void *y,
                               void *z);
typedef td_binary_loop td_binary_table[TD_BINARIES][TD_DTYPES];

extern const td_binary_table td_binary_scalar, td_binary_avx2, td_binary_avx512;

/* The best loop that `isa` may run; NULL when the op has none of its own for
 * the dtype (float16 and bfloat16 never have). Quantized dtypes run the loops
 * of their integers. */
td_binary_loop td_binary_find(int op, td_dtype t, td_isa isa);

/* Computes n elements of any plain dtype the op has a kernel for. z may be x or
 * y when their elements are of one size. */
void td_binary_apply(int op, td_dtype t, td_isa isa, int64_t n, const void *x,
                     const void *y, void *z);

/* Output 0 from inputs 0 and 1 of a kernel, seen as of shapes x and y: what
 * every op of binary.def runs, and others that are one with a twist. */
td_status *td_binary_run(td_kernel_ctx *c, int op, const td_shape *x,
                         const td_shape *y) TD_MUST_USE;

/* Strings, broadcasting by `plan`: x followed by y, and whether they are equal
 * (`want`) into bools. */
td_status *td_binary_join(const td_tensor *x, const td_tensor *y,
                          const td_broadcast *plan, const td_shape *shape,
                          td_tensor *out) TD_MUST_USE;
void td_binary_same(const td_tensor *x, const td_tensor *y,
                    const td_broadcast *plan, bool want, td_tensor *out);

TD_END
#endif
