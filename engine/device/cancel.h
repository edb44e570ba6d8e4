/* cancel.h - how a step is told to stop.
 *
 * Fired once, with the first cause. Whoever waits adds a hook; long kernels
 * look at the flag between pieces. Hooks run on the firing thread, outside the
 * lock, and must only wake or enqueue.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CANCEL_H
#define TD_CANCEL_H

#include "engine/base/status.h"

TD_BEGIN

typedef struct td_cancel td_cancel;
typedef struct td_cancel_hook {
  void (*fire)(void *arg);
  void *arg;
  struct td_cancel_hook *prev, *next; /* the cancel's */
  bool added;                         /* the cancel's */
} td_cancel_hook;

td_status *td_cancel_new(td_cancel **out) TD_MUST_USE;
void td_cancel_release(td_cancel *c);
/* Takes ownership of `cause` (NULL: CANCELLED). Later ones are dropped, unless
 * the first was derived and this one is not. */
void td_cancel_fire(td_cancel *c, td_status *cause);
const int *td_cancel_flag(const td_cancel *c); /* non-zero once fired */
static inline bool td_cancelled(const int *flag) {
  return __atomic_load_n(flag, __ATOMIC_RELAXED) != 0;
}
/* The cause, retained for the caller; NULL while not fired. */
td_status *td_cancel_cause(td_cancel *c);
/* False (and not added) when already fired. */
bool td_cancel_add(td_cancel *c, td_cancel_hook *h);
/* After it returns the hook is not running and will not run. */
void td_cancel_remove(td_cancel *c, td_cancel_hook *h);

TD_END
#endif
