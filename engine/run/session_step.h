/* session_step.h - one step: a run of a compiled signature.
 *
 * A step executes each of its signature's programs once; the last execution to
 * end ends the step. Kernels see a part of it, td_step.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SESSION_STEP_H
#define TD_SESSION_STEP_H

#include "engine/run/compiled.h"

enum { TD_CALLER_BUDGET = 1000000 }; /* ns: longer steps are the pool's */

struct td_session_step {
  int32_t refs; /* atomic: who waits for it, and the running step itself */
  td_session *session;   /* retained while running */
  td_compiled *compiled; /* retained while running */
  td_step base;          /* what kernels see of it */
  td_team *team;
  td_rendezvous *rendezvous;
  td_tensor *args, *rets;
  bool *rets_dead;
  int32_t remaining; /* atomic: executions not over */
  int32_t finished;  /* atomic: status and rets are final */
  td_status *status; /* lock: lock, until finished */
  pthread_mutex_t lock;
  pthread_cond_t wake; /* lock: lock */
  int32_t waiters;     /* lock: lock */
  uint64_t timer;
  int64_t timeout;
  td_session_step *prev, *next; /* session->running, or compiled->idle */
};

/* `feeds` are checked and retained. NULL feeds: a partial run. */
td_status *td_session_step_new(td_session *s, td_compiled *c,
                               const td_tensor *feeds, const td_step_options *o,
                               td_session_step **out) TD_MUST_USE;
void td_session_step_release(td_session_step *step);
/* Starts its executions. Nothing runs yet unless `wake`: workers are called,
 * and the timeout begins. */
void td_session_step_start(td_session_step *step, bool wake);
/* May the caller's thread run it? */
bool td_session_step_short(const td_session_step *step);
/* Waits until it is over, `until` (ns) passes or *interrupt: the last two
 * cancel the step when `cancels`, else return DEADLINE_EXCEEDED or CANCELLED.
 */
td_status *td_session_step_wait(td_session_step *step, int64_t until,
                                const int *interrupt, bool cancels) TD_MUST_USE;
bool td_session_step_over(const td_session_step *step);
/* Moves the fetches of a step that is over out, or its error. */
td_status *td_session_step_results(td_session_step *step,
                                   td_tensor *fetches) TD_MUST_USE;
/* Takes ownership of `cause`. */
void td_session_step_cancel(td_session_step *step, td_status *cause);

#endif
