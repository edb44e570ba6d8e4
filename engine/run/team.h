/* team.h - the threads that work on one step.
 *
 * A step has one team, over all its programs: workers of the thread pool and
 * the thread that called. At most `size` of them work at a time. Work comes in
 * jobs; a job is a chain of ready nodes. Whoever is about to run an expensive
 * node posts the rest of its chain as a job first: another worker takes it, or
 * the one that posted finds it again afterwards.
 *
 * Each thread has its *turn*. A worker's lasts as long as nobody else needs the
 * thread: from the moment when a task waits in the pool's queue it has a time
 * slice left, then what it had in hand goes to the front of the team's queue
 * and the worker to the end of the pool's. So the steps of a process share the
 * pool's threads in turn, and an endless one holds none.
 *
 * The caller's turn has an end in any case, so that it can listen to Ctrl-C and
 * deadlines. While it waits it watches: jobs that no thread has come to, since
 * all work elsewhere, it runs itself, a slice at a time. Nodes that could make
 * it deaf it leaves to the pool until it has waited as long as they take. Of a
 * step that was cancelled it takes all that is queued, which is only let go of
 * then: such a step ends without the pool.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TEAM_H
#define TD_TEAM_H

#include "engine/base/pool.h"
#include "engine/base/status.h"

TD_BEGIN

typedef struct td_team td_team;

/* What is to be done: work(owner, what), on some thread of the team. */
typedef struct td_team_job {
  void (*work)(void *owner, void *what);
  void *owner, *what;
} td_team_job;

/* A job that cannot be refused: embedded in its owner. */
typedef struct td_team_duty {
  void (*work)(struct td_team_duty *duty);
  struct td_team_duty *next; /* the team's */
} td_team_duty;

/* How long a thread works on. */
typedef struct td_turn {
  int64_t until;   /* td_clock_now() of its end; 0: not begun to count */
  int32_t dearest; /* ns: it leaves nodes that cost more to others */
  bool shares;     /* a worker: the end matters while others wait */
  bool left;       /* it did */
  bool over;       /* it goes after this job */
} td_turn;

/* What a waiting thread has seen so far; zero at first. */
typedef struct td_watch {
  int64_t pause, alone; /* ns until the next look; since when none works */
} td_watch;

enum { TD_TURN_ALL = INT32_MAX }; /* dearest: leaves nothing */

/* Caller owns the result. */
td_status *td_team_new(int size, td_team **out) TD_MUST_USE;
void td_team_release(td_team *t);

/* No worker is with it any more: it may serve another step. */
bool td_team_idle(const td_team *t);
int td_team_size(const td_team *t);
/* Queues `job`, calling a worker when the team is not full. False: no memory
 * for it, which a queue needs only when it was never as long. */
bool td_team_post(td_team *t, td_team_job job) TD_MUST_USE;
/* The same without a call: last, or first, by a thread whose turn is over. */
bool td_team_put_last(td_team *t, td_team_job job) TD_MUST_USE;
bool td_team_put_first(td_team *t, td_team_job job) TD_MUST_USE;
/* Before all jobs. */
void td_team_post_duty(td_team *t, td_team_duty *duty);
/* Calls a worker for each queued job until the team is full. */
void td_team_wake(td_team *t);
/* The calling thread joins (unless the team is full) and works until nothing is
 * queued, or td_clock_now() passes `until`. */
void td_team_work(td_team *t, int64_t until);
/* From now on this thread calls no worker for what it posts, or is to wake, and
 * does not work, but sees to it in td_team_gathered. False, and nothing to be
 * ended, when it works on a team or gathers already. */
bool td_team_gather(void) TD_MUST_USE;
bool td_team_has_gathered(void); /* is there anything? */
/* Works on all that for `budget` ns each; calls workers for nodes that take
 * longer, or nobody knows how long, and for what is left. 0: for all. */
void td_team_gathered(int64_t budget);
/* For a thread that waits: runs what nobody comes to. `stopped`: the step was
 * cancelled. Returns how many ns it may sleep before it looks again. */
int64_t td_team_watch(td_team *t, td_watch *w, bool stopped);

/* The calling thread's turn, while it works. */
td_turn *td_team_turn(void);
/* Is it over? A thread that works through a chain asks now and then. */
bool td_turn_over(td_turn *turn);

TD_END
#endif
