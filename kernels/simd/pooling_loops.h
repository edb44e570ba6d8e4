/* pooling_loops.h - the loops of pooling.h as the table POOLING_TABLE.
 *
 * Included once by each of pooling_scalar.c, pooling_avx2.c, pooling_avx512.c,
 * whose flags decide what the compiler makes of the loops. Lanes, which are
 * channels or the windows of a row, never depend on each other, so that all
 * processors agree. The accumulators of LANES of them stay in registers while
 * the window is walked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/pooling.h"
#include "kernels/simd/vec.h"

enum { LANES = 32, FEW = 16 }; /* the widths known when compiling */

#define ALWAYS static inline __attribute__((always_inline))

/* A loop over FEW would be taken apart before it can become vectors. */
#ifdef __clang__
#define LANE_LOOP TD_VEC_LOOP
#else
#define LANE_LOOP TD_VEC_LOOP _Pragma("GCC unroll 1")
#endif

/* What follows w and lane for each cell of the window: `at` is its number, and
 * CELL its distance in elements, of lane i, from the first of lane 0. */
#define EACH_CELL(w, lane, ...)                                                \
  do {                                                                         \
    int32_t at = 0;                                                            \
    for (int64_t d = 0; d < (w)->count[0]; d++)                                \
      for (int64_t h = 0; h < (w)->count[1]; h++)                              \
        for (int64_t k = 0; k < (w)->count[2]; k++, at++) {                    \
          int64_t cell =                                                       \
              d * (w)->step[0] + h * (w)->step[1] + k * (w)->step[2];          \
          LANE_LOOP                                                            \
          for (int64_t i = 0; i < n; i++) __VA_ARGS__                          \
        }                                                                      \
    (void)at;                                                                  \
  } while (0)
#define CELL (cell + i * lane)

/* The same with each row from its end: windows of a row overlap, and what they
 * add to an element is added in their order, as it is when each window is taken
 * by itself. */
#define EACH_CELL_BACK(w, lane, ...)                                           \
  do {                                                                         \
    int32_t row = 0;                                                           \
    for (int64_t d = 0; d < (w)->count[0]; d++)                                \
      for (int64_t h = 0; h < (w)->count[1]; h++, row++)                       \
        for (int64_t k = (w)->count[2] - 1; k >= 0; k--) {                     \
          int32_t at = (int32_t)(row * (w)->count[2] + k);                     \
          int64_t cell =                                                       \
              d * (w)->step[0] + h * (w)->step[1] + k * (w)->step[2];          \
          LANE_LOOP                                                            \
          for (int64_t i = 0; i < n; i++) __VA_ARGS__(void) at;                \
        }                                                                      \
  } while (0)

/* A kind of numbers for which the rarer widths and steps are compiled, too. */
#define IS_FLOAT(kind) ((td_##kind)0.5 != 0)

/* body(w, width, first lane, step of the lanes, ...) for n lanes: LANES at a
 * time, then, of floats, FEW; the last FEW may be some that are done already.
 */
#define BY_LANES(kind, n, lane, body, ...)                                     \
  do {                                                                         \
    int64_t i = 0;                                                             \
    for (; i + LANES <= (n); i += LANES) body(w, LANES, i, lane, __VA_ARGS__); \
    if (IS_FLOAT(kind))                                                        \
      for (; i < (n) && (n) >= FEW; i += FEW)                                  \
        body(w, FEW, i + FEW <= (n) ? i : (n)-FEW, lane, __VA_ARGS__);         \
    if ((n)-i == 1)                                                            \
      body(w, 1, i, lane, __VA_ARGS__);                                        \
    else if (i < (n))                                                          \
      body(w, (n)-i, i, lane, __VA_ARGS__);                                    \
  } while (0)

/* The same by the step between lanes. */
#define BY_STEP(kind, n, body, ...)                                            \
  do {                                                                         \
    if (w->lane == 1)                                                          \
      BY_LANES(kind, n, 1, body, __VA_ARGS__);                                 \
    else if (IS_FLOAT(kind) && w->lane == 2)                                   \
      BY_LANES(kind, n, 2, body, __VA_ARGS__);                                 \
    else                                                                       \
      for (int64_t i = 0; i < (n); i++) body(w, 1, i, w->lane, __VA_ARGS__);   \
  } while (0)

#define MAX(kind, ...)                                                         \
  ALWAYS void max_body_##kind(const td_pooling_window *w, int64_t n,           \
                              int64_t skip, int64_t lane, const td_##kind *x,  \
                              td_##kind start, td_##kind *y) {                 \
    td_##kind top[LANES];                                                      \
    x += skip * lane, y += skip;                                               \
    for (int64_t i = 0; i < n; i++) top[i] = start;                            \
    EACH_CELL(w, lane, {                                                       \
      td_##kind v = x[CELL], t = top[i];                                       \
      top[i] = ((v > t) | (t != t)) ? v : t;                                   \
    });                                                                        \
    for (int64_t i = 0; i < n; i++) y[i] = top[i];                             \
  }                                                                            \
  static void max_##kind(const td_pooling_window *w, int64_t n,                \
                         const void *from, double start, void *to) {           \
    const td_##kind *x = from;                                                 \
    td_##kind *y = to, first = (td_##kind)start;                               \
    BY_STEP(kind, n, max_body_##kind, x, first, y);                            \
  }

/* The number is chosen by a mask: two choices by one condition would become a
 * branch. */
#define FIND(kind, ...)                                                        \
  ALWAYS void find_body_##kind(const td_pooling_window *w, int64_t n,          \
                               int64_t skip, int64_t lane, const td_##kind *x, \
                               td_##kind *best, int32_t *where) {              \
    td_##kind top[LANES];                                                      \
    int32_t number[LANES];                                                     \
    x += skip * lane, best += skip, where += skip;                             \
    for (int64_t i = 0; i < n; i++) top[i] = x[i * lane];                      \
    for (int64_t i = 0; i < n; i++) number[i] = 0;                             \
    EACH_CELL(w, lane, {                                                       \
      td_##kind v = x[CELL];                                                   \
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
    if (w->count[0] * w->count[1] * w->count[2] == 0) {                        \
      for (int64_t i = 0; i < n; i++) where[i] = -1;                           \
      return;                                                                  \
    }                                                                          \
    BY_STEP(kind, n, find_body_##kind, x, y, where);                           \
  }

/* The number of a cell is all that is known of it. */
ALWAYS int64_t cell_of(const td_pooling_window *w, int32_t at) {
  uint32_t number = (uint32_t)at, columns = (uint32_t)w->count[2];
  uint32_t row = number / columns, rows = (uint32_t)w->count[1];
  uint32_t k = number - row * columns, d = row < rows ? 0 : row / rows;
  return d * w->step[0] + (row - d * rows) * w->step[1] + k * w->step[2];
}

/* Where lanes lie apart, an element at a time is the shorter way. */
#define GIVE(kind, ...)                                                        \
  static void give_##kind(const td_pooling_window *w, int64_t n,               \
                          const int32_t *where, const void *from, void *to) {  \
    const td_##kind *dy = from;                                                \
    td_##kind *dx = to;                                                        \
    int64_t lane = w->lane;                                                    \
    if (lane > 1 || n < FEW) {                                                 \
      for (int64_t i = 0; i < n; i++) {                                        \
        int64_t cell = where[i] < 0 ? 0 : cell_of(w, where[i]);                \
        if (where[i] >= 0) dx[CELL] = (td_##kind)(dx[CELL] + dy[i]);           \
      }                                                                        \
      return;                                                                  \
    }                                                                          \
    EACH_CELL_BACK(w, 1, {                                                     \
      td_##kind sum = (td_##kind)(dx[cell + i] + dy[i]);                       \
      dx[cell + i] = where[i] == at ? sum : dx[cell + i];                      \
    });                                                                        \
  }

#define GIVE_EQUAL(kind, ...)                                                  \
  ALWAYS void equal_body_##kind(                                               \
      const td_pooling_window *w, int64_t n, int64_t lane, const td_##kind *x, \
      const td_##kind *y, const td_##kind *dy, td_##kind *dx) {                \
    EACH_CELL_BACK(w, lane, {                                                  \
      td_##kind sum = (td_##kind)(dx[CELL] + dy[i]);                           \
      dx[CELL] = x[CELL] == y[i] ? sum : dx[CELL];                             \
    });                                                                        \
  }                                                                            \
  static void give_equal_##kind(const td_pooling_window *w, int64_t n,         \
                                const void *in, const void *out,               \
                                const void *from, void *to) {                  \
    if (w->lane == 1)                                                          \
      equal_body_##kind(w, n, 1, in, out, from, to);                           \
    else                                                                       \
      equal_body_##kind(w, n, w->lane, in, out, from, to);                     \
  }

#define TAKE_EQUAL(kind, ...)                                                  \
  ALWAYS void take_body_##kind(const td_pooling_window *w, int64_t n,          \
                               int64_t skip, int64_t lane, const td_##kind *x, \
                               const td_##kind *y, const td_##kind *g,         \
                               td_##kind *z) {                                 \
    td_##kind got[LANES] = {0};                                                \
    uint8_t found[LANES] = {0};                                                \
    x += skip * lane, y += skip, g += skip * lane, z += skip;                  \
    EACH_CELL(w, lane, {                                                       \
      uint8_t here = (uint8_t)((x[CELL] == y[i]) & !found[i]);                 \
      got[i] = here ? g[CELL] : got[i];                                        \
      found[i] |= here;                                                        \
    });                                                                        \
    for (int64_t i = 0; i < n; i++) z[i] = got[i];                             \
  }                                                                            \
  static void take_equal_##kind(const td_pooling_window *w, int64_t n,         \
                                const void *in, const void *out,               \
                                const void *from, void *to) {                  \
    const td_##kind *x = in, *y = out, *g = from;                              \
    td_##kind *z = to;                                                         \
    BY_STEP(kind, n, take_body_##kind, x, y, g, z);                            \
  }

#define MEAN(kind, ...)                                                        \
  ALWAYS void mean_body_##kind(const td_pooling_window *w, int64_t n,          \
                               int64_t skip, int64_t lane, const td_##kind *x, \
                               td_##kind cells, td_##kind *y) {                \
    td_##kind sum[LANES] = {0};                                                \
    x += skip * lane, y += skip;                                               \
    EACH_CELL(w, lane, { sum[i] += x[CELL]; });                                \
    for (int64_t i = 0; i < n; i++) y[i] = sum[i] / cells;                     \
  }                                                                            \
  static void mean_##kind(const td_pooling_window *w, int64_t n,               \
                          const void *from, double number, void *to) {         \
    const td_##kind *x = from;                                                 \
    td_##kind *y = to, cells = (td_##kind)number;                              \
    BY_STEP(kind, n, mean_body_##kind, x, cells, y);                           \
  }                                                                            \
  ALWAYS void spread_body_##kind(const td_pooling_window *w, int64_t n,        \
                                 int64_t lane, const td_##kind *dy,            \
                                 td_##kind part, td_##kind *dx) {              \
    EACH_CELL_BACK(w, lane, { dx[CELL] += dy[i] * part; });                    \
  }                                                                            \
  static void spread_##kind(const td_pooling_window *w, int64_t n,             \
                            const void *from, double scale, void *to) {        \
    if (w->lane == 1)                                                          \
      spread_body_##kind(w, n, 1, from, (td_##kind)scale, to);                 \
    else if (w->lane == 2)                                                     \
      spread_body_##kind(w, n, 2, from, (td_##kind)scale, to);                 \
    else                                                                       \
      spread_body_##kind(w, n, w->lane, from, (td_##kind)scale, to);           \
  }

EACH_REALS(MAX)
EACH_REALS(FIND)
EACH_REALS(GIVE)
EACH_REALS(GIVE_EQUAL)
EACH_REALS(TAKE_EQUAL)
EACH_FLOATS(MEAN)

/* clang-format off */
#define ENTRY(kind, ...) \
  [TD_ELEMENT_##kind] = {.max = max_##kind, .find = find_##kind, \
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
