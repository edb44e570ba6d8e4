/* session_run.c - a session's steps: run one, explain them, end them all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"
#include "engine/run/session_impl.h"

td_status *td_session_run_compiled(td_session *s, td_compiled *c,
                                   const td_tensor *feeds, td_tensor *fetches,
                                   const td_step_options *o) {
  for (int i = 0; fetches && i < c->n_fetches; i++) fetches[i] = (td_tensor){0};
  static const td_tensor none;
  td_session_step *step;
  TD_TRY(td_session_step_new(s, c, feeds ? feeds : &none, o, &step));
  int64_t start = td_clock_now();
  int64_t until = o && o->timeout > 0 ? start + o->timeout : INT64_MAX;
  td_session_step_start(step, false);
  if (td_session_step_short(step))
    td_team_work(step->team, start + TD_CALLER_BUDGET);
  else
    td_team_wake(step->team);
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

void td_session_why(td_session *s, td_str *out) {
  pthread_mutex_lock(&s->lock);
  for (td_session_step *step = s->running; step; step = step->next) {
    td_str_addf(out, "step %llu:\n", (unsigned long long)step->base.id);
    for (int i = 0; i < step->compiled->n_programs; i++)
      td_program_why(step->compiled->programs[i], out);
  }
  pthread_mutex_unlock(&s->lock);
}

void td_session_close(td_session *s) {
  pthread_mutex_lock(&s->lock);
  s->closed = true;
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
  td_resources_reset(s->own, NULL);
}
