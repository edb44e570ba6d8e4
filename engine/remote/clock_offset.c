/* clock_offset.c - see clock_offset.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/clock_offset.h"

enum { DRIFT = 10000 }; /* ns in which clocks may run apart by 1 ns */

/* Differences of clocks of machines that were started at any time: a century
 * bounds them, so that nothing below overflows. */
#define FAR_AWAY (INT64_C(1) << 61)

static bool is_time(int64_t t) {
  return t > -FAR_AWAY && t < FAR_AWAY;
}

void td_clock_offset_add(td_clock_offsets *o, int64_t t0, int64_t t1,
                         int64_t t2, int64_t t3) {
  if (!is_time(t0) || !is_time(t1) || !is_time(t2) || !is_time(t3)) return;
  int64_t ways = (t3 - t0) - (t2 - t1);
  if (t3 < t0 || t2 < t1 || ways < 0) return;
  int64_t least = t2 - t3; /* it is between this and `least + ways` */
  o->last[o->n++ % TD_CLOCK_OFFSETS] =
      (td_clock_offset){t0 + (t3 - t0) / 2, least + ways / 2, ways / 2 + 1};
}

static int64_t distance(int64_t a, int64_t b) {
  return a < b ? b - a : a - b;
}

bool td_clock_offset_best(const td_clock_offsets *o, int64_t from, int64_t to,
                          td_clock_offset *out) {
  unsigned n = o->n < TD_CLOCK_OFFSETS ? o->n : TD_CLOCK_OFFSETS;
  for (unsigned i = 0; i < n; i++) {
    td_clock_offset x = o->last[i];
    int64_t a = distance(from, x.at), b = distance(to, x.at);
    x.error += (a > b ? a : b) / DRIFT;
    if (i == 0 || x.error < out->error) *out = x;
  }
  return n > 0;
}
