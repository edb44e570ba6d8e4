/* session_impl.h - a session, for what runs its signatures.
 *
 *   participant.h   who runs the parts of a plan         td_participant
 *   members.c       who takes part in a session          td_members
 *   session_devices.c  the devices of a session
 *   compiled.c      plans and enrolls a signature        td_compiled
 *   session.c       the session, its cache of those      td_session
 *   session_states.c   what kernels keep, as bytes
 *   session_step.c  one run of a compiled signature      td_session_step
 *   session_gone.c  making one, which watches for devices that go
 *   session_members.c  participants that come, leave and are lost
 *   session_run.c   the calls that run steps and end them all
 *   callable.c, async.c, loop.c, partial.c   other ways to run
 *
 * Each calls those above it only. A running step holds its session and its
 * compiled signature, so that either may leave the cache, or be let go by its
 * user, meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SESSION_IMPL_H
#define TD_SESSION_IMPL_H

#include "engine/base/map.h"
#include "engine/run/device_list.h"
#include "engine/run/members.h"
#include "engine/run/session_members.h"
#include "engine/run/session_step.h"

/* What goes on in a session until it is closed: a loop of steps. Embedded in
 * its owner; the session calls these without a lock. */
typedef struct td_session_guest {
  void (*hold)(struct td_session_guest *g);
  /* Ends it with `why`, waits for the end if told to, drops the hold. */
  void (*end)(struct td_session_guest *g, td_status *why, bool wait);
  struct td_session_guest *prev, *next; /* the session's */
  bool told;                            /* the session's */
} td_session_guest;

struct td_session {
  int32_t refs; /* atomic */
  td_runtime *runtime;
  td_graph *graph;
  td_session_options options;
  char *dump;
  td_device **devices;     /* plan_lock; by index, retained; NULL: removed */
  int n_devices;           /* plan_lock */
  uint64_t devices_version; /* plan_lock: of the runtime's list */
  td_device_watcher watcher;
  td_members members;
  uint64_t losses_told; /* plan_lock: members.losses that the placer knows of */
  uint64_t steps_begun; /* atomic: the number of the last step */
  uint64_t signatures;  /* atomic: the last td_roll.signature; it begins at
                           random, since others of the process count too */
  pthread_mutex_t plan_lock; /* one plan at a time; guards placer */
  td_placer *placer;
  struct td_session_planner *planner; /* NULL: it plans itself */
  uint64_t cuts; /* atomic: of the graph when the cache was last cleared */
  pthread_mutex_t lock;
  td_map cache;             /* lock: lock. key -> td_compiled */
  uint64_t tick;            /* lock: lock */
  td_session_step *running; /* lock: lock */
  td_session_guest *guests; /* lock: lock */
  bool closed;              /* lock: lock */
  int64_t queued;           /* atomic: bytes of results of started steps that
                               nobody has taken, as far as they can be told */
  td_session_stats stats;   /* atomic fields */
};

/* session.c: as td_session_new, but nobody watches for devices that go. */
td_status *td_session_begin(td_runtime *rt, td_graph *g,
                            const td_session_options *options,
                            td_session **out) TD_MUST_USE;
/* session.c: planned and compiled anew; counted. Caller owns the result. */
td_status *td_session_compile(td_session *s, const td_signature *sig,
                              bool partial, td_compiled **out) TD_MUST_USE;
/* session.c: from the cache, compiled on a miss. Caller owns the result. */
td_status *td_session_lookup(td_session *s, const td_signature *sig,
                             td_compiled **out) TD_MUST_USE;
/* session.c: what is refused once the session is closed. */
td_status *td_session_closed_error(void) TD_MUST_USE;
/* session.c: what was planned for `d` leaves the cache. */
void td_session_forget_device(td_session *s, const td_device *d);
/* session_gone.c: the same, and the steps that it has a part of are cancelled;
 * `d` is marked as gone. */
void td_session_stop_device(td_session *s, const td_device *d);
/* session.c: empties the cache. */
void td_session_drop_cache(td_session *s);
/* session.c: they are told that it is over; nothing runs any more. */
void td_session_close_members(td_session *s);
/* session_run.c: from now on `g` is ended with the session. FAILED_PRECONDITION
 * once it is closed. */
td_status *td_session_guest_in(td_session *s, td_session_guest *g) TD_MUST_USE;
void td_session_unguest(td_session *s, td_session_guest *g);
/* session_run.c: as td_session_run. */
td_status *td_session_run_compiled(td_session *s, td_compiled *c,
                                   const td_tensor *feeds, td_tensor *fetches,
                                   const td_step_options *o) TD_MUST_USE;

#endif
