/* exec.c - one step: started, waited for, cancelled, kept for the next.
 *
 * The calling thread works on a step that is known to be short, with a budget;
 * everything else runs on the pool while the caller waits where it can hear an
 * interrupt or a deadline. Either way the step ends when every program is over,
 * never before: after an error or a cancel that is prompt, because all waits
 * are cancelled and kernels look at the step's flag.
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

static void exec_free(td_exec *e) {
  td_rendezvous_release(e->rendezvous);
  td_cancel_release(e->step.cancel);
  td_free(e->args);
  td_free(e->rets);
  td_free(e->rets_dead);
  pthread_mutex_destroy(&e->lock);
  pthread_cond_destroy(&e->wake);
  td_free(e);
}

static td_status *exec_fresh(const td_compiled *c, int threads, td_exec **out) {
  td_exec *e = td_alloc_zero(1, sizeof *e);
  if (!e) return td_oom();
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->wake, &attr);
  pthread_condattr_destroy(&attr);
  td_status *s = NULL;
  e->args = td_alloc_zero((size_t)c->n_feeds + 1, sizeof *e->args);
  e->rets = td_alloc_zero((size_t)c->n_fetches + 1, sizeof *e->rets);
  e->rets_dead = td_alloc_zero((size_t)c->n_fetches + 1, sizeof(bool));
  if (!e->args || !e->rets || !e->rets_dead) s = td_oom();
  if (td_ok(s)) s = td_rendezvous_new(c->plan->n_edges, &e->rendezvous);
  if (td_ok(s)) s = td_team_new(threads, &e->team);
  if (!td_ok(s)) {
    exec_free(e);
    return s;
  }
  *out = e;
  return NULL;
}

void td_exec_free_idle(td_compiled *c) {
  for (td_exec *e; (e = c->idle);) {
    c->idle = e->next;
    td_team_release(e->team);
    exec_free(e);
  }
}

static td_exec *exec_kept(td_compiled *c) {
  pthread_mutex_lock(&c->lock);
  td_exec *e = c->idle;
  if (e) c->idle = e->next;
  pthread_mutex_unlock(&c->lock);
  return e;
}

static td_status *check_feed(const td_compiled *c, int i, const td_tensor *t) {
  td_edge e = c->feeds[i];
  td_shape_text want, given;
  if (t->dtype == td_edge_dtype(e) &&
      td_shape_compatible(&t->shape, td_edge_shape(e)))
    return NULL;
  return td_node_blame(
      td_error(TD_INVALID_ARGUMENT, "feed \"%s:%d\" expects %s %s, given %s %s",
               e.node->name, e.port, td_dtype_name(td_edge_dtype(e)),
               td_shape_str(td_edge_shape(e), &want), td_dtype_name(t->dtype),
               td_shape_str(&t->shape, &given)),
      e.node);
}

static void rendezvous_abort(void *arg) {
  td_exec *e = arg;
  td_status *s = td_cancel_cause(e->step.cancel);
  td_rendezvous_abort(e->rendezvous, s);
  td_status_release(s);
}

/* Into the session's list; refused once it is closed. */
static td_status *exec_list(td_exec *e, td_session *s) {
  pthread_mutex_lock(&s->lock);
  bool closed = s->closed;
  if (!closed) {
    e->prev = NULL;
    e->next = s->running;
    if (e->next) e->next->prev = e;
    s->running = e;
  }
  pthread_mutex_unlock(&s->lock);
  if (closed)
    return td_error(TD_FAILED_PRECONDITION,
                    "the session is closed; make another with td.session()");
  return NULL;
}

static void fill_step(td_exec *e, td_session *s, const td_run_options *o) {
  td_step *step = &e->step;
  step->id = td_runtime_next_step(s->runtime);
  step->stop = td_cancel_flag(step->cancel);
  step->rendezvous = e->rendezvous;
  step->resources = td_runtime_resources(s->runtime);
  step->own = s->own;
  step->scratch = NULL;
  step->threads = s->options.threads;
  step->args = e->args;
  step->rets = e->rets;
  step->rets_dead = e->rets_dead;
  step->print = o ? o->print : NULL;
  step->print_arg = o ? o->print_arg : NULL;
  step->trace = o ? o->trace : NULL;
  step->check_numerics = o && o->check_numerics;
}

td_status *td_exec_new(td_session *s, td_compiled *c, const td_tensor *feeds,
                       const td_run_options *o, td_exec **out) {
  TD_TRY(td_compiled_check(c));
  for (int i = 0; feeds && i < c->n_feeds; i++)
    TD_TRY(check_feed(c, i, &feeds[i]));
  td_exec *e = exec_kept(c);
  if (!e) TD_TRY(exec_fresh(c, s->options.threads, &e));
  td_status *st = NULL;
  if (!e->step.cancel) st = td_cancel_new(&e->step.cancel);
  if (td_ok(st)) st = exec_list(e, s);
  if (!td_ok(st)) {
    td_team_release(e->team);
    exec_free(e);
    return st;
  }
  e->refs = 1;
  e->session = td_session_retain(s);
  e->compiled = td_compiled_retain(c);
  e->finished = 0;
  e->status = NULL;
  e->timer = 0;
  e->timeout = o ? o->timeout : 0;
  fill_step(e, s, o);
  for (int i = 0; feeds && i < c->n_feeds; i++)
    td_tensor_retain(&feeds[i], &e->args[i]);
  memset(e->rets_dead, 0, (size_t)c->n_fetches);
  *out = e;
  return NULL;
}

/* ---- ending ---- */

static void release_values(td_exec *e) {
  for (int i = 0; i < e->compiled->n_feeds; i++) td_tensor_release(&e->args[i]);
  for (int i = 0; i < e->compiled->n_fetches; i++)
    td_tensor_release(&e->rets[i]);
}

/* Out of the session's list. */
static void exec_unlist(td_exec *e) {
  td_session *s = e->session;
  pthread_mutex_lock(&s->lock);
  if (e->prev)
    e->prev->next = e->next;
  else
    s->running = e->next;
  if (e->next) e->next->prev = e->prev;
  if (!s->running) pthread_cond_broadcast(&s->quiet);
  pthread_mutex_unlock(&s->lock);
}

void td_exec_release(td_exec *e) {
  if (!e || __atomic_fetch_sub(&e->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  td_compiled *c = e->compiled;
  td_session *s = e->session;
  if (e->timer) td_timer_cancel(e->timer);
  td_cancel_remove(e->step.cancel, &e->abort);
  release_values(e);
  bool spent = td_cancelled(e->step.stop) || !td_ok(e->status);
  td_status_release(e->status);
  e->status = NULL;
  if (spent || !td_team_idle(e->team)) {
    td_team_release(e->team);
    exec_free(e);
  } else {
    td_rendezvous_reset(e->rendezvous);
    td_team_reset(e->team);
    pthread_mutex_lock(&c->lock);
    e->next = c->idle;
    c->idle = e;
    pthread_mutex_unlock(&c->lock);
  }
  td_compiled_release(c);
  td_session_release(s);
}

static td_status *check_fetches(const td_exec *e) {
  const td_compiled *c = e->compiled;
  if (c->plan->parts == NULL) return NULL;
  for (int i = 0; i < c->n_fetches; i++) {
    if (td_tensor_valid(&e->rets[i])) continue;
    td_edge f = c->fetches[i];
    if (e->rets_dead[i])
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

/* One program is over; the last one ends the step. */
static void program_over(void *arg, td_status *s) {
  td_exec *e = arg;
  if (!td_ok(s)) {
    pthread_mutex_lock(&e->lock);
    e->status = td_status_first(e->status, s);
    pthread_mutex_unlock(&e->lock);
  }
  if (__atomic_fetch_sub(&e->remaining, 1, __ATOMIC_ACQ_REL) != 1) return;
  __atomic_fetch_add(&e->session->stats.steps, 1, __ATOMIC_RELAXED);
  exec_unlist(e);
  pthread_mutex_lock(&e->lock);
  __atomic_store_n(&e->finished, 1, __ATOMIC_RELEASE);
  if (e->waiters) pthread_cond_broadcast(&e->wake);
  pthread_mutex_unlock(&e->lock);
  td_exec_release(e);
}

bool td_exec_over(const td_exec *e) {
  return __atomic_load_n(&e->finished, __ATOMIC_ACQUIRE) != 0;
}

void td_exec_cancel(td_exec *e, td_status *cause) {
  td_cancel_fire(e->step.cancel, cause);
}

/* The error of a step that takes too long, with the nodes that wait. */
static td_status *late(const td_exec *e) {
  enum { MOST = 1000 };
  td_str why;
  td_str_init(&why);
  for (int i = 0; i < e->compiled->n_programs; i++)
    td_program_why(e->compiled->programs[i], &why);
  int n = why.len < MOST ? (int)why.len : MOST;
  td_status *s =
      td_error(TD_DEADLINE_EXCEEDED, "the step did not end within %.3f s%s%.*s",
               (double)e->timeout * 1e-9, n ? "; waiting:\n" : "",
               n && n < MOST ? n - 1 : n, td_str_c(&why));
  td_str_deinit(&why);
  return s;
}

static void on_timer(void *arg) {
  td_exec *e = arg;
  td_exec_cancel(e, late(e));
}

/* ---- running ---- */

bool td_exec_short(const td_exec *e) {
  int64_t cost = 0;
  for (int i = 0; i < e->compiled->n_programs; i++) {
    int64_t c = td_program_cost(e->compiled->programs[i]);
    if (c == 0) return false;
    cost += c;
  }
  return cost < TD_CALLER_BUDGET;
}

void td_exec_start(td_exec *e, bool wake) {
  td_compiled *c = e->compiled;
  /* The step's own hold: programs may be over before the last has started. */
  __atomic_store_n(&e->remaining, c->n_programs + 1, __ATOMIC_RELEASE);
  __atomic_fetch_add(&e->refs, 1, __ATOMIC_RELAXED);
  e->abort = (td_cancel_hook){.fire = rendezvous_abort, .arg = e};
  if (c->plan->n_edges > 0 && !td_cancel_add(e->step.cancel, &e->abort))
    rendezvous_abort(e);
  if (wake && e->timeout > 0)
    e->timer = td_timer_start(td_clock_now() + e->timeout, on_timer, e);
  for (int i = 0; i < c->n_programs; i++) {
    td_status *s =
        td_executor_start(c->programs[i], &e->step, e->team, program_over, e);
    if (td_ok(s)) continue;
    td_exec_cancel(e, td_status_retain(s));
    program_over(e, s);
  }
  if (wake) td_team_wake(e->team);
  program_over(e, NULL);
}

/* Sleeps until the step is over or td_clock_now() >= until. */
static void sleep_until(td_exec *e, int64_t until) {
  struct timespec at = {.tv_sec = until / 1000000000,
                        .tv_nsec = until % 1000000000};
  pthread_mutex_lock(&e->lock);
  e->waiters++;
  while (!e->finished) {
    if (until == INT64_MAX)
      pthread_cond_wait(&e->wake, &e->lock);
    else if (pthread_cond_timedwait(&e->wake, &e->lock, &at) == ETIMEDOUT)
      break;
  }
  e->waiters--;
  pthread_mutex_unlock(&e->lock);
}

/* Why waiting must stop now, or NULL. */
static td_status *stop_waiting(const td_exec *e, int64_t now, int64_t until,
                               const int *interrupt) {
  if (interrupt && td_cancelled(interrupt))
    return td_error(TD_CANCELLED, "interrupted");
  return now >= until ? late(e) : NULL;
}

td_status *td_exec_wait(td_exec *e, int64_t until, const int *interrupt,
                        bool cancels) {
  bool cancelled = false;
  while (!td_exec_over(e)) {
    int64_t now = td_clock_now();
    td_status *why = cancelled ? NULL : stop_waiting(e, now, until, interrupt);
    if (why && !cancels) return why;
    if (why) td_exec_cancel(e, why);
    cancelled = cancelled || why;
    int64_t wake = cancelled ? INT64_MAX : until;
    if (interrupt && !cancelled && wake - now > LISTEN_EVERY)
      wake = now + LISTEN_EVERY;
    sleep_until(e, wake);
  }
  return NULL;
}

td_status *td_exec_results(td_exec *e, td_tensor *fetches) {
  td_status *s = td_status_retain(e->status);
  if (td_ok(s)) s = check_fetches(e);
  for (int i = 0; i < e->compiled->n_fetches; i++) {
    if (fetches && td_ok(s))
      fetches[i] = e->rets[i];
    else
      td_tensor_release(&e->rets[i]);
    if (fetches && !td_ok(s)) fetches[i] = (td_tensor){0};
    e->rets[i] = (td_tensor){0};
  }
  return s;
}
