/* taps.h - a window of taps that slides over images {batch, height, width,
 * channels}: attributes of the op and where the windows lie.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TAPS_H
#define TD_KERNELS_TAPS_H

#include "engine/graph/attr.h"

/* One axis. The caller sets `in` (< 0: not known), `window`, `stride` and
 * `rate`, the distance of the taps. */
typedef struct td_taps {
  int64_t in, window, stride, rate;
  int64_t out;    /* windows; -1: not known */
  int64_t before; /* rows or columns of padding */
  int64_t reach;  /* of a window, with what lies between its taps */
} td_taps;

/* Height and width of the attribute `what`, {1, height, width, 1}. */
td_status *td_taps_read(const td_attr *a, const char *what, int64_t *height,
                        int64_t *width);

/* Sets the other fields. With padding VALID, `out` is 0 where the window does
 * not fit. INVALID_ARGUMENT: the window is empty or reaches too far. */
td_status *td_taps_place(td_taps *t, bool same);

#endif
