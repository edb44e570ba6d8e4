/* clock.h - monotonic time, and a seam for tests.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CLOCK_H
#define TD_CLOCK_H

#include "engine/base/base.h"

TD_BEGIN

/* Nanoseconds of a monotonic clock. */
int64_t td_clock_now(void);
/* Microseconds since 1970, for traces and event files. */
int64_t td_clock_wall_us(void);

/* When, by the system's monotonic clock, a thread that sleeps until at_ns is to
 * look at td_clock_now again: at at_ns, or in a millisecond while a test has
 * set the clock, which drives no sleep. */
int64_t td_clock_alarm(int64_t at_ns);

/* Calls fire(arg) once on the timer thread when td_clock_now() >= at_ns, unless
 * cancelled first. Returns an id > 0, or 0 when there is no memory or thread.
 * A forked child has none of its parent's timers. */
uint64_t td_timer_start(int64_t at_ns, void (*fire)(void *arg), void *arg);
/* After it returns, fire is not running and will not run. Must not be called
 * from fire itself or with a lock held that fire takes. */
void td_timer_cancel(uint64_t id);

/* Replaces the source of td_clock_now; NULL restores it. Tests only, and before
 * what is to follow it sleeps. */
void td_clock_set(int64_t (*now)(void));

TD_END
#endif
