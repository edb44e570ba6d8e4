/* callable.c - a session's signature, compiled and held.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/callable_impl.h"

#include "engine/base/mem.h"

td_status *td_callable_new(td_session *s, const td_signature *sig,
                           td_callable **out) {
  td_callable *c = td_calloc(1, sizeof *c);
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
  for (size_t i = 0; i < c->old.len; i++) td_compiled_release(c->old.at[i]);
  td_vec_free(&c->old);
  td_session_release(c->session);
  td_free(c);
}

/* Takes ownership of `fresh`; unless another thread was quicker, it replaces
 * `was`. *out is the one that counts. */
static td_status *replace(td_callable *c, td_compiled *was, td_compiled *fresh,
                          td_compiled **out) {
  pthread_mutex_lock(&c->session->lock);
  bool mine = c->compiled == was, room = !mine || td_vec_push(&c->old, was);
  if (mine && room) __atomic_store_n(&c->compiled, fresh, __ATOMIC_RELEASE);
  *out = c->compiled;
  pthread_mutex_unlock(&c->session->lock);
  if (!mine || !room) td_compiled_release(fresh);
  return room ? NULL : td_oom();
}

td_status *td_callable_current(td_callable *c, td_compiled **out) {
  td_compiled *now = td_callable_held(c), *fresh;
  *out = now;
  if (TD_LIKELY(!td_compiled_lost(now))) return NULL;
  td_signature sig = {.feeds = now->feeds,
                      .n_feeds = now->n_feeds,
                      .fetches = now->fetches,
                      .n_fetches = now->n_fetches,
                      .targets = now->targets,
                      .n_targets = now->n_targets};
  TD_TRY(td_session_lookup(c->session, &sig, &fresh));
  return replace(c, now, fresh, out);
}

td_status *td_callable_run(td_callable *c, const td_tensor *feeds,
                           td_tensor *fetches, const td_step_options *options) {
  td_compiled *now;
  td_status *s = td_callable_current(c, &now);
  if (td_ok(s))
    return td_session_run_compiled(c->session, now, feeds, fetches, options);
  for (int i = 0; fetches && i < now->n_fetches; i++)
    fetches[i] = (td_tensor){0};
  return s;
}
