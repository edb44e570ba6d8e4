/* prune_impl.h - what is known while the user's graph is pruned. Inside
 * prune*.c only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PRUNE_IMPL_H
#define TD_PRUNE_IMPL_H

#include "engine/plan/pass_impl.h"

typedef struct td_pruning {
  td_pass *p;
  const td_plan_request *r;
  int32_t n;              /* nodes of the user's graph */
  const td_frames *whole; /* the frames of the user's graph; NULL when nobody
                             asks or it fails the check as a whole */
  td_prune_mark *marks;   /* by node id; borrowed, cleared again */
  int32_t *fed_too;       /* by feed: the next feed of that node + 1 */
  bool *used;             /* by feed: somebody needs it */
  TD_VEC(int32_t) needed; /* nodes, as the walk met them; then by id */
} td_pruning;

static inline td_prune_mark *td_prune_mark_of(const td_pruning *t,
                                              const td_node *n) {
  return &t->marks[n->id];
}

/* Index of the device of a node of the user's graph, -1: nowhere. */
static inline int32_t td_prune_where(const td_pruning *t, const td_node *n) {
  return td_placer_where(t->r->placer, n);
}

/* The feed that stands for the edge, -1: none. */
static inline int32_t td_prune_feed_of(const td_pruning *t, td_edge e) {
  for (int32_t f = td_prune_mark_of(t, e.node)->fed; f; f = t->fed_too[f - 1])
    if (t->r->feeds[f - 1].port == e.port) return f - 1;
  return -1;
}

/* "After placeholder x" means after it was fed. */
static inline bool td_prune_fed_control(const td_pruning *t,
                                        const td_node *before) {
  return before->op->kind == TD_OP_PLACEHOLDER &&
         td_prune_mark_of(t, before)->fed;
}

/* Makes the working copy of the nodes in `needed` (prune_copy.c). */
td_status *td_prune_copy(td_pruning *t) TD_MUST_USE;

#endif
