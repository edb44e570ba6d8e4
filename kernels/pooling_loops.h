/* pooling_loops.h - the loops of pooling.h as the table POOLING_TABLE.
 *
 * Included once by each of pooling_scalar.c, pooling_avx2.c, pooling_avx512.c,
 * whose flags decide what the compiler makes of the loops. Channels never
 * depend on each other, so that all processors agree. The accumulators of LANES
 * channels stay in registers while the window is walked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/pooling.h"
#include "kernels/vec.h"

enum { LANES = 32 }; /* the width that is known when compiling */

#define ALWAYS static inline __attribute__((always_inline))

/* In FIND the number is chosen by a mask: two choices by one condition would
 * become a branch.
 *
 * What follows w for each cell of the window: `cell` is its distance in
 * elements from the first, `at` its number. */
#define EACH_CELL(w, ...)                                                      \
  do {                                                                         \
    int32_t at = 0;                                                            \
    for (int64_t d = 0; d < (w)->turns[0]; d++)                                \
      for (int64_t h = 0; h < (w)->turns[1]; h++)                              \
        for (int64_t k = 0; k < (w)->turns[2]; k++, at++) {                    \
          int64_t cell =                                                       \
              d * (w)->step[0] + h * (w)->step[1] + k * (w)->step[2];          \
          TD_VEC_LOOP                                                          \
          for (int64_t i = 0; i < n; i++) __VA_ARGS__                          \
        }                                                                      \
    (void)at;                                                                  \
  } while (0)

/* body(w, width, first channel, ...) for all channels: LANES at a time, then
 * the rest, one channel (NCHW) on a path of its own. */
#define BY_LANES(n, body, ...)                                                 \
  do {                                                                         \
    int64_t i = 0;                                                             \
    for (; i + LANES <= (n); i += LANES) body(w, LANES, i, __VA_ARGS__);       \
    if ((n)-i == 1)                                                            \
      body(w, 1, i, __VA_ARGS__);                                              \
    else if (i < (n))                                                          \
      body(w, (n)-i, i, __VA_ARGS__);                                          \
  } while (0)

#define MAX(kind, ...)                                                         \
  ALWAYS void max_body_##kind(const td_pooling_window *w, int64_t n,           \
                              int64_t skip, const td_##kind *x,                \
                              td_##kind start, td_##kind *y) {                 \
    td_##kind top[LANES];                                                      \
    x += skip, y += skip;                                                      \
    for (int64_t i = 0; i < n; i++) top[i] = start;                            \
    EACH_CELL(w, {                                                             \
      td_##kind v = x[cell + i], t = top[i];                                   \
      top[i] = ((v > t) | (t != t)) ? v : t;                                   \
    });                                                                        \
    for (int64_t i = 0; i < n; i++) y[i] = top[i];                             \
  }                                                                            \
  static void max_##kind(const td_pooling_window *w, int64_t n,                \
                         const void *from, double start, void *to) {           \
    const td_##kind *x = from;                                                 \
    td_##kind *y = to, first = (td_##kind)start;                               \
    BY_LANES(n, max_body_##kind, x, first, y);                                 \
  }

#define FIND(kind, ...)                                                        \
  ALWAYS void find_body_##kind(const td_pooling_window *w, int64_t n,          \
                               int64_t skip, const td_##kind *x,               \
                               td_##kind *best, int32_t *where) {              \
    td_##kind top[LANES];                                                      \
    int32_t number[LANES];                                                     \
    x += skip, best += skip, where += skip;                                    \
    for (int64_t i = 0; i < n; i++) top[i] = x[i];                             \
    for (int64_t i = 0; i < n; i++) number[i] = 0;                             \
    EACH_CELL(w, {                                                             \
      td_##kind v = x[cell + i];                                               \
      bool more = v > top[i];                                                  \
      top[i] = more ? v : top[i];                                              \
      int32_t mask = -(int32_t)more;                                           \
      number[i] ^= (number[i] ^ at) & mask;                                    \
    });                                                                        \
    for (int64_t i = 0; i < n; i++) best[i] = top[i];                          \
    for (int64_t i = 0; i < n; i++) where[i] = number[i];                      \
  }                                                                            \
  static void find_##kind(const td_pooling_window *w, int64_t n,               \
                          const void *from, void *best, int32_t *where) {      \
    const td_##kind *x = from;                                                 \
    td_##kind *y = best;                                                       \
    if (w->turns[0] * w->turns[1] * w->turns[2] == 0) {                        \
      for (int64_t i = 0; i < n; i++) where[i] = -1;                           \
      return;                                                                  \
    }                                                                          \
    BY_LANES(n, find_body_##kind, x, y, where);                                \
  }

#define GIVE(kind, ...)                                                        \
  static void give_##kind(const td_pooling_window *w, int64_t n,               \
                          const int32_t *where, const void *from, void *to) {  \
    const td_##kind *dy = from;                                                \
    td_##kind *dx = to;                                                        \
    EACH_CELL(w, {                                                             \
      td_##kind sum = (td_##kind)(dx[cell + i] + dy[i]);                       \
      dx[cell + i] = where[i] == at ? sum : dx[cell + i];                      \
    });                                                                        \
  }

#define GIVE_EQUAL(kind, ...)                                                  \
  static void give_equal_##kind(const td_pooling_window *w, int64_t n,         \
                                const void *in, const void *out,               \
                                const void *from, void *to) {                  \
    const td_##kind *x = in, *y = out, *dy = from;                             \
    td_##kind *dx = to;                                                        \
    EACH_CELL(w, {                                                             \
      td_##kind sum = (td_##kind)(dx[cell + i] + dy[i]);                       \
      dx[cell + i] = x[cell + i] == y[i] ? sum : dx[cell + i];                 \
    });                                                                        \
  }

#define TAKE_EQUAL(kind, ...)                                                  \
  ALWAYS void take_body_##kind(                                                \
      const td_pooling_window *w, int64_t n, int64_t skip, const td_##kind *x, \
      const td_##kind *y, const td_##kind *g, td_##kind *z) {                  \
    td_##kind got[LANES] = {0};                                                \
    uint8_t found[LANES] = {0};                                                \
    x += skip, y += skip, g += skip, z += skip;                                \
    EACH_CELL(w, {                                                             \
      uint8_t here = (uint8_t)((x[cell + i] == y[i]) & !found[i]);             \
      got[i] = here ? g[cell + i] : got[i];                                    \
      found[i] |= here;                                                        \
    });                                                                        \
    for (int64_t i = 0; i < n; i++) z[i] = got[i];                             \
  }                                                                            \
  static void take_equal_##kind(const td_pooling_window *w, int64_t n,         \
                                const void *in, const void *out,               \
                                const void *from, void *to) {                  \
    const td_##kind *x = in, *y = out, *g = from;                              \
    td_##kind *z = to;                                                         \
    BY_LANES(n, take_body_##kind, x, y, g, z);                                 \
  }

#define MEAN(kind, ...)                                                        \
  ALWAYS void mean_body_##kind(const td_pooling_window *w, int64_t n,          \
                               int64_t skip, const td_##kind *x,               \
                               td_##kind cells, td_##kind *y) {                \
    td_##kind sum[LANES] = {0};                                                \
    x += skip, y += skip;                                                      \
    EACH_CELL(w, { sum[i] += x[cell + i]; });                                  \
    for (int64_t i = 0; i < n; i++) y[i] = sum[i] / cells;                     \
  }                                                                            \
  static void mean_##kind(const td_pooling_window *w, int64_t n,               \
                          const void *from, double number, void *to) {         \
    const td_##kind *x = from;                                                 \
    td_##kind *y = to, cells = (td_##kind)number;                              \
    BY_LANES(n, mean_body_##kind, x, cells, y);                                \
  }                                                                            \
  static void spread_##kind(const td_pooling_window *w, int64_t n,             \
                            const void *from, double scale, void *to) {        \
    const td_##kind *dy = from;                                                \
    td_##kind *dx = to, part = (td_##kind)scale;                               \
    EACH_CELL(w, { dx[cell + i] += dy[i] * part; });                           \
  }

EACH_REALS(MAX)
EACH_REALS(FIND)
EACH_REALS(GIVE)
EACH_REALS(GIVE_EQUAL)
EACH_REALS(TAKE_EQUAL)
EACH_FLOATS(MEAN)

/* clang-format off */
#define ENTRY(kind, ...) \
  [TD_KIND_##kind] = {.max = max_##kind, .find = find_##kind, \
    .give = give_##kind, .give_equal = give_equal_##kind, \
    .take_equal = take_equal_##kind, __VA_ARGS__},
#define WITH_MEAN(kind, ...) \
  ENTRY(kind, .mean = mean_##kind, .spread = spread_##kind)
#define WITHOUT(kind, ...) ENTRY(kind, .mean = NULL)
const td_pooling_table POOLING_TABLE = {
  EACH_FLOATS(WITH_MEAN)
  EACH_INTS(WITHOUT)
};
/* clang-format on */
