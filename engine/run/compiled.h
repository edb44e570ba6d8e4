/* compiled.h - a planned signature, enrolled with the participants that it
 * needs, and steps kept for the next.
 *
 * Making a step costs allocations (arguments, mailboxes, a team). A step that
 * ended well is therefore kept here and used again: a step of a warm session
 * allocates nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMPILED_H
#define TD_COMPILED_H

#include <pthread.h>

#include "engine/run/participant.h"
#include "engine/run/session.h"

typedef struct td_compiled td_compiled;
typedef struct td_session_step td_session_step;

struct td_compiled {
  int32_t refs; /* atomic */
  uint64_t signature; /* td_roll.signature */
  td_plan *plan;
  td_enrollment **enrollments; /* one of each participant that has parts */
  td_participant **participants; /* their participants, retained */
  int n_enrollments;
  int32_t *receivers, *senders; /* by edge: index of the enrollment that
                                   receives, or sends; -1: none; NULL: there is
                                   one enrollment only */
  td_edge *feeds, *fetches; /* copies of the signature */
  td_node **targets;
  int n_feeds, n_fetches, n_targets;
  td_graph *graph; /* retained: the edges point into it */
  char *key;       /* the signature's bytes, in the cache */
  size_t key_len;
  uint64_t used;          /* session->tick of the last use */
  bool held;              /* the regions of its nodes */
  td_compiled *next_gone; /* on its way out of the cache */
  int64_t result_bytes;   /* atomic: of the last step that was counted */
  int64_t last;           /* atomic: what stats.steps was when a step of it last
                             ended well; 0: none has */
  pthread_mutex_t lock;
  td_session_step
      *idle; /* lock: lock. Steps that are over, kept for the next */
};

/* Plans `sig` for the session and enrolls its parts. `partial`: for a partial
 * run, whose feeds and fetches are edges of the rendezvous. Caller owns the
 * result. */
td_status *td_compiled_new(td_session *s, const td_signature *sig, bool partial,
                           td_compiled **out) TD_MUST_USE;
static inline td_compiled *td_compiled_retain(td_compiled *c) {
  __atomic_fetch_add(&c->refs, 1, __ATOMIC_RELAXED);
  return c;
}
void td_compiled_release(td_compiled *c);
/* Is all of the signature still in the graph? */
td_status *td_compiled_check(const td_compiled *c) TD_MUST_USE;
/* Has `t` the dtype and shape of feed i? */
td_status *td_compiled_check_feed(const td_compiled *c, int i,
                                  const td_tensor *t) TD_MUST_USE;
/* The enrollment that receives over `edge`, -1: none. */
int32_t td_compiled_receiver(const td_compiled *c, int32_t edge);
int32_t td_compiled_sender(const td_compiled *c, int32_t edge); /* the same */
/* Has `d` a part of it? */
bool td_compiled_uses(const td_compiled *c, const td_device *d);
/* A device of it that was removed, or NULL; borrowed from `c`. */
const td_device *td_compiled_lost(const td_compiled *c);
/* What steps on such a device end with. */
td_status *td_compiled_unavailable(td_session *s,
                                   const td_device *d) TD_MUST_USE;
/* Says which line made the node of an error, where that is not told: a part
 * that went through bytes has no lines. Takes ownership of `s`, returns it. */
td_status *td_compiled_blame(const td_compiled *c, td_status *s) TD_MUST_USE;
/* The plan alone. Caller owns the result (td_plan_free). */
td_status *td_compiled_plan(td_session *s, const td_signature *sig,
                            bool partial, td_plan **out) TD_MUST_USE;

/* A kept step or a new one whose team has `threads`. Caller owns the result. */
td_status *td_compiled_take_step(td_compiled *c, int threads,
                                 td_session_step **out) TD_MUST_USE;
/* Takes ownership of a step that is over and let go of its values. `again`: it
 * may be used again. */
void td_compiled_give_step(td_compiled *c, td_session_step *step, bool again);

#endif
