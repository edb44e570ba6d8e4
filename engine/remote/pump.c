/* pump.c - who listens: a thread of its own, or whoever waits.
 *
 * A message that wakes a thread which wakes another takes twice as long. So who
 * waits for an answer listens itself, and the thread sleeps for a while that
 * every such call extends: it looks after what nobody waits for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "engine/remote/remote_impl.h"

#define SLICE INT64_C(20000000) /* ns: an interrupt is heard by then */
#define LINGER                                                                 \
  INT64_C(5000000) /* ns after a caller before the thread listens */

/* Who is told by what another thread heard may be listening: it is woken. This
 * thread, when it is the one, looks by itself. */
static _Thread_local const td_remote *pumping;

static bool is_another_listening(td_remote *r) {
  return pumping != r &&
         __atomic_fetch_add(&r->callers, 0, __ATOMIC_SEQ_CST) > 0;
}

void td_remote_news(td_remote *r) {
  td_waiter_wake(&r->news);
  if (r->channel && is_another_listening(r)) r->channel->ops->wake(r->channel);
}

void td_remote_news_after(td_remote *r) {
  if (!is_another_listening(r)) {
    td_waiter_wake(&r->news);
    return;
  }
  pthread_mutex_lock(&r->turn); /* the channel stays meanwhile */
  td_remote_news(r);
  pthread_mutex_unlock(&r->turn);
}

/* One listens at a time; who comes has the other leave. */
static void listen(td_remote *r, int64_t until) {
  int64_t tick = td_clock_now() + TD_HEALTH_TICK;
  if (pthread_mutex_trylock(&r->ear) != 0) {
    r->channel->ops->wake(r->channel);
    pthread_mutex_lock(&r->ear);
  }
  r->channel->ops->wait(r->channel, until < tick ? until : tick);
  pthread_mutex_unlock(&r->ear);
}

static void pump(td_remote *r, int64_t until) {
  listen(r, until);
  td_remote_turn(r);
}

/* ---- the thread ---------------------------------------------------------- */

static bool is_needed(void *arg) {
  td_remote *r = arg;
  return __atomic_load_n(&r->stop, __ATOMIC_ACQUIRE) != 0;
}

/* Somebody who waits listens, or did just now. */
static bool is_served(td_remote *r) {
  return __atomic_load_n(&r->callers, __ATOMIC_ACQUIRE) > 0 ||
         td_clock_now() - __atomic_load_n(&r->pumped, __ATOMIC_ACQUIRE) <
             LINGER;
}

static void rest(td_remote *r) {
  td_waiter idle = {0};
  td_waited why =
      td_waiter_wait(&idle, td_clock_now() + LINGER, NULL, is_needed, r);
  (void)why;
}

static void *serve(void *arg) {
  td_remote *r = arg;
  while (!is_needed(r)) {
    if (is_served(r))
      rest(r);
    else
      pump(r, INT64_MAX);
  }
  return NULL;
}

td_status *td_pump_start(td_remote *r) {
  r->has_thread = td_thread_start(&r->thread, "tide-remote", -1, serve, r);
  return r->has_thread
             ? NULL
             : td_error(TD_RESOURCE_EXHAUSTED, "no thread to listen with");
}

void td_pump_stop(td_remote *r) {
  if (!r->has_thread) return;
  __atomic_store_n(&r->stop, 1, __ATOMIC_RELEASE);
  r->channel->ops->wake(r->channel);
  if (pthread_equal(pthread_self(), r->thread))
    pthread_detach(r->thread);
  else
    pthread_join(r->thread, NULL);
  r->has_thread = false;
}

/* ---- who waits ----------------------------------------------------------- */

/* One at a time listens; the others are woken by what it hears. */
static bool take(td_remote *r) {
  int32_t none = 0;
  return __atomic_compare_exchange_n(&r->callers, &none, 1, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void give(td_remote *r) {
  __atomic_store_n(&r->pumped, td_clock_now(), __ATOMIC_RELEASE);
  __atomic_store_n(&r->callers, 0, __ATOMIC_RELEASE);
  td_waiter_wake(&r->news);
}

static bool is_over(int64_t until, const int *interrupt) {
  return (interrupt && __atomic_load_n(interrupt, __ATOMIC_RELAXED)) ||
         td_clock_now() >= until;
}

/* Somebody who has a share may wait on after the end. */
static void pump_or_rest(td_remote *r, int64_t until) {
  td_remote_enter(r);
  bool closed = r->closed;
  td_remote_leave(r);
  pumping = r;
  if (closed)
    rest(r);
  else
    pump(r, until);
  pumping = NULL;
}

bool td_pump_until(td_remote *r, int64_t until, const int *interrupt,
                   bool (*ready)(void *arg), void *arg) {
  while (!ready(arg)) {
    if (is_over(until, interrupt)) return false;
    int64_t slice = td_clock_now() + SLICE;
    if (slice > until) slice = until;
    if (take(r)) {
      td_remote_turn(r); /* what came before it was this one's to hear */
      if (!ready(arg)) pump_or_rest(r, slice);
      give(r);
    } else if (td_waiter_wait(&r->news, slice, interrupt, ready, arg) ==
               TD_WAITED_READY) {
      return true;
    }
  }
  return true;
}
