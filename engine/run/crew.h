/* crew.h - the threads that work on one step.
 *
 * A step has one crew of at most `seats` threads, over all its programs. Work
 * is a chain of ready nodes of one run. Whoever is about to run an expensive
 * node posts the rest of what it holds; a free seat (a pool thread) takes it,
 * or the poster finds it again afterwards. The caller of a step is a member
 * with a time budget: what does not fit goes to the pool, so that it can listen
 * to Ctrl-C and deadlines.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CREW_H
#define TD_CREW_H

#include "engine/base/pool.h"
#include "engine/base/status.h"

TD_BEGIN

typedef struct td_crew td_crew;

/* A chain of work. `work` runs it on a member's thread; `link` is the crew's.
 */
typedef struct td_shift {
  void (*work)(struct td_shift *s, td_crew *crew);
  struct td_shift *link;
} td_shift;

/* Caller owns the result. */
td_status *td_crew_new(int seats, td_crew **out) TD_MUST_USE;
td_crew *td_crew_retain(td_crew *c);
void td_crew_release(td_crew *c);
/* Makes a crew whose members all left ready for another step. */
void td_crew_reset(td_crew *c);

/* No pool thread holds it: it may be reset. */
bool td_crew_alone(const td_crew *c);
int td_crew_seats(const td_crew *c);
/* Queues `s`. With `hire`, a free seat is filled from the pool. */
void td_crew_post(td_crew *c, td_shift *s, bool hire);
/* Fills free seats while there is posted work. */
void td_crew_hire(td_crew *c);
/* The calling thread takes a seat (if one is free) and works until nothing is
 * posted, or td_clock_now() passes `until`. */
void td_crew_work(td_crew *c, int64_t until);
/* For the calling member: when it must hand over; INT64_MAX for pool threads.
 */
int64_t td_crew_until(void);

TD_END
#endif
