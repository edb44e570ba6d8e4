/* session_impl.h - what session.c, exec.c, callable.c and partial.c share.
 *
 * A td_compiled is a planned signature: programs and what a step needs to know.
 * A td_exec is one step of one; finished ones are kept with the compiled
 * signature, so that a step of a warm session allocates nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SESSION_IMPL_H
#define TD_SESSION_IMPL_H

#include <pthread.h>

#include "engine/base/map.h"
#include "engine/graph/region.h"
#include "engine/run/executor.h"
#include "engine/run/session.h"

typedef struct td_exec td_exec;

enum { TD_CALLER_BUDGET = 1000000 }; /* ns: longer steps are the pool's */

typedef struct td_compiled {
  int32_t refs;
  td_plan *plan;
  td_program **programs;
  int n_programs;
  td_edge *feeds, *fetches; /* copies of the signature */
  td_node **targets;
  int n_feeds, n_fetches, n_targets;
  td_graph *graph; /* retained: the edges point into it */
  char *key;       /* the signature's bytes, in the cache */
  size_t key_len;
  uint64_t used; /* session->tick of the last use */
  bool held;     /* the regions of its nodes */
  struct td_compiled *next_gone; /* on its way out of the cache */
  pthread_mutex_t lock;
  td_exec *idle; /* lock: lock. Finished steps */
} td_compiled;

struct td_session {
  int32_t refs;
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
  td_map cache;           /* lock: lock. key -> td_compiled */
  uint64_t tick;          /* lock: lock */
  td_exec *running;       /* lock: lock */
  pthread_cond_t quiet;   /* lock: lock. running became empty */
  bool closed;            /* lock: lock */
  td_session_stats stats; /* atomic fields */
};

/* One step. Held by whoever waits for it, by each running program. */
struct td_exec {
  int32_t refs;
  td_session *session;   /* retained while running */
  td_compiled *compiled; /* retained while running */
  td_step step;
  td_team *team;
  td_rendezvous *rendezvous;
  td_tensor *args, *rets;
  bool *rets_dead;
  int32_t remaining; /* atomic: programs not over */
  int32_t finished;  /* atomic: status and rets are final; futex */
  td_status *status; /* lock: lock, until finished */
  pthread_mutex_t lock;
  pthread_cond_t wake;  /* lock: lock */
  int32_t waiters;      /* lock: lock */
  td_cancel_hook abort; /* aborts the rendezvous */
  uint64_t timer;
  int64_t timeout;
  td_exec *prev, *next; /* session->running, or compiled->idle */
};

/* session.c */
td_status *td_session_compile(td_session *s, const td_signature *sig,
                              bool partial, td_compiled **out) TD_MUST_USE;
/* From the cache, planned on a miss. Retained for the caller. */
td_status *td_session_lookup(td_session *s, const td_signature *sig,
                             td_compiled **out) TD_MUST_USE;
/* Is all of the signature still in the graph? */
td_status *td_compiled_check(const td_compiled *c) TD_MUST_USE;
void td_compiled_release(td_compiled *c);
static inline td_compiled *td_compiled_retain(td_compiled *c) {
  __atomic_fetch_add(&c->refs, 1, __ATOMIC_RELAXED);
  return c;
}

/* exec.c. `feeds` are checked and retained. NULL feeds: a partial run. */
td_status *td_exec_new(td_session *s, td_compiled *c, const td_tensor *feeds,
                       const td_run_options *o, td_exec **out) TD_MUST_USE;
/* Starts its programs; nothing runs yet unless `wake`. */
void td_exec_start(td_exec *e, bool wake);
/* Works and waits until over, `until` (ns) passes or *interrupt: the last two
 * cancel the step when `cancels`, else return DEADLINE_EXCEEDED or CANCELLED.
 */
td_status *td_exec_wait(td_exec *e, int64_t until, const int *interrupt,
                        bool cancels) TD_MUST_USE;
bool td_exec_over(const td_exec *e);
/* Moves the fetches of a finished step out, or its error. */
td_status *td_exec_results(td_exec *e, td_tensor *fetches) TD_MUST_USE;
void td_exec_cancel(td_exec *e, td_status *cause);
void td_exec_release(td_exec *e);
/* May the caller's thread run it? */
bool td_exec_short(const td_exec *e);
void td_exec_free_idle(td_compiled *c);

#endif
