/* loops_impl.h - control loops: what lets a loop run on several devices.
 *
 * Only the device of the LoopCond knows when a loop is over. Every other one
 * that has a part of it gets a loop of its own that does nothing but turn, and
 * so does that device when nothing else lets its part turn:
 *
 *   Const -> Enter -> Merge -> Switch -> NextIteration -> the Merge
 *                                ^
 *                   _Recv -> LoopCond
 *
 * The predicate arrives once an iteration, and the Merge starts the _Recvs of
 * that iteration. The Enter of a nested loop's takes the Merge of the outer
 * one's. The last predicate is false, and the loops stop together.
 *
 * One device goes on while a NextIteration is live, whatever the predicate
 * says. Where each loop variable may die before the predicate is false, the
 * NextIterations of control loops wait for a Merge of signals of those of the
 * loop.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LOOPS_IMPL_H
#define TD_LOOPS_IMPL_H

#include "engine/plan/pass_impl.h"

typedef struct td_loops {
  int32_t n_frames, n_devices;
  td_node **trigger; /* by frame and device: starts _Recvs; NULL: none there */
  int32_t first;     /* nodes of the working copy from here on are loops' */
} td_loops;

/* Moves what belongs beside its other half. A Merge must see its Enter and its
 * NextIteration themselves: a dead Enter ends the loop at once, and what is
 * kept over the end of an iteration is no message. Other Enters go to who uses
 * them, so that a loop's constant crosses once and not in each iteration; who
 * is used on several devices is doubled. An Exit, dead in all iterations but
 * one, goes to its input. */
td_status *td_loops_settle(td_pass *p) TD_MUST_USE;
/* Adds the control loops to the working copy. End *out with td_loops_deinit in
 * any case. */
td_status *td_loops_add(td_pass *p, td_loops *out) TD_MUST_USE;
void td_loops_deinit(td_loops *l);

static inline td_node *td_loops_trigger(const td_loops *l, int32_t frame,
                                        int32_t device) {
  if (!l->trigger || frame >= l->n_frames) return NULL;
  return l->trigger[(size_t)frame * (size_t)l->n_devices + (size_t)device];
}

#endif
