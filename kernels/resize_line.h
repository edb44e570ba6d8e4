/* resize_line.h - bilinear resizing by lines, for each processor.
 *
 * A line of the result is a blend of two lines of the picture, each of which
 * was mixed before: its elements taken two by two, in the places of the result.
 * A mixed line serves all lines of the result that lie beside it.
 *
 * Places come in blocks of a table's size, the last filled up. What a block is
 * mixed from mostly lies in one window, from `base` on, that vectors can hold
 * whole; then it is *near*.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_RESIZE_LINE_H
#define TD_KERNELS_RESIZE_LINE_H

#include "engine/base/cpu.h"

TD_BEGIN

enum { TD_RESIZE_ROOM = 32 }; /* elements of a window, in any table */

/* What lies between which two elements of a line: low[i] and high[i] behind
 * base[i / block], share[i] of the way. */
typedef struct td_resize_places {
  int64_t blocks;
  int64_t *base;
  bool *near;
  int32_t *low, *high;
  float *share;
} td_resize_places;

typedef struct td_resize_loops {
  int block, window; /* window of 0: no block is near */
  /* Elements as floats. */
  void (*bytes)(int64_t n, const uint8_t *from, float *to);
  /* All blocks of a line, which may be read TD_RESIZE_ROOM behind its end. */
  void (*mix)(const td_resize_places *p, const float *line, float *to);
  /* above + (below - above) * share */
  void (*blend)(int64_t n, const float *above, const float *below, float share,
                float *to);
} td_resize_loops;

extern const td_resize_loops td_resize_scalar, td_resize_avx2,
    td_resize_avx512;

static inline const td_resize_loops *td_resize_loops_of(td_isa isa) {
  return isa == TD_AVX512 ? &td_resize_avx512
         : isa == TD_AVX2 ? &td_resize_avx2
                          : &td_resize_scalar;
}

TD_END
#endif
