/* transpose_tile.h - a few dozen short rows, transposed.
 *
 * A kernel that reduces or searches each of many short rows, say the maximum of
 * every row of a {1000000, 10} matrix, would spend its time on the ends of
 * loops. It transposes them tile by tile, 64 rows of 10 elements to 10 of 64,
 * and loops over those.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TRANSPOSE_TILE_H
#define TD_TRANSPOSE_TILE_H

#include "engine/tensor/dtype.h"

TD_BEGIN

enum {
  TD_TRANSPOSE_ROWS = 64,    /* rows of a tile, at most */
  TD_TRANSPOSE_LONGEST = 48, /* elements of a row, at most */
};

/* Element k of row i, from[i * n + k], becomes to[k * rows + i]. `size`: bytes
 * of an element, 1, 2, 4, 8 or 16. */
void td_transpose_tile(const void *from, int64_t rows, int64_t n, size_t size,
                       void *to);
/* The same of float16 or bfloat16, as floats. */
void td_transpose_tile_half(td_dtype t, const void *from, int64_t rows,
                            int64_t n, float *to);

TD_END
#endif
