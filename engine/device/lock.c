/* lock.c - shared or exclusive, first come first served.
 *
 * `state` is what the fast paths see: EXCLUSIVE, or the number of shared
 * holders, and WAITERS while anybody is queued. As long as WAITERS is set
 * nobody takes the lock past the queue, so a writer among many readers gets its
 * turn, and only the holder of `guard` grants. A release that leaves waiters
 * behind and nobody inside hands over; what it hands to may run, and end, at
 * once, so tasks are submitted last and the lock is not looked at again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/lock.h"

#include <sched.h>

enum { WAITERS = 1, EXCLUSIVE = 2, SHARED = 4, HOLDERS = ~WAITERS };

static int32_t load(td_lock *l) {
  return __atomic_load_n(&l->state, __ATOMIC_RELAXED);
}

static bool change(td_lock *l, int32_t *from, int32_t to) {
  return __atomic_compare_exchange_n(&l->state, from, to, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* ---- the guard ----------------------------------------------------------- */

static void enter(td_lock *l) {
  for (unsigned spins = 1; __atomic_exchange_n(&l->guard, 1, __ATOMIC_ACQUIRE);
       spins++) {
    if (spins % 64)
      __builtin_ia32_pause();
    else
      sched_yield(); /* its holder may have lost the processor */
  }
}

static void leave(td_lock *l) {
  __atomic_store_n(&l->guard, 0, __ATOMIC_RELEASE);
}

/* ---- the queue, under the guard ------------------------------------------ */

static void append(td_lock *l, td_lock_waiter *w) {
  w->next = NULL;
  *(l->last ? &l->last->next : &l->first) = w;
  l->last = w;
}

static bool unlink_waiter(td_lock *l, td_lock_waiter *w) {
  td_lock_waiter *before = NULL;
  for (td_lock_waiter *at = l->first; at; before = at, at = at->next) {
    if (at != w) continue;
    *(before ? &before->next : &l->first) = w->next;
    if (l->last == w) l->last = before;
    return true;
  }
  return false;
}

/* With WAITERS set, others can only let go meanwhile: what is compatible now
 * stays so. */
static bool may_enter(td_lock *l, bool exclusive) {
  int32_t s = load(l);
  return exclusive ? (s & HOLDERS) == 0 : (s & EXCLUSIVE) == 0;
}

/* Takes from the queue whoever holds the lock from now on: a list by `next`. */
static td_lock_waiter *grant(td_lock *l) {
  td_lock_waiter *granted = NULL, **end = &granted;
  while (l->first && may_enter(l, l->first->exclusive)) {
    td_lock_waiter *w = l->first;
    l->first = w->next;
    if (!l->first) l->last = NULL;
    __atomic_fetch_add(&l->state, w->exclusive ? EXCLUSIVE : SHARED,
                       __ATOMIC_ACQUIRE);
    w->next = NULL;
    *end = w;
    end = &w->next;
  }
  if (!l->first) __atomic_fetch_and(&l->state, ~WAITERS, __ATOMIC_RELAXED);
  return granted;
}

/* Was `w` granted too? Its owner, who is here, goes on by itself. */
static bool take_out(td_lock_waiter **granted, td_lock_waiter *w) {
  while (*granted && *granted != w) granted = &(*granted)->next;
  if (!*granted) return false;
  *granted = w->next;
  return true;
}

static void run(td_lock_waiter *granted) {
  for (td_lock_waiter *w = granted, *next; w; w = next) {
    next = w->next;
    td_pool_submit(&w->task);
  }
}

/* ---- the interface ------------------------------------------------------- */

bool td_lock_try(td_lock *l, bool exclusive) {
  int32_t s = load(l);
  if (exclusive) {
    s = 0;
    return change(l, &s, EXCLUSIVE);
  }
  while (!(s & (WAITERS | EXCLUSIVE)))
    if (change(l, &s, s + SHARED)) return true;
  return false;
}

bool td_lock_acquire(td_lock *l, bool exclusive, td_lock_waiter *w) {
  if (TD_LIKELY(td_lock_try(l, exclusive))) return true;
  w->exclusive = exclusive;
  enter(l);
  __atomic_fetch_or(&l->state, WAITERS, __ATOMIC_ACQUIRE);
  append(l, w);
  td_lock_waiter *granted = grant(l); /* it may have become free meanwhile */
  leave(l);
  bool held = take_out(&granted, w);
  run(granted);
  return held;
}

void td_lock_release(td_lock *l, bool exclusive) {
  int32_t less = exclusive ? EXCLUSIVE : SHARED;
  if (TD_LIKELY(__atomic_sub_fetch(&l->state, less, __ATOMIC_ACQ_REL) !=
                WAITERS))
    return;
  enter(l);
  td_lock_waiter *granted = grant(l);
  leave(l);
  run(granted);
}

bool td_lock_forget(td_lock *l, td_lock_waiter *w) {
  enter(l);
  bool found = unlink_waiter(l, w);
  td_lock_waiter *granted = found ? grant(l) : NULL;
  leave(l);
  run(granted);
  return found;
}
