/* frames.h - the static reading of control flow.
 *
 * Every node belongs to one frame (a loop body) or to the root; Enter leads in,
 * Exit out, NextIteration goes to a Merge of the same frame. The check runs on
 * the whole graph before partition, so that a loop that could never end (a
 * missing Enter, a Merge without back edge, inputs from two frames) is an error
 * with the cycle in it, not a hang.
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
} td_frame;

typedef struct td_frames {
  td_frame *at; /* [0] is the root */
  int32_t count;
} td_frames;

/* Sets frame and may_die of every node. Caller ends *out with
 * td_frames_free. The graph must not change meanwhile. */
td_status *td_frames_check(td_graph *g, td_frames *out) TD_MUST_USE;
void td_frames_free(td_frames *f);

TD_END
#endif
