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
  td_session_release(c->session);
  td_free(c);
}

td_status *td_callable_run(td_callable *c, const td_tensor *feeds,
                           td_tensor *fetches, const td_step_options *options) {
  return td_session_run_compiled(c->session, c->compiled, feeds, fetches,
                                 options);
}
