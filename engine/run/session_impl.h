/* session_impl.h - a session, for what runs its signatures.
 *
 *   compiled.c      plans and compiles a signature       td_compiled
 *   session.c       the session, its cache of those      td_session
 *   session_step.c  one run of a compiled signature      td_session_step
 *   session_run.c   the calls that run steps and end them all
 *   callable.c, async.c, partial.c   other ways to run
 *
 * Each calls those above it only. A running step holds its session and its
 * compiled signature, so that either may leave the cache, or be let go by its
 * user, meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SESSION_IMPL_H
#define TD_SESSION_IMPL_H

#include "engine/base/map.h"
#include "engine/run/session_step.h"

struct td_session {
  int32_t refs; /* atomic */
  td_runtime *runtime;
  td_graph *graph;
  td_session_options options;
  char *dump;
  td_device **devices;
  int n_devices;
  td_states *states;
  td_resources *own;
  pthread_mutex_t plan_lock; /* one plan at a time; guards placer */
  td_placer *placer;
  uint64_t cuts; /* atomic: of the graph when the cache was last cleared */
  pthread_mutex_t lock;
  td_map cache;             /* lock: lock. key -> td_compiled */
  uint64_t tick;            /* lock: lock */
  td_session_step *running; /* lock: lock */
  bool closed;              /* lock: lock */
  td_session_stats stats;   /* atomic fields */
};

/* session.c: planned and compiled anew; counted. Caller owns the result. */
td_status *td_session_compile(td_session *s, const td_signature *sig,
                              bool partial, td_compiled **out) TD_MUST_USE;
/* session.c: from the cache, compiled on a miss. Caller owns the result. */
td_status *td_session_lookup(td_session *s, const td_signature *sig,
                             td_compiled **out) TD_MUST_USE;
/* session.c: empties the cache. */
void td_session_drop_cache(td_session *s);
/* session_run.c: as td_session_run. */
td_status *td_session_run_compiled(td_session *s, td_compiled *c,
                                   const td_tensor *feeds, td_tensor *fetches,
                                   const td_step_options *o) TD_MUST_USE;

#endif
