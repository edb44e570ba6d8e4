/* async.c - a step on the pool, and its handle.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/async.h"

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/run/callable_impl.h"

struct td_async {
  td_session_step *step;
  int32_t taken; /* atomic: its results were handed out */
};

/* Of a step that is over the results are known; of one under way, those of the
 * last step of its signature. One is always let in, however large. */
static td_status *queue(td_session *s, const td_compiled *c, int64_t *own) {
  int64_t limit = s->options.queued_bytes;
  if (limit <= 0) limit = TD_QUEUED_BYTES;
  *own = __atomic_load_n(&c->result_bytes, __ATOMIC_RELAXED);
  int64_t held = __atomic_add_fetch(&s->queued, *own, __ATOMIC_ACQ_REL) - *own;
  if (held == 0 || held + *own <= limit) return NULL;
  __atomic_sub_fetch(&s->queued, *own, __ATOMIC_ACQ_REL);
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "steps that were started and not waited for hold %lld bytes "
                  "of results, and this one would add %lld; queued_bytes of "
                  "the session is %lld: wait for some of them first",
                  (long long)held, (long long)*own, (long long)limit);
}

td_status *td_async_start(td_callable *c, const td_tensor *feeds,
                          const td_step_options *options, td_async **out) {
  static const td_tensor none;
  td_async *a = td_calloc(1, sizeof *a);
  if (!a) return td_oom();
  td_compiled *now;
  td_status *st = td_callable_current(c, &now);
  bool queued = options && options->queued;
  int64_t own = 0;
  if (td_ok(st) && queued) st = queue(c->session, now, &own);
  if (td_ok(st)) {
    st = td_session_step_new(c->session, now, feeds ? feeds : &none, options,
                             &a->step);
    if (!td_ok(st))
      __atomic_sub_fetch(&c->session->queued, own, __ATOMIC_ACQ_REL);
  }
  if (!td_ok(st)) {
    td_free(a);
    return st;
  }
  if (queued) a->step->queued = own;
  if (options) {
    a->step->ended = options->ended;
    a->step->ended_arg = options->ended_arg;
  }
  td_session_step_start(a->step, true);
  *out = a;
  return NULL;
}

void td_async_release(td_async *a) {
  if (!a) return;
  td_session_step_unattended(a->step);
  td_session_step_release(a->step);
  td_free(a);
}

bool td_async_done(td_async *a) {
  return td_session_step_over(a->step);
}

void td_async_cancel(td_async *a) {
  td_session_step_cancel(a->step, td_error(TD_CANCELLED, "cancelled"));
}

td_status *td_async_wait(td_async *a, int64_t timeout, td_tensor *fetches,
                         const int *interrupt) {
  int64_t until = timeout < 0 ? INT64_MAX : td_clock_now() + timeout;
  TD_TRY(td_session_step_wait(a->step, until, interrupt, false));
  if (!__atomic_exchange_n(&a->taken, 1, __ATOMIC_ACQ_REL))
    return td_session_step_results(a->step, fetches);
  for (int i = 0; fetches && i < a->step->compiled->n_fetches; i++)
    fetches[i] = (td_tensor){0};
  return td_status_retain(a->step->status);
}
