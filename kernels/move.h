/* move.h - copies elements from one strided place to another: what transpose,
 * slice, concat, split, pad, tile, reverse and broadcast come down to.
 *
 * A move is a nest of loops, outermost first; each has a number of turns and a
 * step, in elements, on both sides. A step of 0 in the source repeats, one
 * below 0 goes backwards; turns must not write the same element twice. Loops
 * that can be one are merged; the inner one is done by runs, fills or blocks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MOVE_H
#define TD_MOVE_H

#include "engine/device/kernel.h"

TD_BEGIN

enum { TD_MOVE_LOOPS = 2 * TD_MAX_RANK };

typedef struct td_move {
  int loops;
  int64_t turns[TD_MOVE_LOOPS];
  int64_t from[TD_MOVE_LOOPS];
  int64_t to[TD_MOVE_LOOPS];
} td_move;

/* One more loop inside those there are. */
void td_move_loop(td_move *m, int64_t turns, int64_t from, int64_t to);
/* Steps of a dense array: elements from one index of each axis to the next. */
void td_move_steps(const td_shape *shape, int64_t *steps);

/* Elements have `size` bytes: a power of two up to 16. */
void td_move_run(const td_kernel_ctx *c, const td_move *m, size_t size,
                 const void *from, void *to);

/* n times the element at `from`, on this thread. */
void td_move_fill(const void *from, size_t size, void *to, int64_t n);

/* A whole kernel: output `out`, of `shape`, is all of what `m` moves from input
 * `in`, beginning at its element `first`. */
td_status *td_move_kernel(td_kernel_ctx *c, int in, int out,
                          const td_shape *shape, const td_move *m,
                          int64_t first) TD_MUST_USE;

TD_END
#endif
