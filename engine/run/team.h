/* team.h - the threads that work on one step.
 *
 * A step has one team, over all its programs: workers of the thread pool and,
 * for a short step, the thread that called. At most `size` of them work at a
 * time. Work comes in jobs; a job is a chain of ready nodes. Whoever is about
 * to run an expensive node posts the rest of its chain as a job first: another
 * worker takes it, or the one that posted finds it again afterwards.
 *
 * The caller works with a time budget. What does not fit is posted, so that
 * the caller can listen to Ctrl-C and deadlines.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TEAM_H
#define TD_TEAM_H

#include "engine/base/pool.h"
#include "engine/base/status.h"

TD_BEGIN

typedef struct td_team td_team;

/* Embedded in what is to be done. `work` runs on some thread of the team. */
typedef struct td_team_job {
  void (*work)(struct td_team_job *job);
  struct td_team_job *next; /* the team's */
} td_team_job;

/* Caller owns the result. */
td_status *td_team_new(int size, td_team **out) TD_MUST_USE;
void td_team_release(td_team *t);
/* Makes an idle team ready for another step. */
void td_team_reset(td_team *t);

/* No worker is with it any more: it may be reset. */
bool td_team_idle(const td_team *t);
int td_team_size(const td_team *t);
/* Queues `job`. With `wake`, a worker is called when the team is not full. */
void td_team_post(td_team *t, td_team_job *job, bool wake);
/* Calls a worker for each queued job until the team is full. */
void td_team_wake(td_team *t);
/* The calling thread joins (unless the team is full) and works until nothing is
 * queued, or td_clock_now() passes `until`. */
void td_team_work(td_team *t, int64_t until);
/* When the calling thread must hand its work over; INT64_MAX for workers. */
int64_t td_team_until(void);

TD_END
#endif
