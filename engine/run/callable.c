/* callable.c - running a compiled signature: now, later, in a loop.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/run/session_impl.h"

struct td_callable {
  int32_t refs;
  td_session *session;
  td_compiled *compiled;
};

/* ---- one step, waited for ---- */

static td_status *run_compiled(td_session *s, td_compiled *c,
                               const td_tensor *feeds, td_tensor *fetches,
                               const td_run_options *o) {
  for (int i = 0; fetches && i < c->n_fetches; i++) fetches[i] = (td_tensor){0};
  static const td_tensor none;
  td_exec *e;
  TD_TRY(td_exec_new(s, c, feeds ? feeds : &none, o, &e));
  int64_t start = td_clock_now();
  int64_t until = o && o->timeout > 0 ? start + o->timeout : INT64_MAX;
  td_exec_start(e, false);
  if (td_exec_short(e))
    td_team_work(e->team, start + TD_CALLER_BUDGET);
  else
    td_team_wake(e->team);
  td_status *st = td_exec_wait(e, until, o ? o->interrupt : NULL, true);
  if (td_ok(st)) st = td_exec_results(e, fetches);
  td_exec_release(e);
  return st;
}

td_status *td_session_run(td_session *s, const td_signature *sig,
                          const td_tensor *feeds, td_tensor *fetches,
                          const td_run_options *options) {
  td_compiled *c;
  for (int i = 0; fetches && i < sig->n_fetches; i++)
    fetches[i] = (td_tensor){0};
  TD_TRY(td_session_lookup(s, sig, &c));
  td_status *st = run_compiled(s, c, feeds, fetches, options);
  td_compiled_release(c);
  return st;
}

td_status *td_callable_new(td_session *s, const td_signature *sig,
                           td_callable **out) {
  td_callable *c = td_alloc_zero(1, sizeof *c);
  if (!c) return td_oom();
  c->refs = 1;
  td_status *st = td_session_lookup(s, sig, &c->compiled);
  if (!td_ok(st)) {
    td_free(c);
    return st;
  }
  c->session = td_session_retain(s);
  *out = c;
  return NULL;
}

td_callable *td_callable_retain(td_callable *c) {
  __atomic_fetch_add(&c->refs, 1, __ATOMIC_RELAXED);
  return c;
}

void td_callable_release(td_callable *c) {
  if (!c || __atomic_fetch_sub(&c->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  td_compiled_release(c->compiled);
  td_session_release(c->session);
  td_free(c);
}

void td_callable_arity(const td_callable *c, int *feeds, int *fetches) {
  *feeds = c->compiled->n_feeds;
  *fetches = c->compiled->n_fetches;
}

td_status *td_callable_run(td_callable *c, const td_tensor *feeds,
                           td_tensor *fetches, const td_run_options *options) {
  return run_compiled(c->session, c->compiled, feeds, fetches, options);
}

/* ---- handles: a step, or a loop of steps, that goes on by itself ---- */

struct td_handle {
  int32_t refs;
  td_exec *exec;         /* a single step; NULL for a loop */
  bool taken;            /* its results were handed out */
  td_callable *callable; /* a loop */
  int threads;
  int32_t active; /* atomic: loop threads not over */
  int32_t stop;   /* atomic: the loop's interrupt */
  int64_t left;   /* atomic: steps still to begin; < 0: no limit */
  bool endless;
  int64_t steps; /* atomic: finished */
  pthread_mutex_t lock;
  pthread_cond_t wake; /* lock: lock. active became 0 */
  td_status *status;   /* lock: lock. Of a loop */
};

static td_status *handle_new(td_handle **out) {
  td_handle *h = td_alloc_zero(1, sizeof *h);
  if (!h) return td_oom();
  h->refs = 1;
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_mutex_init(&h->lock, NULL);
  pthread_cond_init(&h->wake, &attr);
  pthread_condattr_destroy(&attr);
  *out = h;
  return NULL;
}

void td_handle_release(td_handle *h) {
  if (!h || __atomic_fetch_sub(&h->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  td_exec_release(h->exec);
  td_callable_release(h->callable);
  td_status_release(h->status);
  pthread_mutex_destroy(&h->lock);
  pthread_cond_destroy(&h->wake);
  td_free(h);
}

td_status *td_callable_start(td_callable *c, const td_tensor *feeds,
                             const td_run_options *options, td_handle **out) {
  td_handle *h;
  static const td_tensor none;
  TD_TRY(handle_new(&h));
  td_status *st = td_exec_new(c->session, c->compiled, feeds ? feeds : &none,
                              options, &h->exec);
  if (!td_ok(st)) {
    td_handle_release(h);
    return st;
  }
  td_exec_start(h->exec, true);
  *out = h;
  return NULL;
}

static bool loop_again(td_handle *h) {
  if (td_cancelled(&h->stop)) return false;
  return h->endless || __atomic_fetch_sub(&h->left, 1, __ATOMIC_ACQ_REL) > 0;
}

static void *loop_thread(void *arg) {
  td_handle *h = arg;
  td_run_options o = {.interrupt = &h->stop};
  td_status *st = NULL;
  while (td_ok(st) && loop_again(h)) {
    st = td_callable_run(h->callable, NULL, NULL, &o);
    if (td_ok(st)) __atomic_fetch_add(&h->steps, 1, __ATOMIC_RELAXED);
  }
  bool end = td_status_code(st) == TD_OUT_OF_RANGE ||
             (td_status_code(st) == TD_CANCELLED && td_cancelled(&h->stop));
  if (!td_ok(st)) __atomic_store_n(&h->stop, 1, __ATOMIC_RELEASE);
  pthread_mutex_lock(&h->lock);
  if (end)
    td_status_release(st);
  else
    h->status = td_status_first(h->status, st);
  if (__atomic_sub_fetch(&h->active, 1, __ATOMIC_ACQ_REL) == 0)
    pthread_cond_broadcast(&h->wake);
  pthread_mutex_unlock(&h->lock);
  td_handle_release(h);
  return NULL;
}

td_status *td_callable_loop(td_callable *c, int threads, int64_t steps,
                            td_handle **out) {
  if (c->compiled->n_feeds > 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "a loop takes no feeds; this signature has %d",
                    c->compiled->n_feeds);
  if (threads < 1 || threads > 256)
    return td_error(TD_INVALID_ARGUMENT, "a loop has 1 to 256 threads, not %d",
                    threads);
  td_handle *h;
  TD_TRY(handle_new(&h));
  h->callable = td_callable_retain(c);
  h->endless = steps < 0;
  h->left = steps;
  h->active = threads;
  td_status *st = NULL;
  for (int i = 0; i < threads; i++) {
    pthread_t t;
    __atomic_fetch_add(&h->refs, 1, __ATOMIC_RELAXED);
    if (td_ok(st) && pthread_create(&t, NULL, loop_thread, h) == 0) {
      pthread_detach(t);
      continue;
    }
    if (td_ok(st)) {
      st = td_error(TD_RESOURCE_EXHAUSTED, "cannot start thread %d", i + 1);
      __atomic_store_n(&h->stop, 1, __ATOMIC_RELEASE);
    }
    __atomic_fetch_sub(&h->active, 1, __ATOMIC_ACQ_REL);
    td_handle_release(h);
  }
  if (td_ok(st)) {
    *out = h;
    return NULL;
  }
  td_status *ignored = td_handle_wait(h, -1, NULL, NULL);
  td_status_release(ignored);
  td_handle_release(h);
  return st;
}

bool td_handle_done(td_handle *h) {
  if (h->exec) return td_exec_over(h->exec);
  return __atomic_load_n(&h->active, __ATOMIC_ACQUIRE) == 0;
}

int64_t td_handle_steps(td_handle *h) {
  if (h->exec) return td_exec_over(h->exec);
  return __atomic_load_n(&h->steps, __ATOMIC_RELAXED);
}

void td_handle_cancel(td_handle *h) {
  td_status *why = td_error(TD_CANCELLED, "cancelled");
  if (h->exec) {
    td_exec_cancel(h->exec, why);
    return;
  }
  pthread_mutex_lock(&h->lock);
  if (h->active > 0)
    h->status = td_status_first(h->status, why);
  else
    td_status_release(why);
  pthread_mutex_unlock(&h->lock);
  __atomic_store_n(&h->stop, 1, __ATOMIC_RELEASE);
}

/* Waits for the threads of a loop, 20 ms at a time. */
static td_status *wait_loop(td_handle *h, int64_t until, const int *interrupt) {
  td_status *st = NULL;
  pthread_mutex_lock(&h->lock);
  while (td_ok(st) && h->active > 0) {
    int64_t now = td_clock_now(), wake = now + 20000000;
    if (now >= until)
      st = td_error(TD_DEADLINE_EXCEEDED, "the loop is still running");
    else if (interrupt && td_cancelled(interrupt))
      st = td_error(TD_CANCELLED, "interrupted");
    if (!td_ok(st)) break;
    if (wake > until) wake = until;
    struct timespec at = {.tv_sec = wake / 1000000000,
                          .tv_nsec = wake % 1000000000};
    pthread_cond_timedwait(&h->wake, &h->lock, &at);
  }
  if (td_ok(st)) st = td_status_retain(h->status);
  pthread_mutex_unlock(&h->lock);
  return st;
}

td_status *td_handle_wait(td_handle *h, int64_t timeout, td_tensor *fetches,
                          const int *interrupt) {
  int64_t until = timeout < 0 ? INT64_MAX : td_clock_now() + timeout;
  if (!h->exec) return wait_loop(h, until, interrupt);
  TD_TRY(td_exec_wait(h->exec, until, interrupt, false));
  pthread_mutex_lock(&h->lock);
  bool taken = h->taken;
  h->taken = true;
  pthread_mutex_unlock(&h->lock);
  if (!taken) return td_exec_results(h->exec, fetches);
  for (int i = 0; fetches && i < h->exec->compiled->n_fetches; i++)
    fetches[i] = (td_tensor){0};
  return td_status_retain(h->exec->status);
}
