/* waiter.h - how a thread waits: for a condition, a deadline, an interrupt, or
 * work that only it may do.
 *
 *   static bool is_over(void *arg) { return __atomic_load_n(..); }
 *   switch (td_waiter_wait(&w, until, interrupt, is_over, x)) ...
 *
 * Whoever makes the condition true calls td_waiter_wake afterwards; no wake-up
 * is lost, and without anybody waiting it costs one atomic read. Several
 * threads may wait on one waiter, each with a condition of its own: a wake has
 * all of them look. A zeroed waiter is ready, owns nothing and needs no end.
 *
 * The mailbox: td_waiter_post hands a task to the threads that wait here; one
 * of them runs it, in order of arrival, before it looks at its condition. So
 * runs what needs the thread of the caller: hooks of the user, Lua. A task may
 * wait itself, on another waiter or this one.
 *
 * An interrupt is an int that becomes non-zero. It may be set by whom knows no
 * waiter, so it is looked at every 20 ms; a signal handler on the waiting
 * thread that sets it and calls td_waiter_wake_here has it seen at once.
 *
 * Time is td_clock_now's: nobody who sets the wall clock is heard. The struct
 * is plain (C++ and nvcc read it) and touched by __atomic builtins only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WAITER_H
#define TD_WAITER_H

#include "engine/base/pool.h"

TD_BEGIN

typedef struct td_waiter {
  int32_t waiting; /* atomic: threads in td_waiter_wait that may sleep */
  int32_t turn;    /* atomic: counts wakes; they sleep while it stays */
  td_task *mail;   /* atomic: posted tasks, the newest first */
} td_waiter;

/* Why a wait ended; of several reasons the first in this order. */
typedef enum td_waited {
  TD_WAITED_READY,
  TD_WAITED_INTERRUPT,
  TD_WAITED_DEADLINE
} td_waited;

/* Waits until ready(arg), *interrupt (may be NULL) is non-zero or
 * td_clock_now() >= until (INT64_MAX: never). No lock may be held that `ready`
 * or a posted task takes; `ready` is called on this thread only, often. */
td_waited td_waiter_wait(td_waiter *w, int64_t until, const int *interrupt,
                         bool (*ready)(void *arg), void *arg) TD_MUST_USE;

/* Has all who wait look again. Async-signal-safe. `w` must live until it
 * returns: whoever owns it holds it for its wakers. */
void td_waiter_wake(td_waiter *w);
/* For a signal handler: has this thread look again, if it waits. */
void td_waiter_wake_here(void);

/* Has `task` run on a thread that waits here, now or later. Its owner sees to
 * it that somebody waits, or takes it back by td_waiter_run. */
void td_waiter_post(td_waiter *w, td_task *task);
/* Runs what was posted, on this thread. False when there was nothing. */
bool td_waiter_run(td_waiter *w);

TD_END
#endif
