/* placer_impl.h - the placer's side for the passes. Inside engine/plan only.
 *
 * A placer knows the user's graph from plan to plan: besides devices, what
 * would cost each plan a walk over the whole graph. It is used under the lock
 * of that graph.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PLACER_IMPL_H
#define TD_PLACER_IMPL_H

#include "engine/base/vec.h"
#include "engine/plan/placer.h"

/* As td_placer_extend, but a node that cannot be placed is no error: only
 * those who need it fail, with td_placer_why_not. */
td_status *td_placer_grow(td_placer *p, const td_graph *g) TD_MUST_USE;
td_status *td_placer_why_not(const td_placer *p, const td_node *n) TD_MUST_USE;
/* Sets n->placed, of a node of the working copy that came out of a function:
 * where its peers are, where it requests to be, where its call is (`with`), or
 * where there is a kernel. */
td_status *td_placer_choose_inlined(td_placer *p, td_node *n,
                                    int32_t with) TD_MUST_USE;
/* Ids of the nodes that work on rows of a variable. */
const int32_t *td_placer_sparse(const td_placer *p, size_t *n);
/* The frames of the whole graph, checked once a version. *out is NULL when the
 * graph as a whole fails the check (a loop half built). Borrowed; valid until
 * the next call. */
td_status *td_placer_frames(td_placer *p, td_graph *g,
                            const td_frames **out) TD_MUST_USE;

/* Of a node of the user's graph, while it is pruned. */
typedef struct td_prune_mark {
  int32_t fed;   /* its first feed + 1, 0: none */
  int32_t via;   /* who needs it: node id + 1, or below 0 a root; 0: nobody */
  td_node *copy; /* in the working copy, or NULL */
} td_prune_mark;

/* Cleared marks by node id. Who borrows them clears what it has set: a plan of
 * a few nodes costs no more because the graph is large. NULL: no memory. */
td_prune_mark *td_placer_marks(td_placer *p);

#endif
