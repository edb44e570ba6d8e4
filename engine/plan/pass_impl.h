/* pass_impl.h - what the passes of the planner share. Inside engine/plan only.
 *
 * A plan is made on a graph of its own, the working copy, which every pass
 * leaves valid. Nodes that must not go, whatever else becomes of the graph, are
 * its roots: fetches, targets, and all that has a state. That a stateful node
 * stays although nobody needs its result any more keeps runs with and without
 * a pass alike: its queue, stream or variable moves on all the same.
 *
 * What every optional pass keeps to. The result has the same bits with it and
 * without. A node with control inputs is not bypassed: who takes its value also
 * waits for those. What is outside of loops and branches has `frame == 0` and
 * not `may_die` (that is called the root frame; roots are something else). A
 * pass that looks for one op compares `node->op` with td_op_find("Neg"); ops
 * that all of the engine must know have a kind (op.h). It rewires with
 * node_edit.h, drops what nobody needs any more with td_pass_sweep, unless it
 * changed nothing, and says why with td_pass_log.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PASS_IMPL_H
#define TD_PASS_IMPL_H

#include "engine/base/vec.h"
#include "engine/plan/placer_impl.h"
#include "engine/plan/plan.h"

/* The state of one planning, which goes from pass to pass. */
typedef struct td_pass {
  const td_plan_request *request;
  td_plan *plan;   /* being made */
  int32_t client;  /* index of the device where feeds enter and fetches leave:
                      host code can touch its memory */
  td_graph *graph; /* the working copy, from prune; owned */

  td_frame *frames; /* from prune, and anew from inline: [0] is the root,
                       node->frame counts them. Owned; names and nodes in it
                       are those of the graph that was checked */
  int32_t n_frames;
  td_node **targets; /* from prune: nodes of the working copy; owned */
  int32_t n_targets;
  TD_VEC(td_plan_edge) edges; /* of the rendezvous, so far; names owned */
  td_node **triggers;    /* from control_loops: see td_pass_trigger. Owned */
  int32_t first_trigger; /* nodes from this id on belong to control loops */
  int32_t *order;        /* from schedule: node ids, inputs first; NULL: any
                            such order will do. Owned */
  bool one_recv; /* partition makes one _Recv of a value on a device, whoever
                    needs it there; else one for each edge */

  td_str *log;    /* what the pass changed and why; NULL: nobody asked */
  int32_t dumped; /* graphs written so far */
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
/* Adds a Const to `g`, in the root, for device `placed`. */
td_status *td_pass_const(td_graph *g, const char *name, const td_tensor *value,
                         int32_t placed, td_node **out) TD_MUST_USE;

/* Can what output `port` gives be dead? */
static inline bool td_edge_may_die(td_edge e) {
  return e.node->may_die || e.node->op->kind == TD_OP_SWITCH;
}

#endif
