/* pending.h - asynchronous kernels between their start and their `done`.
 *
 * Three may be at a pending kernel at once: who started it, who calls `done`,
 * and a cancel. The last of them to let go *finishes* it: hands its outputs on.
 * Each function here says whether that is now the caller's to do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PENDING_H
#define TD_PENDING_H

#include "engine/run/execution.h"

/* The word; see pending.c. */
enum {
  TD_PENDING_ENTERED = 1,
  TD_PENDING_RETURNED = 2,
  TD_PENDING_DONE = 4,
  TD_PENDING_HELD = 8,
  TD_PENDING_LOOKED = 16
};

/* `k`, filled in, is about to be started: from now on a cancel finds it. */
static inline void td_pending_enter(td_pending *k) {
  __atomic_store_n(&k->word, TD_PENDING_ENTERED, __ATOMIC_RELEASE);
}
/* Has `done` been called inside start, and is nobody else at it? Then the
 * starter finishes it; else it takes a hold for who will, and has returned. */
static inline bool td_pending_at_once(const td_pending *k) {
  return __atomic_load_n(&k->word, __ATOMIC_ACQUIRE) ==
         (TD_PENDING_ENTERED | TD_PENDING_DONE);
}
bool td_pending_returned(td_pending *k, const int *stop) TD_MUST_USE;
/* Does the change to `now` finish it? pending.c's. */
bool td_pending_finishes(td_pending *k, int32_t now);
/* `done` brings `s`. */
static inline bool td_pending_done(td_pending *k, td_status *s) {
  k->status = s;
  int32_t now = __atomic_add_fetch(&k->word, TD_PENDING_DONE, __ATOMIC_ACQ_REL);
  return (now & TD_PENDING_RETURNED) && td_pending_finishes(k, now);
}
/* It is being finished: another start of the same node may follow. */
static inline void td_pending_leave(td_pending *k) {
  __atomic_store_n(&k->word, 0, __ATOMIC_RELEASE);
}
/* If it waits for its `done`, keeps it as it is: nobody finishes it until the
 * caller, who is quick, has looked. */
bool td_pending_look(td_pending *k);
void td_pending_looked(td_pending *k);

/* Cancels every kernel that waits. The caller holds `e`. */
void td_pending_cancel(td_execution *e, void (*finish)(td_pending *k));

#endif
