/* sliding_window.c - where the windows of dilations and image patches lie.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/sliding_window.h"

td_status *td_sliding_window_read(const td_attr *a, const char *what,
                                  int64_t *height, int64_t *width) {
  if (a && a->len == 4 && a->is[0] == 1 && a->is[3] == 1 && a->is[1] > 0 &&
      a->is[2] > 0 && a->is[1] <= INT32_MAX && a->is[2] <= INT32_MAX) {
    *height = a->is[1], *width = a->is[2];
    return NULL;
  }
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be {1, height, width, 1} of numbers above 0", what);
}

bool td_sliding_window_count(int64_t in, int64_t reach, int64_t stride,
                             int64_t *out) {
  int64_t room;
  if (__builtin_sub_overflow(in, reach, &room)) return false;
  *out = room < 0 ? 0 : room / stride + 1;
  return room >= 0 || room + stride > -stride;
}

td_status *td_sliding_window_place(td_sliding_window *t, bool same) {
  t->out = -1, t->before = 0, t->reach = 0;
  if (t->window < 0) return NULL;
  if (__builtin_mul_overflow(t->window - 1, t->rate, &t->reach) ||
      __builtin_add_overflow(t->reach, 1, &t->reach))
    return td_error(TD_INVALID_ARGUMENT, "window and rates are too large");
  if (t->in < 0) return NULL;
  if (same) {
    t->out = t->in / t->stride + (t->in % t->stride != 0);
    int64_t rest = t->out > 0 ? t->in - (t->out - 1) * t->stride : t->reach;
    t->before = t->reach > rest ? (t->reach - rest) / 2 : 0;
    return NULL;
  }
  if (td_sliding_window_count(t->in, t->reach, t->stride, &t->out)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a window that reaches over %lld does not fit an image of "
                  "%lld; use padding SAME",
                  (long long)t->reach, (long long)t->in);
}
