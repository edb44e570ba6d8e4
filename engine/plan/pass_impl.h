/* pass_impl.h - what the passes of the planner share. Inside engine/plan only.
 *
 * A plan is made on a graph of its own, the working copy, which every pass
 * leaves valid. Nodes that must not go, whatever else becomes of the graph, are
 * its roots: fetches, targets, and all that has a state. That a stateful node
 * stays although nobody needs its result any more keeps runs with and without
 * the exact passes alike: its queue, stream or variable moves on all the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PASS_IMPL_H
#define TD_PASS_IMPL_H

#include "engine/base/vec.h"
#include "engine/plan/plan.h"

typedef struct td_pass {
  const td_plan_request *request;
  td_plan *plan;          /* being made */
  td_graph *graph;        /* the working copy; owned */
  td_frame *frames; /* [0] the root; node->frame counts them; NULL: not known.
                       Owned, its names and nodes are that graph's */
  int32_t n_frames;
  int32_t client;    /* index of the device where feeds enter and fetches
                        leave: host code can touch its memory */
  td_node **targets; /* nodes of the working copy; owned */
  int32_t n_targets;
  td_node **triggers;    /* from control_loops: see td_pass_trigger. Owned */
  int32_t first_trigger; /* nodes from this id on belong to control loops */
  int32_t *order;        /* from schedule: node ids, inputs first; NULL: any
                            such order will do. Owned */
  td_str *log;          /* what the pass changed and why; NULL: nobody asked */
  int32_t dumped;       /* graphs written so far */
  TD_VEC(char *) edges; /* names of the rendezvous edges; owned */
} td_pass;

/* The passes. */
#define TD_PASS(name, when, what) td_status *td_##name(td_pass *p) TD_MUST_USE;
#include "engine/plan/pass.def"
#undef TD_PASS

/* ---- what they share (pass.c) ---- */

/* By node id: must it stay? Caller owns *out (td_free). */
td_status *td_pass_roots(const td_pass *p, bool **out) TD_MUST_USE;
/* Drops the nodes that no root needs any more. */
td_status *td_pass_sweep(td_pass *p) TD_MUST_USE;
/* Makes a copy of `all` the frames of the working copy. */
td_status *td_pass_keep_frames(td_pass *p, const td_frames *all) TD_MUST_USE;
/* The node that starts the _Recvs of `frame` on `device` once an iteration;
 * NULL when there is none. */
static inline td_node *td_pass_trigger(const td_pass *p, int32_t frame,
                                       int32_t device) {
  if (!p->triggers || frame >= p->n_frames) return NULL;
  return p->triggers[(size_t)frame * (size_t)p->request->n_devices +
                     (size_t)device];
}
/* A line for the dump. Costs nothing when nobody asked. */
void td_pass_log(td_pass *p, const char *fmt, ...) TD_PRINTF(2, 3);
/* A Const of the working copy, in the root, for device `placed`. */
td_status *td_pass_const(td_graph *g, const char *name, const td_tensor *value,
                         int32_t placed, td_node **out) TD_MUST_USE;

/* ---- the placer's side for plan.c (place.c) ---- */

/* As td_placer_extend, but a node that cannot be placed is no error: only
 * those who need it fail, with td_placer_why_not. */
td_status *td_placer_grow(td_placer *p, td_graph *g) TD_MUST_USE;
/* Places `n`, a node of a graph of the planner's that came out of a function:
 * with what it must be with, where it wishes, with its call on device `with`,
 * or where there is a kernel. */
td_status *td_placer_put(td_placer *p, td_node *n, int32_t with) TD_MUST_USE;
td_status *td_placer_why_not(const td_placer *p, const td_node *n) TD_MUST_USE;
/* Sets n->placed, of a node of the graph that the placer has grown with:
 * another session may have placed it its own way. */
void td_placer_place(td_placer *p, td_node *n);
/* Ids of the nodes that work on rows of a variable. */
const int32_t *td_placer_sparse(const td_placer *p, size_t *n);

/* Of a node of the user's graph, while it is pruned. */
typedef struct td_prune_seat {
  int32_t fed;   /* its first feed + 1, 0: none */
  int32_t via;   /* who needs it: node id + 1, or below 0 a root; 0: nobody */
  td_node *copy; /* in the working copy, or NULL */
} td_prune_seat;

/* Cleared ones by node id. Who borrows them clears what it has set: a plan of a
 * few nodes costs no more because the graph is large. NULL: no memory. */
td_prune_seat *td_placer_seats(td_placer *p);

/* The frames of the whole graph, checked once a version. *out is NULL when the
 * graph as a whole fails the check (a loop half built). Borrowed; valid until
 * the next call. */
td_status *td_placer_frames(td_placer *p, td_graph *g,
                            const td_frames **out) TD_MUST_USE;

/* ---- who uses a node (uses.c) ---- */

typedef struct td_use {
  int32_t node; /* id of the consumer */
  int32_t in;   /* which of its inputs, -1: a control input */
} td_use;

/* The uses of node `id` are at[begin[id]] to at[begin[id + 1] - 1]. */
typedef struct td_uses {
  int32_t *begin;
  td_use *at;
} td_uses;

td_status *td_uses_init(const td_graph *g, td_uses *out) TD_MUST_USE;
void td_uses_deinit(td_uses *u);

/* ---- dumps (dump.c) ---- */

/* Begins the log of a pass; nothing without request->dump. */
td_status *td_dump_begin(td_pass *p) TD_MUST_USE;
/* Writes graph and log, and empties the log. */
td_status *td_dump_graph(td_pass *p, const char *pass, const char *what,
                         const td_graph *g) TD_MUST_USE;
void td_dump_end(td_pass *p);

/* Can what output `port` gives be dead? */
static inline bool td_edge_may_die(td_edge e) {
  return e.node->may_die || e.node->op->kind == TD_KIND_SWITCH;
}

#endif
