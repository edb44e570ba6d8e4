/* park.h - a thread sleeps until a word changes.
 *
 * The one place where the engine's waiting threads give up their processor: a
 * thread that looked at *word and found nothing to do sleeps until somebody
 * changes the word and says so, a moment comes, or a signal does. A simulated
 * process replaces it (tests/sim): who would sleep there runs the next event.
 * Use td_waiter, which is built on it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PARK_H
#define TD_PARK_H

#include "engine/base/base.h"

TD_BEGIN

/* Sleeps while *word (atomic) is `seen`, at most until td_clock_now() reaches
 * `until_ns` (INT64_MAX: for ever). May return early for no reason, and does
 * when a signal was handled on this thread. */
void td_park(const int32_t *word, int32_t seen, int64_t until_ns);
/* Wakes every thread that sleeps on `word`, which was changed before.
 * Async-signal-safe; reads nothing, so that the word may be gone. */
void td_unpark(const int32_t *word);

TD_END
#endif
