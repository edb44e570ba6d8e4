/* reduce_loops.h - the loops of reduce.h as the table REDUCE_TABLE.
 *
 * Included once by each of reduce_scalar.c, reduce_avx2.c, reduce_avx512.c,
 * whose flags decide what the compiler makes of the loops. A row is spread over
 * as many lanes as there are; no lane ever depends on another, so that all
 * processors agree. Runs of one column come here as rows of LANES elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/num.h"
#include "kernels/reduce.h"

enum { LANES = 64 }; /* the width that is known when compiling */

#define JOIN_SUM(a, b) ((a) + (b))
#define JOIN_PROD(a, b) ((a) * (b))
#define JOIN_MAX(a, b) td_num_max(a, b)
#define JOIN_MIN(a, b) td_num_min(a, b)
#define LOAD_SAME(x) (x)
#define LOAD_SQUARE(x) ((A)((x) * (x)))

#define LOOP(kind, name, acc_kind, load, join)                                 \
  static inline __attribute__((always_inline)) void name##_body_##kind(        \
      td_##acc_kind *acc, const td_##kind *x, int64_t n, int64_t width,        \
      int64_t stride) {                                                        \
    typedef td_##acc_kind A;                                                   \
    int64_t r = 0;                                                             \
    for (; r + 4 <= n; r += 4, x += 4 * stride) {                              \
      TD_VEC_LOOP                                                              \
      for (int64_t i = 0; i < width; i++) {                                    \
        A p = LOAD_##load((A)x[i]), q = LOAD_##load((A)x[i + stride]);         \
        A u = LOAD_##load((A)x[i + 2 * stride]);                               \
        A v = LOAD_##load((A)x[i + 3 * stride]);                               \
        A pq = (A)JOIN_##join(p, q), uv = (A)JOIN_##join(u, v);                \
        A all = (A)JOIN_##join(pq, uv);                                        \
        acc[i] = (A)JOIN_##join(acc[i], all);                                  \
      }                                                                        \
    }                                                                          \
    for (; r < n; r++, x += stride) {                                          \
      TD_VEC_LOOP                                                              \
      for (int64_t i = 0; i < width; i++) {                                    \
        A p = LOAD_##load((A)x[i]);                                            \
        acc[i] = (A)JOIN_##join(acc[i], p);                                    \
      }                                                                        \
    }                                                                          \
  }                                                                            \
  static void name##_##kind(void *acc, const void *x, int64_t n,               \
                            int64_t width, int64_t stride) {                   \
    if (width == LANES)                                                        \
      name##_body_##kind(acc, x, n, LANES, stride);                            \
    else                                                                       \
      name##_body_##kind(acc, x, n, width, stride);                            \
  }                                                                            \
  static void name##_halve_##kind(void *to, int64_t lanes, int64_t width) {    \
    td_##acc_kind *acc = to;                                                   \
    for (int64_t half = lanes / 2 * width; half >= width; half /= 2) {         \
      TD_VEC_LOOP                                                              \
      for (int64_t i = 0; i < half; i++)                                       \
        acc[i] = (td_##acc_kind)JOIN_##join(acc[i], acc[i + half]);            \
    }                                                                          \
  }
#define SAME(kind, name, load, join) LOOP(kind, name, kind, load, join)
#define TOTAL(kind, name) LOOP(kind, name, i64, SAME, SUM)

EACH_NUMBERS(SAME, Sum, SAME, SUM)
EACH_NUMBERS(SAME, Prod, SAME, PROD)
EACH_REALS(SAME, Max, SAME, MAX)
EACH_REALS(SAME, Min, SAME, MIN)
EACH_REALS(SAME, Squares, SQUARE, SUM)
EACH_INTS(TOTAL, Total)

/* clang-format off */
#define ENTRY(kind, name, loop) \
  [loop][TD_ELEMENT_##kind] = {name##_##kind, name##_halve_##kind},
const td_reduce_table REDUCE_TABLE = {
  EACH_NUMBERS(ENTRY, Sum, TD_REDUCE_SUM)
  EACH_NUMBERS(ENTRY, Prod, TD_REDUCE_PROD)
  EACH_REALS(ENTRY, Max, TD_REDUCE_MAX)
  EACH_REALS(ENTRY, Min, TD_REDUCE_MIN)
  EACH_REALS(ENTRY, Squares, TD_REDUCE_SQUARES)
  EACH_INTS(ENTRY, Total, TD_REDUCE_TOTAL)
};
/* clang-format on */
#undef ENTRY
