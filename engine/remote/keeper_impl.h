/* keeper_impl.h - sessions of others whose master is this process.
 *
 *   keeper_session.c  one, as an object             td_kept_session
 *   keeper_graph.c    their graphs grow by what clients send
 *   keeper_loop.c     their loops of steps
 *   keeper_guest.c    a client's end of one, as a participant  td_keeper_guest
 *   keeper.c          those that are here: made, found, joined
 *   keeper_ask.c      what clients ask beside steps, answered
 *
 * To the worker's files a client's session is like any other: what it registers
 * is one part (far_graph.h), what it runs are portions. But the participant
 * that gets these is a guest of a kept session, which has a graph, a td_session
 * of this process with its own planner and workers, and loops. A guest goes
 * with its client; the session goes with the client that made it, unless it was
 * made to outlive it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KEEPER_IMPL_H
#define TD_KEEPER_IMPL_H

#include "engine/remote/remote_impl.h"
#include "engine/run/callable.h"
#include "engine/run/loop.h"
#include "engine/run/participant.h"

/* What may be kept. */
enum {
  TD_KEPT_MOST = 256,        /* sessions */
  TD_KEPT_NODES = 1 << 22,   /* of one session's graph */
  TD_KEPT_LOOPS = 64,        /* of one session, those that ended too */
  TD_KEPT_NAME = 128,        /* bytes of a name */
};
#define TD_KEPT_BYTES ((size_t)4 << 30) /* of constants of one graph */

typedef struct td_kept_loop {
  uint64_t number; /* its client's question's */
  td_loop *loop;
} td_kept_loop;

typedef struct td_kept_session {
  int32_t refs;    /* atomic */
  td_remote *of;   /* a share */
  char *name;
  td_session_id maker;
  bool outlive;
  bool ended;      /* turn: it is not in the list any more */
  TD_VEC(td_session_id) guests; /* turn: clients that are there */
  int64_t made;    /* when */
  td_graph *graph;
  td_session *session;
  pthread_mutex_t lock;
  td_map known;    /* lock: lock. Client and serial -> node of `graph` */
  size_t nodes, bytes, names; /* lock: lock */
  TD_VEC(td_kept_loop) loops; /* lock: lock */
} td_kept_session;

/* A td_participant, whose client's td_hosted it is of. */
typedef struct td_keeper_guest {
  td_participant base; /* first */
  td_kept_session *kept;       /* a share */
  td_session_id id;    /* the client's */
  td_task task;        /* on the pool: its end */
} td_keeper_guest;

/* What is kept here: td_remote.keeper. The turn's. */
struct td_keeper {
  TD_VEC(td_kept_session *) all; /* shares */
  int asked;             /* questions that are being answered */
};

static inline bool td_session_id_same(const td_session_id *a,
                                      const td_session_id *b) {
  return a->high == b->high && a->low == b->low;
}

/* ---- keeper_session.c ---- */

td_kept_session *td_kept_retain(td_kept_session *k); /* any thread */
void td_kept_release(td_kept_session *k); /* the same; outside of the turn */
/* Outside of the turn: out of the list, closed. Waits for its steps. */
void td_kept_end(td_kept_session *k);
/* Outside of the turn, when the remote is closed: ends all. */
void td_keeper_close(td_remote *r);

/* ---- keeper.c ---- */

/* Inside of the turn: the client's end of the session that `m` names, which is
 * made if it is not there. Caller owns the result. */
td_status *td_keeper_enter(td_remote *r, const Td__Remote__Keep *m,
                           const td_session_id *id,
                           td_participant **out) TD_MUST_USE;

/* ---- keeper_graph.c ---- */

/* A signature, as nodes of a kept graph. Caller ends it. */
typedef struct td_kept_signature {
  td_edge *feeds, *fetches;
  td_node **targets;
  int n_feeds, n_fetches, n_targets;
} td_kept_signature;
/* Adds what is new in `part` to the graph of `k`. Trusts nothing. */
td_status *td_kept_merge(td_kept_session *k, const td_session_id *who,
                         td_graph *part, int feeds, int fetches,
                         td_kept_signature *out) TD_MUST_USE;
void td_kept_signature_deinit(td_kept_signature *s);
/* The graph as GraphDef, for who joins: appended to `out`, after the serials and
 * names of its nodes in order (counted, names NUL-ended). */
td_status *td_kept_write(td_kept_session *k, td_str *out) TD_MUST_USE;
/* n numbers, by two: the node of serial `pairs[i]` here, if it is still there, is
 * known to `who` by `pairs[i + 1]`. */
td_status *td_kept_adopt(td_kept_session *k, const td_session_id *who,
                         const uint64_t *pairs, size_t n) TD_MUST_USE;
/* Takes out what `who` alone knew and has no more. Outside of the turn. */
td_status *td_kept_sweep(td_kept_session *k, const td_session_id *who,
                         const td_makers *alive) TD_MUST_USE;
/* The variables that are called so are called `to`. */
td_status *td_kept_rename(td_kept_session *k, const char *name,
                          const char *to) TD_MUST_USE;

/* ---- keeper_guest.c ---- */

td_status *td_keeper_guest_new(td_kept_session *k, const td_session_id *id,
                               td_participant **out) TD_MUST_USE;
/* NULL when `p` is none. Borrowed. */
td_keeper_guest *td_keeper_guest_of(td_participant *p);
/* What an enrollment of a guest runs. Borrowed. */
td_callable *td_keeper_callable(td_enrollment *e);

/* ---- keeper_ask.c ---- */

void td_keeper_asked(td_peer *p, const td_head *head);

/* ---- keeper_loop.c ---- */

/* Starts loop `number`; the same again changes nothing. */
typedef struct td_kept_loop_start {
  uint64_t number;
  td_callable *step, *log, *at_end, *at_error; /* the last three may be NULL */
  td_callable **more;
  int n_more, threads, n_log;
  int64_t steps, every;
  const char *const *names;
} td_kept_loop_start;
td_status *td_kept_loop_begin(td_kept_session *k,
                              const td_kept_loop_start *o) TD_MUST_USE;
/* Appends the numbers of its loops, the oldest first; those that ended, too. */
void td_kept_loop_list(td_kept_session *k, td_str *out);
/* NOT_FOUND; else appends what is asked. */
td_status *td_kept_loop_state(td_kept_session *k, uint64_t number,
                              td_str *out) TD_MUST_USE;
td_status *td_kept_loop_log(td_kept_session *k, uint64_t number,
                            td_str *out) TD_MUST_USE;
td_status *td_kept_loop_cancel(td_kept_session *k, uint64_t number) TD_MUST_USE;
void td_kept_loops_drop(td_kept_session *k); /* lets go of the handles */

#endif
