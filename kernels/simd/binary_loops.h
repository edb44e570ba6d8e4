/* binary_loops.h - turns binary.def into the table BINARY_TABLE.
 *
 * Included once by each of kernels/binary.c, for every processor, and of
 * binary_avx2.c and binary_avx512.c here, whose flags decide what the compiler
 * makes of the loops.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/binary.h"
#include "kernels/num.h"
#include "kernels/special.h"

/* The type of a result, by form and kind of the operands. */
#define OUT_MATH(kind) td_##kind
#define OUT_ANGLE(kind) td_##kind
#define OUT_NEXT(kind) td_##kind
#define OUT_GAMMA(kind) td_##kind
#define OUT_SAMPLE(kind) td_##kind
#define OUT_ZETA(kind) td_##kind
#define OUT_BITS(kind) td_##kind
#define OUT_GRAD(kind) td_##kind
#define OUT_SLOPE(kind) td_##kind
#define OUT_SLOPE_OUT(kind) td_##kind
#define OUT_TEST(kind) td_b8
#define OUT_EQUAL(kind) td_b8
#define OUT_LOGIC(kind) td_b8

#define LOOP(kind, op, form, expression)                                       \
  static void op##_##kind(int64_t n, const void *left, const void *right,      \
                          void *to) {                                          \
    typedef td_##kind T;                                                       \
    const T *a = left, *b = right;                                             \
    OUT_##form(kind) *out = to;                                                \
    TD_VEC_LOOP                                                                \
    for (int64_t i = 0; i < n; i++) {                                          \
      T x = a[i], y = b[i];                                                    \
      out[i] = (OUT_##form(kind))(expression);                                 \
    }                                                                          \
  }
#define BINARY(op, form, allowed, kernels, flags, check, value, expression,    \
               ...)                                                            \
  EACH_##kernels(LOOP, op, form, expression)
#include "kernels/binary.def"
#undef BINARY

#define ENTRY(kind, op) [TD_BINARY_##op][TD_ELEMENT_##kind] = op##_##kind,
#define BINARY(op, form, allowed, kernels, ...) EACH_##kernels(ENTRY, op)
const td_binary_table BINARY_TABLE = {
#include "kernels/binary.def"
};
#undef BINARY
#undef ENTRY
#undef LOOP
