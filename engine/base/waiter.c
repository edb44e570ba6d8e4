/* waiter.c - announce, look, sleep.
 *
 * Who waits counts itself in `waiting`, reads `turn`, and only then looks; who
 * wakes changes the condition first and then reads `waiting`. Both touch
 * `waiting` by read-modify-writes, which are in one order: either the waker
 * comes second and sees somebody, moves `turn` and so ends or prevents the
 * sleep; or it comes first, and who waits sees what it wrote before. A signal
 * handler moves the turn in the same way, between any two instructions of the
 * thread it interrupts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/waiter.h"

#include "engine/base/clock.h"
#include "engine/base/park.h"

enum { LISTEN_EVERY = 20000000 }; /* ns: between looks at an interrupt */

/* The innermost waiter on which this thread may sleep. */
static TD_THREAD_LOCAL td_waiter *here;

/* ---- waking -------------------------------------------------------------- */

void td_waiter_wake(td_waiter *w) {
  if (__atomic_fetch_add(&w->waiting, 0, __ATOMIC_ACQ_REL) == 0) return;
  __atomic_fetch_add(&w->turn, 1, __ATOMIC_ACQ_REL);
  td_unpark(&w->turn);
}

/* Our own sleep ends by the signal; what begins later compares the turn. */
void td_waiter_wake_here(void) {
  td_waiter *w = here;
  if (w) __atomic_fetch_add(&w->turn, 1, __ATOMIC_ACQ_REL);
}

/* ---- the mailbox --------------------------------------------------------- */

void td_waiter_post(td_waiter *w, td_task *task) {
  task->next = __atomic_load_n(&w->mail, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&w->mail, &task->next, task, true,
                                      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
  }
  td_waiter_wake(w);
}

bool td_waiter_run(td_waiter *w) {
  if (TD_LIKELY(!__atomic_load_n(&w->mail, __ATOMIC_RELAXED))) return false;
  td_task *newest = __atomic_exchange_n(&w->mail, NULL, __ATOMIC_ACQ_REL);
  td_task *first = NULL, *next;
  for (td_task *t = newest; t; t = next) {
    next = t->next;
    t->next = first;
    first = t;
  }
  for (td_task *t = first; t; t = next) {
    next = t->next; /* `run` may free the task */
    t->run(t);
  }
  return first != NULL;
}

/* ---- waiting ------------------------------------------------------------- */

typedef struct wait {
  td_waiter *on;
  int64_t until;
  const int *interrupt;
  bool (*ready)(void *arg);
  void *arg;
} wait;

/* True when the wait is over, and why; else *wake is when to look again. */
static bool look(const wait *w, td_waited *why, int64_t *wake) {
  while (td_waiter_run(w->on)) {
  }
  *why = TD_WAITED_READY;
  if (w->ready(w->arg)) return true;
  *why = TD_WAITED_INTERRUPT;
  if (w->interrupt && __atomic_load_n(w->interrupt, __ATOMIC_ACQUIRE))
    return true;
  *why = TD_WAITED_DEADLINE;
  *wake = w->until;
  if (*wake == INT64_MAX && !w->interrupt) return false;
  int64_t now = td_clock_now();
  if (w->interrupt && *wake - LISTEN_EVERY > now) *wake = now + LISTEN_EVERY;
  return now >= w->until;
}

static td_waited sleep_and_look(const wait *w) {
  td_waited why;
  int64_t wake;
  td_waiter *outer = here;
  here = w->on;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  __atomic_fetch_add(&w->on->waiting, 1, __ATOMIC_ACQ_REL);
  for (;;) {
    int32_t turn = __atomic_load_n(&w->on->turn, __ATOMIC_ACQUIRE);
    if (look(w, &why, &wake)) break;
    td_park(&w->on->turn, turn, wake);
  }
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  here = outer;
  __atomic_fetch_sub(&w->on->waiting, 1, __ATOMIC_ACQ_REL);
  return why;
}

td_waited td_waiter_wait(td_waiter *w, int64_t until, const int *interrupt,
                         bool (*ready)(void *arg), void *arg) {
  wait all = {w, until, interrupt, ready, arg};
  td_waited why;
  int64_t wake;
  return look(&all, &why, &wake) ? why : sleep_and_look(&all);
}
