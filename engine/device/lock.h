/* lock.h - a shared/exclusive lock that parks work, never threads.
 *
 * Uncontended it is one compare-and-swap. Contended, the waiter's continuation
 * is queued and resumed, in order of arrival, on a pool thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LOCK_H
#define TD_LOCK_H

#include "engine/base/base.h"
#include "engine/base/pool.h"

TD_BEGIN

typedef struct td_lock {
  int32_t state;           /* atomic: who holds it, and whether any waits */
  int32_t guard;           /* atomic: a spin lock for the queue */
  struct td_lock_waiter *first, *last; /* lock: guard */
} td_lock;

typedef struct td_lock_waiter {
  td_task task;            /* resumes the work: set task.run before acquiring */
  struct td_lock_waiter *next;
  bool exclusive;
} td_lock_waiter;

/* True: held now. False: queued; w->task runs on the pool once it is held. */
bool td_lock_acquire(td_lock *l, bool exclusive, td_lock_waiter *w);
bool td_lock_try(td_lock *l, bool exclusive);
void td_lock_release(td_lock *l, bool exclusive);
/* Takes a queued waiter out; false when it is no longer queued (it has, or is
 * about to get, the lock). */
bool td_lock_forget(td_lock *l, td_lock_waiter *w);

TD_END
#endif
