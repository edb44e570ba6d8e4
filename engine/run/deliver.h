/* deliver.h - one value arrives at one node: both executors' inner step.
 *
 * `shared` is a constant at each call: plain arithmetic where one thread (or a
 * lock) owns the execution, atomics elsewhere.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DELIVER_H
#define TD_DELIVER_H

#include "engine/base/plant.h"
#include "engine/run/iteration.h"

static inline void td_ready_push(td_iteration *it, td_target to, bool dead,
                                 td_chain *ready) {
  td_ready *r = &it->ready[to.local];
  r->dead = dead;
  td_chain_push(ready, r);
}

/* One input of an ordinary node arrived. */
static inline void td_arrive(td_iteration *it, td_target to, bool dead,
                             bool shared, td_chain *ready) {
  uint64_t *state = &it->state[to.local], now;
  if (to.lone) {
    __atomic_store_n(state, 0, __ATOMIC_RELAXED); /* for why() */
  } else {
    if (shared) {
      if (dead) __atomic_fetch_or(state, TD_STATE_DEAD, __ATOMIC_RELAXED);
      now = __atomic_sub_fetch(state, 1, __ATOMIC_ACQ_REL);
    } else {
      if (dead) *state |= TD_STATE_DEAD;
      now = *state -= 1;
    }
    if ((now & TD_STATE_COUNT) != 0) return;
    dead = (now & TD_STATE_DEAD) != 0;
  }
  td_ready_push(it, to, dead, ready);
}

/* Ready once all control inputs came and a live value, or every value dead. */
static inline bool td_merge_ready(uint64_t s) {
  return (s & TD_STATE_COUNT) == 0 &&
         ((s & TD_STATE_LIVE) || (s & TD_STATE_DATA) == 0);
}

/* An input of a Merge arrived. `whole`: a dead Enter, which ends the wait for
 * every other value. */
static inline void td_arrive_merge(td_iteration *it, td_target to, bool dead,
                                   bool whole, bool shared, td_chain *ready) {
  bool control = to.slot < 0;
  uint64_t *state = &it->state[to.local];
  uint64_t old = __atomic_load_n(state, __ATOMIC_ACQUIRE), now;
  do {
    uint64_t take = control ? 1
                    : whole ? old & TD_STATE_DATA
                            : TD_STATE_DATA_ONE;
    now = old - take;
    if (!control && !dead) now |= TD_STATE_LIVE;
    if (td_merge_ready(now)) now |= TD_STATE_FIRED;
  } while (shared ? !__atomic_compare_exchange_n(state, &old, now, false,
                                                 __ATOMIC_ACQ_REL,
                                                 __ATOMIC_ACQUIRE)
                  : (*state = now, false));
  bool again = (old & TD_STATE_FIRED) && !TD_PLANT(3);
  if ((now & TD_STATE_FIRED) && !again)
    td_ready_push(it, to, !(now & TD_STATE_LIVE), ready);
}

/* Puts a value into its slot; a Merge that has one drops further ones. */
static inline void td_fill(td_iteration *it, td_target to, td_tensor *t,
                           bool last) {
  if (to.merge && (__atomic_load_n(&it->state[to.local], __ATOMIC_ACQUIRE) &
                   TD_STATE_LIVE)) {
    if (last) td_tensor_release(t);
  } else {
    td_tensor_set(&it->slot[to.slot], t);
    if (!last && !TD_PLANT(6)) td_buffer_retain(t->buffer);
  }
  if (last) t->buffer = NULL;
}

/* Delivers one output over one edge; `t` is moved when `last`. */
static inline void td_deliver(td_iteration *it, td_target to, td_tensor *t,
                              bool dead, bool last, bool shared,
                              td_chain *ready) {
  bool control = to.slot < 0;
  if (!control && !dead) td_fill(it, to, t, last);
  if (TD_UNLIKELY(to.merge))
    td_arrive_merge(it, to, dead, false, shared, ready);
  else
    td_arrive(it, to, dead && !(control && TD_PLANT(2)), shared, ready);
}

/* The same over a control edge. */
static inline void td_deliver_control(td_iteration *it, td_target to, bool dead,
                                      bool shared, td_chain *ready) {
  if (TD_UNLIKELY(to.merge))
    td_arrive_merge(it, to, dead, false, shared, ready);
  else
    td_arrive(it, to, dead && !TD_PLANT(2), shared, ready);
}

#endif
