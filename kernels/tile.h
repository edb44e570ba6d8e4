/* tile.h - short runs turned into columns.
 *
 * A kernel that folds or searches many runs of a few elements would spend its
 * time on the ends of loops; on a tile of them, turned, it works on whole rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TILE_H
#define TD_TILE_H

#include "engine/tensor/dtype.h"

TD_BEGIN

enum {
  TD_TILE_RUNS = 64,    /* runs in a tile, at most */
  TD_TILE_LONGEST = 48, /* elements of a run, at most */
};

/* Element k of run i, from[i * n + k], becomes to[k * runs + i]. `size`: bytes
 * of an element, 1, 2, 4, 8 or 16. */
void td_tile_turn(const void *from, int64_t runs, int64_t n, size_t size,
                  void *to);
/* The same of float16 or bfloat16, as floats. */
void td_tile_turn_half(td_dtype t, const void *from, int64_t runs, int64_t n,
                       float *to);

TD_END
#endif
