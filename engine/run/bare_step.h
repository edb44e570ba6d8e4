/* bare_step.h - programs of this process run as one step.
 *
 * It knows no plan, no cache and no session: whoever has programs, feeds and
 * places for fetches can run it, for itself or for another process. It is the
 * portion that this process has of a step (participant.h). Kernels see a part
 * of it, td_step.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BARE_STEP_H
#define TD_BARE_STEP_H

#include <pthread.h>

#include "engine/device/resource.h"
#include "engine/run/executor.h"
#include "engine/run/participant.h"

/* What a bare step runs, and where; valid while the step is. */
typedef struct td_bare_programs {
  td_program **at;
  int n;
  int32_t n_edges;
  const bool *far; /* by edge: another participant receives it; NULL: none */
  const bool *from_far; /* by edge: another participant sends it; NULL: none */
  td_resources *containers, *own;
} td_bare_programs;

typedef struct td_bare_step {
  td_portion base; /* first */
  td_step step;    /* what kernels see of it */
  const td_bare_programs *programs;
  td_team *team;
  int32_t remaining; /* atomic: executions not over */
  td_status *status; /* lock: lock. The first cause */
  pthread_mutex_t lock;
} td_bare_step;

/* Its team has `threads`. Caller owns the result. */
td_status *td_bare_step_new(const td_bare_programs *programs, int threads,
                            td_bare_step **out) TD_MUST_USE;
void td_bare_step_free(td_bare_step *b);
/* Starts an execution of each program; nothing runs until somebody works on it
 * or wakes others. base.over is called when the last is over. */
void td_bare_step_start(td_bare_step *b, const td_portion_start *o);
void td_bare_step_cancel(td_bare_step *b, td_status *cause);
/* False: it was cancelled or a thread is still with it. */
bool td_bare_step_reset(td_bare_step *b);

#endif
