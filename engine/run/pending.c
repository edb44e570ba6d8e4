/* pending.c - the word of a pending kernel, and a cancel's way to all of them.
 *
 * ENTERED, RETURNED and DONE are set as it goes on; HELD while a cancel is at
 * it, which only comes before DONE. A kernel is finished once it has RETURNED
 * and is DONE and not HELD: one change of the word makes that true, and who
 * made it finishes, after a moment if somebody looks (LOOKED) who only asks
 * what it waits for.
 *
 * No list is kept, so that a kernel which is done at once takes no lock: a
 * cancel, which is rare, goes over the iterations. It misses none that waits.
 * A word is set, and RETURNED by an exchange, before the starter looks at the
 * step's flag a last time; the flag is set before the hooks run. So either the
 * cancel sees the word or the starter sees the flag, and then cancels the
 * kernel itself. What is held keeps its iteration, and the walk goes on from
 * there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/pending.h"

#include <sched.h>

#include "engine/device/kernel_start.h"

enum {
  ENTERED = TD_PENDING_ENTERED,
  RETURNED = TD_PENDING_RETURNED,
  DONE = TD_PENDING_DONE,
  HELD = TD_PENDING_HELD,
  LOOKED = TD_PENDING_LOOKED
};

bool td_pending_finishes(td_pending *k, int32_t now) {
  if ((now & (RETURNED | DONE | HELD)) != (RETURNED | DONE)) return false;
  while (TD_UNLIKELY(now & LOOKED)) {
    sched_yield();
    now = __atomic_load_n(&k->word, __ATOMIC_ACQUIRE);
  }
  return true;
}

/* Adds `flag` while it waits for its done. */
static bool mark(td_pending *k, int32_t flag) {
  int32_t now = __atomic_load_n(&k->word, __ATOMIC_SEQ_CST);
  while ((now & (ENTERED | DONE | flag)) == ENTERED)
    if (__atomic_compare_exchange_n(&k->word, &now, now | flag, true,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return true;
  return false;
}

/* ---- the word ---- */

bool td_pending_look(td_pending *k) {
  return mark(k, LOOKED);
}

void td_pending_looked(td_pending *k) {
  __atomic_and_fetch(&k->word, ~LOOKED, __ATOMIC_ACQ_REL);
}

static bool hold(td_pending *k) {
  return mark(k, HELD);
}

static bool let_go(td_pending *k) {
  return td_pending_finishes(
      k, __atomic_and_fetch(&k->word, ~HELD, __ATOMIC_ACQ_REL));
}

bool td_pending_returned(td_pending *k, const int *stop) {
  int32_t now = __atomic_or_fetch(&k->word, RETURNED, __ATOMIC_SEQ_CST);
  if (td_pending_finishes(k, now)) return true;
  if (!__atomic_load_n(stop, __ATOMIC_SEQ_CST) || !hold(k)) return false;
  td_kernel_cancel(&k->ctx);
  return let_go(k);
}

/* ---- cancelling ---- */

/* Where a cancel has come to: pending `at` of an iteration. */
typedef struct walk {
  td_execution *execution;
  td_instance *instance; /* NULL: the root */
  td_iteration *iteration;
  int32_t at;
} walk;

/* False at the end. frames_lock held. */
static bool next_iteration(walk *w) {
  w->at = 0;
  w->iteration = w->instance ? w->iteration->later : NULL;
  while (!w->iteration) {
    w->instance = w->instance ? w->instance->next : w->execution->instances;
    if (!w->instance) return false;
    w->iteration = w->instance->oldest;
  }
  return true;
}

/* The next kernel that waits, held; NULL at the end. */
static td_pending *hold_next(walk *w) {
  td_pending *found = NULL;
  const td_program *p = w->execution->program;
  pthread_spin_lock(&w->execution->frames_lock);
  do {
    while (!found && w->at < p->frame[w->iteration->frame].pendings) {
      td_pending *k = &w->iteration->pending[w->at++];
      if (hold(k)) found = k;
    }
  } while (!found && next_iteration(w));
  pthread_spin_unlock(&w->execution->frames_lock);
  return found;
}

void td_pending_cancel(td_execution *e, void (*finish)(td_pending *k)) {
  walk w = {.execution = e, .iteration = e->root};
  for (td_pending *k = hold_next(&w), *next; k; k = next) {
    td_kernel_cancel(&k->ctx);
    next = hold_next(&w); /* while `k` is held: its iteration stays */
    if (let_go(k)) finish(k);
  }
}
