/* frames_impl.h - what the three files of the check of frames share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FRAMES_IMPL_H
#define TD_FRAMES_IMPL_H

#include "engine/base/map.h"
#include "engine/graph/frames.h"

/* Loops nested deeper are refused. */
enum { TD_FRAMES_DEPTH = 32, TD_FRAMES_PARALLEL = 1000000 };

typedef struct td_frames_walk {
  td_graph *g;
  int32_t n;         /* nodes */
  int32_t *order;    /* inputs first, back edges aside */
  int32_t *frame;    /* by node id: where it runs */
  bool *may_die;     /* by node id */
  bool *may_stop;    /* by node id */
  td_frames *frames; /* being made */
  int32_t cap;       /* of frames->at */
  td_map index;      /* parent and name of a frame to its number + 1 */
} td_frames_walk;

/* Needs a Merge, one of its inputs a NextIteration. */
static inline bool td_frames_back_edge(const td_node *n, int i) {
  return n->op->kind == TD_OP_MERGE && n->in[i].node &&
         n->in[i].node->op->kind == TD_OP_NEXT;
}
static inline bool td_frames_loop_merge(const td_node *n) {
  for (int i = 0; i < n->n_in; i++)
    if (td_frames_back_edge(n, i)) return true;
  return false;
}

/* INVALID_ARGUMENT at `n`. */
td_status *td_frames_error(const td_node *n, const char *fmt, ...)
    TD_PRINTF(2, 3) TD_MUST_USE;
/* "'name' (file:line)", or without the place. */
void td_frames_name(const td_node *n, td_str *out);
/* Before frames are known: what feeds Merges, and what NextIterations feed. */
td_status *td_frames_shape(const td_frames_walk *w) TD_MUST_USE;
/* Once they are: each loop has its LoopCond, ends and goes on in its frame. */
td_status *td_frames_loops(const td_frames_walk *w) TD_MUST_USE;
/* Fills may_die and may_stop; a NextIteration or Exit that the loop's Switch does not
 * control is refused here. */
td_status *td_frames_deadness(td_frames_walk *w) TD_MUST_USE;

#endif
