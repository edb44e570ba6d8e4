/* unary_loops.h - turns unary.def into the table UNARY_TABLE.
 *
 * Included once by each of kernels/unary.c, for every processor, and of
 * unary_avx2.c and unary_avx512.c here, whose flags decide what the compiler
 * makes of the loops.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/num.h"
#include "kernels/special.h"
#include "kernels/unary.h"

/* The type of a result, by form and kind of the operand. */
#define OUT_MATH(kind) td_##kind
#define OUT_BITS(kind) td_##kind
#define OUT_COUNT(kind) td_u8
#define OUT_ACTIVATION(kind) td_##kind
#define OUT_TEST(kind) td_b8
#define OUT_LOGIC(kind) td_b8

#define LOOP(kind, op, form, expression)                                       \
  static void op##_##kind(int64_t n, const void *from, void *to) {             \
    typedef td_##kind T;                                                       \
    const T *in = from;                                                        \
    OUT_##form(kind) *out = to;                                                \
    TD_VEC_LOOP                                                                \
    for (int64_t i = 0; i < n; i++) {                                          \
      T x = in[i];                                                             \
      out[i] = (OUT_##form(kind))(expression);                                 \
    }                                                                          \
  }
#define UNARY(op, form, allowed, kernels, expression, ...)                     \
  EACH_##kernels(LOOP, op, form, expression)
#include "kernels/unary.def"
#undef UNARY

#define ENTRY(kind, op) [TD_UNARY_##op][TD_ELEMENT_##kind] = op##_##kind,
#define UNARY(op, form, allowed, kernels, ...) EACH_##kernels(ENTRY, op)
const td_unary_table UNARY_TABLE = {
#include "kernels/unary.def"
};
#undef UNARY
#undef ENTRY
#undef LOOP
