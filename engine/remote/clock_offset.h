/* clock_offset.h - how far the clock of another process is ahead of ours.
 *
 * A question leaves at t0 by our clock, comes at t1 by its clock, the answer
 * leaves at t2 and comes at t3. Whatever the ways there and back took, the
 * other clock was ahead by (t1 - t0 + t2 - t3) / 2, and no further from that
 * than half of what both ways took: that is the sample's error. Of the last
 * samples the best is kept, as NTP does. It grows old: two clocks run apart by
 * a ten thousandth of the time that passes, at most.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CLOCK_OFFSET_H
#define TD_CLOCK_OFFSET_H

#include "engine/base/base.h"

enum { TD_CLOCK_OFFSETS = 8 };

typedef struct td_clock_offset {
  int64_t at;    /* ns, by our clock: when it was true */
  int64_t ahead; /* ns */
  int64_t error; /* ns */
} td_clock_offset;

/* Zeros: none yet. */
typedef struct td_clock_offsets {
  td_clock_offset last[TD_CLOCK_OFFSETS];
  unsigned n; /* that there ever were */
} td_clock_offsets;

/* Times that cannot be, those of a liar too, are left out. */
void td_clock_offset_add(td_clock_offsets *o, int64_t t0, int64_t t1,
                         int64_t t2, int64_t t3);
/* The one of the smallest error at our times `from` to `to`, which its error
 * covers. False: there is none. */
bool td_clock_offset_best(const td_clock_offsets *o, int64_t from, int64_t to,
                          td_clock_offset *out);

#endif
