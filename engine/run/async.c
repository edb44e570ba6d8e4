/* async.c - a step on the pool, or a loop of steps on threads of its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/async.h"

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/run/callable_impl.h"

struct td_async {
  int32_t refs;
  td_session_step *step; /* a single step; NULL for a loop */
  bool taken;            /* its results were handed out */
  td_callable *callable; /* a loop */
  int32_t active;        /* atomic: loop threads not over */
  int32_t stop;          /* atomic: the loop's interrupt */
  int64_t left;          /* atomic: steps still to begin; < 0: no limit */
  bool endless;
  int64_t steps; /* atomic: finished */
  pthread_mutex_t lock;
  pthread_cond_t wake; /* lock: lock. active became 0 */
  td_status *status;   /* lock: lock. Of a loop */
};

static td_status *async_new(td_async **out) {
  td_async *a = td_calloc(1, sizeof *a);
  if (!a) return td_oom();
  a->refs = 1;
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_mutex_init(&a->lock, NULL);
  pthread_cond_init(&a->wake, &attr);
  pthread_condattr_destroy(&attr);
  *out = a;
  return NULL;
}

void td_async_release(td_async *a) {
  if (!a || __atomic_fetch_sub(&a->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  td_session_step_release(a->step);
  td_callable_release(a->callable);
  td_status_release(a->status);
  pthread_mutex_destroy(&a->lock);
  pthread_cond_destroy(&a->wake);
  td_free(a);
}

td_status *td_async_start(td_callable *c, const td_tensor *feeds,
                          const td_step_options *options, td_async **out) {
  td_async *a;
  static const td_tensor none;
  TD_TRY(async_new(&a));
  td_status *st = td_session_step_new(c->session, c->compiled,
                                      feeds ? feeds : &none, options, &a->step);
  if (!td_ok(st)) {
    td_async_release(a);
    return st;
  }
  td_session_step_start(a->step, true);
  *out = a;
  return NULL;
}

static bool loop_again(td_async *a) {
  if (td_cancelled(&a->stop)) return false;
  return a->endless || __atomic_fetch_sub(&a->left, 1, __ATOMIC_ACQ_REL) > 0;
}

static void *loop_thread(void *arg) {
  td_async *a = arg;
  td_step_options o = {.interrupt = &a->stop};
  td_status *st = NULL;
  while (td_ok(st) && loop_again(a)) {
    st = td_callable_run(a->callable, NULL, NULL, &o);
    if (td_ok(st)) __atomic_fetch_add(&a->steps, 1, __ATOMIC_RELAXED);
  }
  bool end = td_status_code(st) == TD_OUT_OF_RANGE ||
             (td_status_code(st) == TD_CANCELLED && td_cancelled(&a->stop));
  if (!td_ok(st)) __atomic_store_n(&a->stop, 1, __ATOMIC_RELEASE);
  pthread_mutex_lock(&a->lock);
  if (end)
    td_status_release(st);
  else
    a->status = td_status_first(a->status, st);
  if (__atomic_sub_fetch(&a->active, 1, __ATOMIC_ACQ_REL) == 0)
    pthread_cond_broadcast(&a->wake);
  pthread_mutex_unlock(&a->lock);
  td_async_release(a);
  return NULL;
}

td_status *td_async_loop(td_callable *c, int threads, int64_t steps,
                         td_async **out) {
  if (c->compiled->n_feeds > 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "a loop takes no feeds; this signature has %d",
                    c->compiled->n_feeds);
  if (threads < 1 || threads > 256)
    return td_error(TD_INVALID_ARGUMENT, "a loop has 1 to 256 threads, not %d",
                    threads);
  td_async *a;
  TD_TRY(async_new(&a));
  a->callable = td_callable_retain(c);
  a->endless = steps < 0;
  a->left = steps;
  a->active = threads;
  td_status *st = NULL;
  for (int i = 0; i < threads; i++) {
    pthread_t t;
    __atomic_fetch_add(&a->refs, 1, __ATOMIC_RELAXED);
    if (td_ok(st) && pthread_create(&t, NULL, loop_thread, a) == 0) {
      pthread_detach(t);
      continue;
    }
    if (td_ok(st)) {
      st = td_error(TD_RESOURCE_EXHAUSTED, "cannot start thread %d", i + 1);
      __atomic_store_n(&a->stop, 1, __ATOMIC_RELEASE);
    }
    __atomic_fetch_sub(&a->active, 1, __ATOMIC_ACQ_REL);
    td_async_release(a);
  }
  if (td_ok(st)) {
    *out = a;
    return NULL;
  }
  td_status *ignored = td_async_wait(a, -1, NULL, NULL);
  td_status_release(ignored);
  td_async_release(a);
  return st;
}

bool td_async_done(td_async *a) {
  if (a->step) return td_session_step_over(a->step);
  return __atomic_load_n(&a->active, __ATOMIC_ACQUIRE) == 0;
}

int64_t td_async_steps(td_async *a) {
  if (a->step) return td_session_step_over(a->step);
  return __atomic_load_n(&a->steps, __ATOMIC_RELAXED);
}

void td_async_cancel(td_async *a) {
  td_status *why = td_error(TD_CANCELLED, "cancelled");
  if (a->step) {
    td_session_step_cancel(a->step, why);
    return;
  }
  pthread_mutex_lock(&a->lock);
  if (a->active > 0)
    a->status = td_status_first(a->status, why);
  else
    td_status_release(why);
  pthread_mutex_unlock(&a->lock);
  __atomic_store_n(&a->stop, 1, __ATOMIC_RELEASE);
}

/* Waits for the threads of a loop, 20 ms at a time. */
static td_status *wait_loop(td_async *a, int64_t until, const int *interrupt) {
  td_status *st = NULL;
  pthread_mutex_lock(&a->lock);
  while (td_ok(st) && a->active > 0) {
    int64_t now = td_clock_now(), wake = now + 20000000;
    if (now >= until)
      st = td_error(TD_DEADLINE_EXCEEDED, "the loop is still running");
    else if (interrupt && td_cancelled(interrupt))
      st = td_error(TD_CANCELLED, "interrupted");
    if (!td_ok(st)) break;
    if (wake > until) wake = until;
    struct timespec at = {.tv_sec = wake / 1000000000,
                          .tv_nsec = wake % 1000000000};
    pthread_cond_timedwait(&a->wake, &a->lock, &at);
  }
  if (td_ok(st)) st = td_status_retain(a->status);
  pthread_mutex_unlock(&a->lock);
  return st;
}

td_status *td_async_wait(td_async *a, int64_t timeout, td_tensor *fetches,
                         const int *interrupt) {
  int64_t until = timeout < 0 ? INT64_MAX : td_clock_now() + timeout;
  if (!a->step) return wait_loop(a, until, interrupt);
  TD_TRY(td_session_step_wait(a->step, until, interrupt, false));
  pthread_mutex_lock(&a->lock);
  bool taken = a->taken;
  a->taken = true;
  pthread_mutex_unlock(&a->lock);
  if (!taken) return td_session_step_results(a->step, fetches);
  for (int i = 0; fetches && i < a->step->compiled->n_fetches; i++)
    fetches[i] = (td_tensor){0};
  return td_status_retain(a->step->status);
}
