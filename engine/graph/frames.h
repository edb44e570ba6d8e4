/* frames.h - the static reading of control flow.
 *
 * Every node belongs to one frame (a loop body) or to the root: the one its
 * inputs are in, where it runs. So an Enter belongs to the frame it leaves and
 * an Exit to the loop it ends; what they give is in the frame beyond. A
 * NextIteration goes to a Merge of its own frame. The check runs on the whole
 * graph before partition, so that a loop that could never end (a missing
 * Enter, a Merge without back edge, inputs from two frames) is an error with
 * the cycle in it, not a hang.
 *
 * may_die of a node: in some run what it gives is dead. Of a Switch: both of
 * its outputs are; each of them may die in any case. An Exit is seen from
 * outside its loop. may_stop of a Merge that begins a loop: in some run it is
 * dead in an iteration and the loop goes on. False is a proof, true may be
 * caution.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FRAMES_H
#define TD_FRAMES_H

#include "engine/graph/graph.h"

TD_BEGIN

typedef struct td_frame {
  const char *name;   /* the Enters' frame_name; "" for the root */
  int32_t parent;     /* index; the root's is -1 */
  int32_t depth;      /* 0 for the root */
  int32_t enters;     /* Enter nodes leading in */
  int32_t parallel;   /* parallel_iterations */
  td_node *cond;      /* its LoopCond, or NULL */
  td_node *enter;     /* the first of its Enters; NULL for the root */
} td_frame;

typedef struct td_frames {
  td_frame *at; /* [0] is the root */
  int32_t count;
  int32_t *beyond; /* by node id: the frame its outputs are in */
} td_frames;

/* Sets frame, may_die and may_stop of every node (none on error). Caller ends
 * *out with td_frames_free; it borrows from `g`, which must not change
 * meanwhile. */
td_status *td_frames_check(td_graph *g, td_frames *out) TD_MUST_USE;
void td_frames_free(td_frames *f);

TD_END
#endif
