/* session_run.c - a session's steps: run one, explain them, end them all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"
#include "engine/run/session_impl.h"

#define PATIENCE INT64_C(1000000000) /* ns: for what others say of a step */

static void start(td_session_step *step, int64_t now) {
  if (td_session_step_attend(step)) return;
  td_session_step_start(step, false);
  if (td_session_step_short(step))
    td_session_step_work(step, now + TD_CALLER_BUDGET);
  else
    td_session_step_wake(step);
}

td_status *td_session_run_compiled(td_session *s, td_compiled *c,
                                   const td_tensor *feeds, td_tensor *fetches,
                                   const td_step_options *o) {
  for (int i = 0; fetches && i < c->n_fetches; i++) fetches[i] = (td_tensor){0};
  static const td_tensor none;
  td_session_step *step;
  TD_TRY(td_session_step_new(s, c, feeds ? feeds : &none, o, &step));
  int64_t begun = td_clock_now();
  int64_t until = o && o->timeout > 0 ? begun + o->timeout : INT64_MAX;
  start(step, begun);
  td_status *st =
      td_session_step_wait(step, until, o ? o->interrupt : NULL, true);
  if (td_ok(st)) st = td_session_step_results(step, fetches);
  td_session_step_release(step);
  return st;
}

td_status *td_session_run(td_session *s, const td_signature *sig,
                          const td_tensor *feeds, td_tensor *fetches,
                          const td_step_options *options) {
  td_compiled *c;
  for (int i = 0; fetches && i < sig->n_fetches; i++)
    fetches[i] = (td_tensor){0};
  TD_TRY(td_session_lookup(s, sig, &c));
  td_status *st = td_session_run_compiled(s, c, feeds, fetches, options);
  td_compiled_release(c);
  return st;
}

bool td_session_runs(td_session *s, const td_caller *caller) {
  pthread_mutex_lock(&s->lock);
  const td_session_step *step = s->running;
  while (step && &step->caller != caller) step = step->next;
  pthread_mutex_unlock(&s->lock);
  return step != NULL;
}

/* The newest running step whose number is below `number`, retained, or NULL. */
static td_session_step *step_below(td_session *s, uint64_t number) {
  td_session_step *found = NULL;
  pthread_mutex_lock(&s->lock);
  for (td_session_step *step = s->running; step; step = step->next)
    if (step->number < number && (!found || step->number > found->number))
      found = step;
  if (found) __atomic_fetch_add(&found->refs, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&s->lock);
  return found;
}

/* Participants are asked without a lock. */
void td_session_why(td_session *s, td_str *out) {
  uint64_t number = UINT64_MAX;
  for (td_session_step *step; (step = step_below(s, number));) {
    number = step->number;
    td_str_addf(out, "step %llu:\n", (unsigned long long)number);
    td_session_step_inquire(step, PATIENCE);
    td_session_step_why(step, out);
    td_session_step_release(step);
  }
}

/* ---- the end ---- */

td_status *td_session_guest_in(td_session *s, td_session_guest *g) {
  pthread_mutex_lock(&s->lock);
  bool closed = s->closed;
  if (!closed) {
    g->prev = NULL;
    g->next = s->guests;
    if (g->next) g->next->prev = g;
    s->guests = g;
  }
  pthread_mutex_unlock(&s->lock);
  return closed ? td_session_closed_error() : NULL;
}

void td_session_unguest(td_session *s, td_session_guest *g) {
  pthread_mutex_lock(&s->lock);
  *(g->prev ? &g->prev->next : &s->guests) = g->next;
  if (g->next) g->next->prev = g->prev;
  pthread_mutex_unlock(&s->lock);
}

/* One that has not been told yet, held; NULL: none. */
static td_session_guest *next_guest(td_session *s) {
  pthread_mutex_lock(&s->lock);
  td_session_guest *g = s->guests;
  while (g && g->told) g = g->next;
  if (g) {
    g->told = true;
    g->hold(g);
  }
  pthread_mutex_unlock(&s->lock);
  return g;
}

static void end_guests(td_session *s, const char *why, bool wait) {
  for (td_session_guest *g; (g = next_guest(s));)
    g->end(g, td_error(TD_CANCELLED, "%s", why), wait);
}

void td_session_end_loops(td_session *s) {
  end_guests(s, "the session was let go", false);
}

void td_session_close(td_session *s) {
  pthread_mutex_lock(&s->lock);
  s->closed = true;
  pthread_mutex_unlock(&s->lock);
  end_guests(s, "the session was closed", true);
  pthread_mutex_lock(&s->lock);
  while (s->running) {
    td_session_step *step = s->running;
    __atomic_fetch_add(&step->refs, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&s->lock);
    td_session_step_cancel(step,
                           td_error(TD_CANCELLED, "the session was closed"));
    td_status *ignored = td_session_step_wait(step, INT64_MAX, NULL, false);
    td_status_release(ignored);
    td_session_step_release(step);
    pthread_mutex_lock(&s->lock);
  }
  pthread_mutex_unlock(&s->lock);
  td_session_drop_cache(s);
  td_session_close_members(s);
}
