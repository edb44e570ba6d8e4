/* pump.c - who listens: a thread of its own, or whoever waits.
 *
 * A message that wakes a thread which wakes another takes twice as long. So who
 * waits for an answer listens itself, and the thread sleeps for a while that
 * every such call extends: it looks after what nobody waits for. Who has heard
 * something that makes nodes ready runs them, too, as far as they are known to
 * be short.
 *
 * A node may take longer than the last time. Who is away for long has somebody
 * else listen meanwhile, so that the process is not taken for dead: a caller
 * the thread, the thread a deputy, which is there once the thread runs nodes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "engine/remote/remote_impl.h"
#include "engine/run/team.h"

enum { ERRAND = 200000 };         /* ns: what it runs itself */
#define ABSENT INT64_C(100000000) /* ns until another listens */
#define SLICE INT64_C(20000000)   /* ns: an interrupt is heard by then */
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

/* What has come is heard, and what can be run of it is, if this thread may. */
static void hear(td_remote *r, bool (*may_run)(td_remote *r)) {
  bool gathers = td_team_gather();
  const td_remote *was = td_remote_hear(r);
  __atomic_store_n(&r->away, td_clock_now(), __ATOMIC_RELEASE);
  td_remote_turn(r);
  if (gathers)
    td_team_gathered(td_team_has_gathered() && may_run(r) ? ERRAND : 0);
  td_remote_send_off(r);
  __atomic_store_n(&r->away, 0, __ATOMIC_RELEASE);
  td_remote_hear(was);
}

static bool is_away(td_remote *r) {
  int64_t since = __atomic_load_n(&r->away, __ATOMIC_ACQUIRE);
  return since && td_clock_now() - since > ABSENT;
}

/* ---- the thread ---------------------------------------------------------- */

static bool is_needed(void *arg) {
  td_remote *r = arg;
  return __atomic_load_n(&r->stop, __ATOMIC_ACQUIRE) != 0;
}

/* Somebody who waits listens, or did just now. */
static bool is_served(td_remote *r) {
  if (__atomic_load_n(&r->callers, __ATOMIC_ACQUIRE) > 0) return !is_away(r);
  return td_clock_now() - __atomic_load_n(&r->pumped, __ATOMIC_ACQUIRE) <
         LINGER;
}

static void rest(td_remote *r) {
  td_waiter idle = {0};
  td_waited why =
      td_waiter_wait(&idle, td_clock_now() + LINGER, NULL, is_needed, r);
  (void)why;
}

/* For another that is away. */
static void stand_in(td_remote *r) {
  listen(r, td_clock_now() + ABSENT);
  td_remote_turn(r);
}

static bool has_errands(void *arg) {
  td_remote *r = arg;
  return is_needed(r) || !__atomic_load_n(&r->parked, __ATOMIC_SEQ_CST);
}

static void *stand_by(void *arg) {
  td_remote *r = arg;
  int64_t seen = 0;
  while (!is_needed(r)) {
    int64_t now = __atomic_load_n(&r->errands, __ATOMIC_SEQ_CST);
    bool parks = now == seen && !__atomic_load_n(&r->away, __ATOMIC_ACQUIRE);
    seen = now;
    if (is_away(r)) {
      stand_in(r);
      continue;
    }
    if (parks) __atomic_store_n(&r->parked, 1, __ATOMIC_SEQ_CST);
    td_waited why =
        td_waiter_wait(&r->rest, parks ? INT64_MAX : td_clock_now() + ABSENT,
                       NULL, parks ? has_errands : is_needed, r);
    (void)why;
  }
  return NULL;
}

/* Who runs nodes on the thread needs one. False: there is none. */
static bool has_deputy(td_remote *r) {
  if (!r->has_deputy)
    r->has_deputy = td_thread_start(&r->deputy, "tide-deputy", -1, stand_by, r);
  if (!r->has_deputy) return false;
  __atomic_add_fetch(&r->errands, 1, __ATOMIC_SEQ_CST);
  if (__atomic_exchange_n(&r->parked, 0, __ATOMIC_SEQ_CST))
    td_waiter_wake(&r->rest);
  return true;
}

/* Somebody who waits does all of it; the thread only while they are away. */
static void *serve(void *arg) {
  td_remote *r = arg;
  while (!is_needed(r)) {
    if (is_served(r)) {
      rest(r);
    } else if (__atomic_load_n(&r->callers, __ATOMIC_ACQUIRE) > 0) {
      stand_in(r);
    } else {
      listen(r, INT64_MAX);
      hear(r, has_deputy);
    }
  }
  return NULL;
}

td_status *td_pump_start(td_remote *r) {
  r->has_thread = td_thread_start(&r->thread, "tide-remote", -1, serve, r);
  return r->has_thread
             ? NULL
             : td_error(TD_RESOURCE_EXHAUSTED, "no thread to listen with");
}

static void end_thread(pthread_t t) {
  if (pthread_equal(pthread_self(), t))
    pthread_detach(t);
  else
    pthread_join(t, NULL);
}

void td_pump_stop(td_remote *r) {
  if (!r->has_thread) return;
  __atomic_store_n(&r->stop, 1, __ATOMIC_RELEASE);
  r->channel->ops->wake(r->channel);
  end_thread(r->thread);
  td_waiter_wake(&r->rest);
  if (r->has_deputy) end_thread(r->deputy);
  __atomic_store_n(&r->has_thread, false, __ATOMIC_RELAXED);
  r->has_deputy = false;
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

static bool has_thread(td_remote *r) {
  return __atomic_load_n(&r->has_thread, __ATOMIC_RELAXED);
}

/* Somebody who has a share may wait on after the end. */
static void pump_or_rest(td_remote *r, int64_t until) {
  if (__atomic_load_n(&r->closed, __ATOMIC_ACQUIRE)) {
    rest(r);
  } else {
    listen(r, until);
    hear(r, has_thread);
  }
}

/* What came before it was this one's to hear is heard first. */
static void pump(td_remote *r, int64_t until, const int *interrupt,
                 bool (*ready)(void *arg), void *arg) {
  const td_remote *was = pumping;
  pumping = r;
  hear(r, has_thread);
  while (!ready(arg) && !is_over(until, interrupt)) pump_or_rest(r, until);
  pumping = was;
}

bool td_pump_until(td_remote *r, int64_t until, const int *interrupt,
                   bool (*ready)(void *arg), void *arg) {
  while (!ready(arg)) {
    if (is_over(until, interrupt)) return false;
    int64_t slice = td_clock_now() + SLICE;
    if (slice > until) slice = until;
    if (take(r)) {
      pump(r, slice, interrupt, ready, arg);
      give(r);
    } else if (td_waiter_wait(&r->news, slice, interrupt, ready, arg) ==
               TD_WAITED_READY) {
      return true;
    }
  }
  return true;
}
