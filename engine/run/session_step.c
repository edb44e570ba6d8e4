/* session_step.c - one step: started, waited for, cancelled, ended.
 *
 * The calling thread works on a step that is known to be short, with a budget;
 * everything else runs on the pool while the caller waits where it can hear an
 * interrupt or a deadline. Either way the step ends when every execution is
 * over, never before: after an error or a cancel that is prompt, because all
 * waits are cancelled and kernels look at the step's flag.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/run/session_impl.h"

enum {
  LISTEN_EVERY = 20000000, /* ns: between looks at an interrupt */
};

/* ---- making ---- */

/* Into the session's list; refused once it is closed. */
static td_status *list(td_session_step *step, td_session *s) {
  pthread_mutex_lock(&s->lock);
  bool closed = s->closed;
  if (!closed) {
    step->prev = NULL;
    step->next = s->running;
    if (step->next) step->next->prev = step;
    s->running = step;
  }
  pthread_mutex_unlock(&s->lock);
  if (closed)
    return td_error(TD_FAILED_PRECONDITION,
                    "the session is closed; make another with td.session()");
  return NULL;
}

static void fill_base(td_session_step *step, td_session *s,
                      const td_step_options *o) {
  td_step *base = &step->base;
  base->id = td_runtime_next_step(s->runtime);
  base->stop = td_cancel_flag(base->cancel);
  base->rendezvous = step->rendezvous;
  base->resources = td_runtime_resources(s->runtime);
  base->own = s->own;
  base->threads = s->options.threads;
  base->args = step->args;
  base->rets = step->rets;
  base->rets_dead = step->rets_dead;
  base->print = o ? o->print : NULL;
  base->print_arg = o ? o->print_arg : NULL;
  base->trace = o ? o->trace : NULL;
  base->check_numerics = o && o->check_numerics;
}

static void fill(td_session_step *step, td_session *s, td_compiled *c,
                 const td_step_options *o) {
  step->refs = 1;
  step->session = s;
  step->compiled = c;
  step->finished = 0;
  step->status = NULL;
  step->timer = 0;
  step->timeout = o ? o->timeout : 0;
  memset(step->rets_dead, 0, (size_t)c->n_fetches);
  fill_base(step, s, o);
}

td_status *td_session_step_new(td_session *s, td_compiled *c,
                               const td_tensor *feeds, const td_step_options *o,
                               td_session_step **out) {
  TD_TRY(td_compiled_check(c));
  for (int i = 0; feeds && i < c->n_feeds; i++)
    TD_TRY(td_compiled_check_feed(c, i, &feeds[i]));
  td_session_step *step;
  TD_TRY(td_compiled_take_step(c, s->options.threads, &step));
  td_status *st = NULL;
  if (!step->base.cancel) st = td_cancel_new(&step->base.cancel);
  if (td_ok(st)) {
    fill(step, s, c, o); /* whole before others see it in the list */
    st = list(step, s);
  }
  if (!td_ok(st)) {
    td_compiled_give_step(c, step, false);
    return st;
  }
  td_session_retain(s);
  td_compiled_retain(c);
  for (int i = 0; feeds && i < c->n_feeds; i++)
    td_tensor_retain(&feeds[i], &step->args[i]);
  *out = step;
  return NULL;
}

/* ---- ending ---- */

static void release_values(td_session_step *step) {
  for (int i = 0; i < step->compiled->n_feeds; i++)
    td_tensor_release(&step->args[i]);
  for (int i = 0; i < step->compiled->n_fetches; i++)
    td_tensor_release(&step->rets[i]);
}

/* Out of the session's list. */
static void unlist(td_session_step *step) {
  td_session *s = step->session;
  pthread_mutex_lock(&s->lock);
  if (step->prev)
    step->prev->next = step->next;
  else
    s->running = step->next;
  if (step->next) step->next->prev = step->prev;
  pthread_mutex_unlock(&s->lock);
}

void td_session_step_release(td_session_step *step) {
  if (!step || __atomic_fetch_sub(&step->refs, 1, __ATOMIC_ACQ_REL) != 1)
    return;
  td_compiled *c = step->compiled;
  td_session *s = step->session;
  if (step->timer) td_timer_cancel(step->timer);
  release_values(step);
  bool spent = td_cancelled(step->base.stop) || !td_ok(step->status);
  td_status_release(step->status);
  step->status = NULL;
  bool again = !spent && td_team_idle(step->team);
  if (again) {
    td_rendezvous_reset(step->rendezvous);
    td_team_reset(step->team);
  }
  td_compiled_give_step(c, step, again);
  td_compiled_release(c);
  td_session_release(s);
}

static td_status *check_fetches(const td_session_step *step) {
  const td_compiled *c = step->compiled;
  if (c->plan->parts == NULL) return NULL;
  for (int i = 0; i < c->n_fetches; i++) {
    if (td_tensor_valid(&step->rets[i])) continue;
    td_edge f = c->fetches[i];
    if (step->rets_dead[i])
      return td_node_blame(
          td_error(TD_INVALID_ARGUMENT,
                   "fetch \"%s:%d\" is dead: it comes from a branch that was "
                   "not taken; fetch the result of the cond instead",
                   f.node->name, f.port),
          f.node);
    return td_node_blame(td_error(TD_INTERNAL,
                                  "the step ended without fetch \"%s:%d\"",
                                  f.node->name, f.port),
                         f.node);
  }
  return NULL;
}

/* One execution is over; the last one ends the step. */
static void execution_over(void *arg, td_status *s) {
  td_session_step *step = arg;
  if (!td_ok(s)) {
    pthread_mutex_lock(&step->lock);
    step->status = td_status_first(step->status, s);
    pthread_mutex_unlock(&step->lock);
  }
  if (__atomic_fetch_sub(&step->remaining, 1, __ATOMIC_ACQ_REL) != 1) return;
  __atomic_fetch_add(&step->session->stats.steps, 1, __ATOMIC_RELAXED);
  unlist(step);
  pthread_mutex_lock(&step->lock);
  __atomic_store_n(&step->finished, 1, __ATOMIC_RELEASE);
  if (step->waiters) pthread_cond_broadcast(&step->wake);
  pthread_mutex_unlock(&step->lock);
  td_session_step_release(step);
}

bool td_session_step_over(const td_session_step *step) {
  return __atomic_load_n(&step->finished, __ATOMIC_ACQUIRE) != 0;
}

void td_session_step_cancel(td_session_step *step, td_status *cause) {
  td_step_fail(&step->base, cause);
}

/* The error of a step that takes too long, with the nodes that wait. */
static td_status *late(const td_session_step *step) {
  enum { MOST = 1000 };
  td_str why;
  td_str_init(&why);
  for (int i = 0; i < step->compiled->n_programs; i++)
    td_program_why(step->compiled->programs[i], &why);
  int n = why.len < MOST ? (int)why.len : MOST;
  td_status *s =
      td_error(TD_DEADLINE_EXCEEDED, "the step did not end within %.3f s%s%.*s",
               (double)step->timeout * 1e-9, n ? "; waiting:\n" : "",
               n && n < MOST ? n - 1 : n, td_str_c(&why));
  td_str_deinit(&why);
  return s;
}

static void on_timer(void *arg) {
  td_session_step *step = arg;
  td_session_step_cancel(step, late(step));
}

/* ---- running ---- */

bool td_session_step_short(const td_session_step *step) {
  int64_t cost = 0;
  for (int i = 0; i < step->compiled->n_programs; i++) {
    int64_t c = td_program_cost(step->compiled->programs[i]);
    if (c == 0) return false;
    cost += c;
  }
  return cost < TD_CALLER_BUDGET;
}

void td_session_step_start(td_session_step *step, bool wake) {
  td_compiled *c = step->compiled;
  /* The step's own hold: executions may be over before the last has
   * started. */
  __atomic_store_n(&step->remaining, c->n_programs + 1, __ATOMIC_RELEASE);
  __atomic_fetch_add(&step->refs, 1, __ATOMIC_RELAXED);
  if (wake && step->timeout > 0)
    step->timer =
        td_timer_start(td_clock_now() + step->timeout, on_timer, step);
  for (int i = 0; i < c->n_programs; i++) {
    td_status *s = td_executor_start(c->programs[i], &step->base, step->team,
                                     execution_over, step);
    if (td_ok(s)) continue;
    td_session_step_cancel(step, td_status_retain(s));
    execution_over(step, s);
  }
  if (wake) td_team_wake(step->team);
  execution_over(step, NULL);
}

/* Sleeps until the step is over or td_clock_now() >= until. */
static void sleep_until(td_session_step *step, int64_t until) {
  struct timespec at = {.tv_sec = until / 1000000000,
                        .tv_nsec = until % 1000000000};
  pthread_mutex_lock(&step->lock);
  step->waiters++;
  while (!step->finished) {
    if (until == INT64_MAX)
      pthread_cond_wait(&step->wake, &step->lock);
    else if (pthread_cond_timedwait(&step->wake, &step->lock, &at) == ETIMEDOUT)
      break;
  }
  step->waiters--;
  pthread_mutex_unlock(&step->lock);
}

/* Why waiting must stop now, or NULL. */
static td_status *stop_waiting(const td_session_step *step, int64_t now,
                               int64_t until, const int *interrupt) {
  if (interrupt && td_cancelled(interrupt))
    return td_error(TD_CANCELLED, "interrupted");
  return now >= until ? late(step) : NULL;
}

td_status *td_session_step_wait(td_session_step *step, int64_t until,
                                const int *interrupt, bool cancels) {
  bool cancelled = false;
  while (!td_session_step_over(step)) {
    int64_t now = td_clock_now();
    td_status *why =
        cancelled ? NULL : stop_waiting(step, now, until, interrupt);
    if (why && !cancels) return why;
    if (why) td_session_step_cancel(step, why);
    cancelled = cancelled || why;
    int64_t wake = cancelled ? INT64_MAX : until;
    if (interrupt && !cancelled && wake - now > LISTEN_EVERY)
      wake = now + LISTEN_EVERY;
    sleep_until(step, wake);
  }
  return NULL;
}

td_status *td_session_step_results(td_session_step *step, td_tensor *fetches) {
  td_status *s = td_status_retain(step->status);
  if (td_ok(s)) s = check_fetches(step);
  for (int i = 0; i < step->compiled->n_fetches; i++) {
    if (fetches && td_ok(s))
      fetches[i] = step->rets[i];
    else
      td_tensor_release(&step->rets[i]);
    if (fetches && !td_ok(s)) fetches[i] = (td_tensor){0};
    step->rets[i] = (td_tensor){0};
  }
  return s;
}
