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

td_status *td_async_start(td_callable *c, const td_tensor *feeds,
                          const td_step_options *options, td_async **out) {
  static const td_tensor none;
  td_async *a = td_calloc(1, sizeof *a);
  if (!a) return td_oom();
  td_compiled *now;
  td_status *st = td_callable_current(c, &now);
  if (td_ok(st))
    st = td_session_step_new(c->session, now, feeds ? feeds : &none, options,
                             &a->step);
  if (!td_ok(st)) {
    td_free(a);
    return st;
  }
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
