/* bare_step.c - programs of this process run as one step.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/bare_step.h"

#include "engine/base/mem.h"
#include "engine/device/rendezvous.h"

/* ---- life ---- */

void td_bare_step_free(td_bare_step *b) {
  td_team_release(b->team);
  td_rendezvous_free(b->base.rendezvous);
  td_cancel_release(b->step.cancel);
  td_status_release(b->status);
  pthread_mutex_destroy(&b->lock);
  td_free(b);
}

static td_status *init(td_bare_step *b, int threads) {
  const td_bare_programs *p = b->programs;
  TD_TRY(td_rendezvous_new(p->n_edges, &b->base.rendezvous));
  TD_TRY(td_team_new(threads, &b->team));
  TD_TRY(td_cancel_new(&b->step.cancel));
  b->step.stop = td_cancel_flag(b->step.cancel);
  b->step.rendezvous = b->base.rendezvous;
  b->step.resources = p->containers;
  b->step.own = p->own;
  b->step.threads = threads;
  return NULL;
}

td_status *td_bare_step_new(const td_bare_programs *programs, int threads,
                            td_bare_step **out) {
  td_bare_step *b = td_calloc(1, sizeof *b);
  if (!b) return td_oom();
  b->programs = programs;
  pthread_mutex_init(&b->lock, NULL);
  td_status *s = init(b, threads);
  if (!td_ok(s)) {
    td_bare_step_free(b);
    return s;
  }
  *out = b;
  return NULL;
}

bool td_bare_step_reset(td_bare_step *b) {
  if (td_cancelled(b->step.stop) || !td_team_idle(b->team)) return false;
  td_rendezvous_reset(b->base.rendezvous);
  return true;
}

/* ---- one run ---- */

/* One execution is over; the last one ends the step. */
static void execution_over(void *arg, td_status *s) {
  td_bare_step *b = arg;
  if (TD_UNLIKELY(!td_ok(s))) {
    pthread_mutex_lock(&b->lock);
    b->status = td_status_first(b->status, s);
    pthread_mutex_unlock(&b->lock);
  }
  if (b->programs->n > 1 &&
      __atomic_fetch_sub(&b->remaining, 1, __ATOMIC_ACQ_REL) != 1)
    return;
  td_status *first = b->status;
  b->status = NULL;
  if (__atomic_load_n(&b->step.updated, __ATOMIC_RELAXED))
    __atomic_store_n(&b->base.applied, TD_APPLIED_UNKNOWN, __ATOMIC_RELEASE);
  b->base.over(b->base.over_arg, first);
}

/* An edge to another participant ends here as far as this one is concerned. */
static td_status *send_far(void *arg, td_key key, td_tensor *value, bool dead) {
  td_bare_step *b = arg;
  return b->base.send(b->base.send_arg, key, value, dead);
}

void td_bare_step_start(td_bare_step *b, const td_portion_start *o) {
  const td_bare_programs *p = b->programs;
  td_step *step = &b->step;
  step->id = o->step;
  step->args = b->base.args;
  step->rets = b->base.rets;
  step->rets_dead = b->base.rets_dead;
  step->print = o->print;
  step->print_arg = o->print_arg;
  step->draw = o->draw;
  step->caller = o->caller;
  step->trace = o->trace;
  step->check_numerics = o->check_numerics;
  step->updated = false;
  b->base.applied = TD_APPLIED_NONE;
  if (p->far) td_rendezvous_route(step->rendezvous, p->far, send_far, b);
  if (p->from_far)
    td_rendezvous_expect(step->rendezvous, b->base.wanted ? p->from_far : NULL,
                         b->base.wanted, b->base.wanted_arg);
  __atomic_store_n(&b->remaining, p->n, __ATOMIC_RELEASE);
  for (int i = 0; i < p->n; i++) {
    td_status *s =
        td_executor_start(p->at[i], step, b->team, execution_over, b);
    if (td_ok(s)) continue;
    td_bare_step_cancel(b, td_status_retain(s));
    execution_over(b, s);
  }
  if (p->n == 0) b->base.over(b->base.over_arg, NULL);
}

void td_bare_step_cancel(td_bare_step *b, td_status *cause) {
  td_step_fail(&b->step, cause);
}
