/* sliding_window.h - a window that slides over images {batch, height, width,
 * channels}, of Dilation2D and ExtractImagePatches: the attributes of the op,
 * and where the windows lie.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SLIDING_WINDOW_H
#define TD_SLIDING_WINDOW_H

#include "engine/graph/attr.h"

/* One axis. The caller sets `in` (< 0: not known), `window`, `stride` and
 * `rate`, the distance between neighbouring cells of a window. A window of 3
 * with a rate of 2 sees cells 0, 2 and 4 from where it begins: it reaches 5. */
typedef struct td_sliding_window {
  int64_t in, window, stride, rate;
  int64_t out;    /* windows; -1: not known */
  int64_t before; /* rows or columns of padding */
  int64_t reach;  /* of a window, with what lies between its cells */
} td_sliding_window;

/* Height and width of the attribute `what`, {1, height, width, 1}. */
td_status *td_sliding_window_read(const td_attr *a, const char *what,
                                  int64_t *height, int64_t *width);

/* Sets the other fields. With padding VALID, `out` is 0 where the window does
 * not fit. INVALID_ARGUMENT: the window is empty or reaches too far. */
td_status *td_sliding_window_place(td_sliding_window *t, bool same);

#endif
