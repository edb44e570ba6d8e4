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

/* How many windows that reach over so many cells lie inside of `in`, which are
 * not negative: (in - reach + stride) / stride, cut towards 0. That is none
 * where the window is a little too large; false where it is so by two strides
 * or more, as in TensorFlow. */
bool td_sliding_window_count(int64_t in, int64_t reach, int64_t stride,
                             int64_t *out);

/* Sets the other fields. A window may be empty. INVALID_ARGUMENT: it reaches
 * too far. */
td_status *td_sliding_window_place(td_sliding_window *t, bool same);

#endif
