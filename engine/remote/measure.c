/* measure.c - who is at an address, and how good ways are: for who asks and
 * waits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/remote/remote_impl.h"

#define REACH INT64_C(10000000000) /* ns */
#define MORE INT64_C(1000000000) /* ns that another has to say that it failed  \
                                  */

/* ---- who is there -------------------------------------------------------- */

void td_remote_known_deinit(td_remote_known *k) {
  td_free(k->task);
  td_free(k->build);
  td_free(k->isa);
  td_free(k->data);
  *k = (td_remote_known){0};
}

static td_status *known(const td_remote *r, const td_peer *p,
                        td_remote_known *k) {
  *k = (td_remote_known){.task = td_strdup(p->task),
                         .build = td_strdup(td_wire_text(p->build)),
                         .isa = td_strdup(td_wire_text(p->isa)),
                         .data = td_strdup(td_wire_text(p->data)),
                         .incarnation = p->incarnation,
                         .pid = p->pid,
                         .devices = (int)p->devices.len,
                         .same_ops = p->kernels_hash == r->kernels_hash,
                         .same_host = p->host && strcmp(p->host, r->host) == 0};
  for (size_t i = 0; i < p->devices.len; i++) {
    uint64_t limit = td_allocator_read_stats(p->devices.at[i]->memory).limit;
    if (limit > k->memory) k->memory = limit; /* the devices share it */
  }
  return k->task && k->build && k->isa && k->data ? NULL : td_oom();
}

static bool is_decided(void *arg) {
  td_peer *p = arg;
  td_remote_enter(p->of);
  bool decided = p->welcomed || p->health.state == TD_DEAD;
  td_remote_leave(p->of);
  return decided;
}

static td_status *why_not(const td_peer *p, const td_attach_options *o) {
  if (o->interrupt && __atomic_load_n(o->interrupt, __ATOMIC_RELAXED))
    return td_error(TD_CANCELLED, "interrupted");
  if (p->error) return td_status_retain(p->error);
  return td_error(TD_UNAVAILABLE, "nobody answers at %s", o->to.control);
}

td_status *td_remote_reach(td_remote *r, const td_attach_options *o,
                           td_remote_known *out) {
  int64_t until = td_clock_now() + (o->timeout > 0 ? o->timeout : REACH);
  td_peer *p;
  *out = (td_remote_known){0};
  td_remote_enter(r);
  td_status *s = td_peer_dial(r, &o->to, &p);
  td_remote_leave(r);
  TD_TRY(s);
  (void)td_pump_until(r, until, o->interrupt, is_decided, p);
  td_remote_enter(r);
  bool there = p->welcomed && p->health.state != TD_DEAD;
  s = there ? known(r, p, out) : why_not(p, o);
  td_probe_let_go(p);
  td_remote_leave(r);
  if (!td_ok(s)) td_remote_known_deinit(out);
  return s;
}

/* ---- ways ---------------------------------------------------------------- */

/* Among those that were dialled from here, with their key. */
static td_status *find(td_remote *r, uint64_t incarnation, td_peer **out) {
  for (size_t i = 0; i < r->peers.len; i++) {
    td_peer *p = r->peers.at[i];
    if (p->incarnation != incarnation || p->health.state == TD_DEAD ||
        !p->link || !p->link->dialled)
      continue;
    *out = p;
    return NULL;
  }
  return td_error(TD_UNAVAILABLE, "the process is not there any more");
}

/* From here, or from another process, which may know this one alone by its
 * number. */
static td_status *begin(td_remote *r, const td_measure_options *o,
                        td_probe **out) {
  Td__Remote__Task way = TD__REMOTE__TASK__INIT;
  td_peer *from, *to = NULL;
  if (!o->from) {
    TD_TRY(find(r, o->to, &to));
    return td_probe_begin(r, to, NULL, o, out);
  }
  TD_TRY(find(r, o->from, &from));
  if (o->to) TD_TRY(find(r, o->to, &to));
  way.incarnation = to ? to->incarnation : r->incarnation;
  if (to) {
    way.task = td_wire_text(to->task);
    way.control = td_wire_text(to->control);
    way.data = td_wire_text(to->data);
    way.key = td_wire_text(to->key);
  }
  return td_probe_begin(r, from, &way, o, out);
}

static bool is_over(void *arg) {
  td_probe *b = arg;
  td_remote *r = b->of->of;
  td_remote_enter(r);
  bool over = b->over;
  td_remote_leave(r);
  return over;
}

td_status *td_remote_measure(td_remote *r, const td_measure_options *o,
                             td_remote_measured *out) {
  td_probe *b;
  td_remote_enter(r);
  td_status *s = begin(r, o, &b);
  td_remote_leave(r);
  TD_TRY(s);
  bool over = td_pump_until(r, b->until + MORE, o->interrupt, is_over, b);
  td_remote_enter(r);
  s = over ? td_status_retain(b->status)
           : td_error(TD_CANCELLED, "interrupted");
  *out = b->found;
  td_probe_drop(r, b);
  td_remote_leave(r);
  return s;
}
