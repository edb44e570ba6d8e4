/* master_trace.c - what a member ran of a step that is traced, on our clock.
 *
 * It comes with DONE, as a value, and is joined to the caller's trace when the
 * portion is over: after the turn, before anybody is told. How far the member's
 * clock is ahead is known from its pongs, one of which is asked for when RUN
 * leaves, and from the RUN and the DONE themselves. A step that fails has the
 * trace of what ran until then. A trace that is no such
 * thing, or has times at which the step did not run, is refused: the step goes
 * on without it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"
#include "engine/remote/master_impl.h"
#include "engine/run/trace_pack.h"

void td_traced_begin(td_far_portion *n) {
  td_traced *t = &n->traced;
  *t = (td_traced){.into = td_trace_retain(n->start.trace)};
}

void td_traced_send(td_far_portion *n) {
  if (!n->traced.into) return;
  n->traced.sent = td_clock_now();
  td_peer_ping(n->of->of->peer);
}

void td_traced_trouble(td_far_portion *n, td_status *s) {
  n->traced.trouble = td_status_first(n->traced.trouble, s);
}

/* RUN and DONE are question and answer, too. */
static void look_at_clock(td_far_portion *n, const Td__Remote__Done *d) {
  td_traced *t = &n->traced;
  td_clock_offsets *o = &n->of->of->peer->clocks;
  t->came = td_clock_now();
  td_clock_offset_add(o, t->sent, d->came, d->left, t->came);
  t->timed = td_clock_offset_best(o, t->sent, t->came, &t->clock);
}

static td_status *check(const td_member *m, const Td__Remote__Value *v) {
  if (!v) return td_error(TD_INTERNAL, "%s sent no trace", m->task);
  if (!v->dead && v->dtype == TD_UINT8 && v->n_dim == 1 &&
      v->bytes <= TD_TRACE_BYTES_MOST)
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the trace of %s is %llu bytes of dtype %d", m->task,
                  (unsigned long long)v->bytes, (int)v->dtype);
}

bool td_traced_done(td_far_portion *n, const Td__Remote__Done *d) {
  if (!n->traced.into) return false;
  td_status *s = check(n->of->of, d->trace);
  look_at_clock(n, d);
  if (td_ok(s)) return true;
  td_traced_trouble(n, s);
  return false;
}

/* ---- after the turn ------------------------------------------------------ */

static td_status *unpack(td_far_portion *n, int64_t *dropped) {
  td_traced *t = &n->traced;
  const td_member *m = n->of->of;
  int64_t error = t->clock.error;
  if (!t->timed)
    return td_error(TD_UNAVAILABLE, "the clock of %s is not known", m->task);
  const char **names = td_calloc(m->devices.len + 1, sizeof *names);
  if (!names) return td_oom();
  for (size_t i = 0; i < m->devices.len; i++) names[i] = m->devices.at[i]->name;
  td_trace_terms terms = {m->task,        names,           m->devices.len,
                          t->clock.ahead, t->sent - error, t->came + error};
  td_status *s = td_trace_unpack(t->into, t->bytes.data,
                                 td_tensor_bytes(&t->bytes), &terms, dropped);
  td_free(names);
  return s;
}

void td_traced_over(td_far_portion *n) {
  td_traced *t = &n->traced;
  if (!t->into) return;
  td_trace_task task = {.task = n->of->of->task,
                        .clock = t->clock.ahead,
                        .error = t->clock.error};
  if (td_tensor_valid(&t->bytes))
    td_traced_trouble(n, unpack(n, &task.dropped));
  else if (td_ok(t->trouble))
    td_traced_trouble(
        n, td_error(TD_UNAVAILABLE, "it ended its part without a word of it"));
  task.trouble = td_ok(t->trouble) ? "" : td_status_message(t->trouble);
  td_trace_add_task(t->into, &task);
  td_trace_release(t->into);
  td_status_release(t->trouble);
  td_tensor_release(&t->bytes);
  *t = (td_traced){0};
}
