/* master.c - who takes part in a session of ours, and how they come and go.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/entropy.h"
#include "engine/remote/cells.h"
#include "engine/remote/device_far.h"
#include "engine/remote/far_session_impl.h"
#include "engine/remote/master_impl.h"

#define LEASE INT64_C(10000000000)  /* ns, where patience is 1 */
#define ATTACH INT64_C(10000000000) /* ns */
#define AGAIN INT64_C(500000000)    /* ns before a lost one is dialled again */

static void advance(td_master *m);
static void end_coming(td_member *w, td_status *why);
static void dial_again(td_member *w);
static void begin_rejoin(td_member *w);

/* How long a worker waits for us. */
static int64_t lease(const td_member *w) {
  return (int64_t)((double)LEASE * w->master->of->patience);
}

/* ---- OPEN ---------------------------------------------------------------- */

static bool task_out(td_arena *a, Td__Remote__Open *o, const char *task,
                     uint64_t incarnation, const char *control,
                     const char *data, const char *key) {
  Td__Remote__Task *t = td_arena_alloc(a, sizeof *t);
  if (!t) return false;
  td__remote__task__init(t);
  t->task = td_wire_text(task);
  t->incarnation = incarnation;
  t->control = td_wire_text(control);
  t->data = td_wire_text(data);
  t->key = td_wire_text(key);
  o->task[o->n_task++] = t;
  return true;
}

static bool view_out(const td_master *m, td_arena *a, Td__Remote__Open *o) {
  td_remote *r = m->of;
  o->task = td_arena_alloc(a, (m->members.len + 1) * sizeof *o->task);
  if (!o->task) return false;
  bool ok = task_out(a, o, td_runtime_place(r->runtime), r->incarnation,
                     td_remote_address(r), r->advertise_data, r->public_key);
  for (size_t i = 0; ok && i < m->members.len; i++) {
    const td_peer *p = m->members.at[i]->peer;
    ok = task_out(a, o, p->task, p->incarnation, p->control, p->data, p->key);
  }
  return ok;
}

static void say_open(td_member *w) {
  td_arena a;
  td_head head;
  Td__Remote__Open body = TD__REMOTE__OPEN__INIT;
  Td__Remote__Keep keep = TD__REMOTE__KEEP__INIT;
  td_arena_init(&a);
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_OPEN;
  head.open = &body;
  body.view = w->master->view;
  body.lease = lease(w);
  body.again = w->state == TD_MEMBER_OPEN;
  body.place = (uint64_t)w->place;
  body.slow_link = w->master->slow_link;
  if (w->keep) {
    td_keep_out(w->keep, &body, &keep);
    head.body_case = TD__REMOTE__MESSAGE__BODY_KEEP;
    head.keep = &keep;
  }
  w->said = td_clock_now();
  if (view_out(w->master, &a, &body))
    td_status_release(td_member_send(w, TD_LANE_CONTROL, &head, NULL, 0));
  td_arena_deinit(&a);
}

static void say_close(td_member *w) {
  td_head head;
  Td__Remote__Handles body = TD__REMOTE__HANDLES__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_CLOSE;
  head.close = &body;
  body.n_handle = 1;
  body.handle = &w->master->view;
  w->said = td_clock_now();
  td_status_release(td_member_send(w, TD_LANE_CONTROL, &head, NULL, 0));
}

/* Everybody hears of everybody. */
static void new_view(td_master *m) {
  m->view++;
  for (size_t i = 0; i < m->members.len; i++) {
    td_member *w = m->members.at[i];
    if (w->state == TD_MEMBER_OPENING || w->state == TD_MEMBER_OPEN)
      say_open(w);
  }
}

static void opened(td_member *w, const Td__Remote__Answer *a) {
  if (a->id < w->since) return; /* it speaks of a place that it had before */
  td_status *s = td_wire_status_in(a->status, w->task);
  if (!td_ok(s)) {
    if (w->state == TD_MEMBER_OPENING)
      end_coming(w, s);
    else
      td_status_release(s);
  } else {
    if (a->id > w->opened) w->opened = a->id;
    if (w->state == TD_MEMBER_OPENING) {
      w->state = TD_MEMBER_OPEN;
      if (w->was) begin_rejoin(w);
    }
  }
  td_remote_news(w->master->of);
}

/* ---- ending -------------------------------------------------------------- */

/* After the turn: the session hears that a process is gone. */
static void tell(td_task *task) {
  td_member *w = (td_member *)((char *)task - offsetof(td_member, task_after));
  td_remote *r = w->master->of;
  td_session_lose(w->master->session, &w->base, td_status_retain(w->error));
  td_session_release(w->master->session); /* may be its end, and calls back */
  td_remote_enter(r);
  td_member_release(w);
  td_remote_leave(r);
  td_remote_release(r);
}

static void tell_session(td_member *w) {
  if (w->told || w->closed || !td_session_try_retain(w->master->session))
    return;
  w->told = true;
  w->retry = td_clock_now() + AGAIN;
  w->task_after.run = tell;
  td_member_retain(w);
  td_remote_retain(w->master->of);
  td_remote_after(w->master->of, &w->task_after);
}

/* When the last of them has ended the view is of no use, and keeps nobody. */
static void drop_view(td_master *m) {
  for (size_t i = 0; i < m->members.len; i++)
    if (m->members.at[i]->state != TD_MEMBER_ENDED || !m->members.at[i]->closed)
      return;
  td_transfer_withdraw(m->of, &m->id, 0);
  while (m->members.len > 0) td_member_release(m->members.at[--m->members.len]);
}

/* Its process is dead, or it let go of the session. Takes ownership of `why`.
 */
static void lost(td_member *w, td_status *why) {
  if (w->state == TD_MEMBER_ENDED) {
    td_status_release(why);
    return;
  }
  bool was_open = w->state == TD_MEMBER_OPEN;
  w->state = TD_MEMBER_ENDED;
  td_status_release(w->error);
  w->error = td_status_retain(why);
  td_portions_dead(w, td_status_retain(why));
  td_rolls_fail(w, why);
  td_portions_go_on(w->master);
  td_questions_fail(w);
  if (was_open && w->joined) tell_session(w);
  td_remote_news(w->master->of);
  drop_view(w->master);
}

static void say_fence(td_member *to, const td_member *dead) {
  td_head head;
  Td__Remote__Fence body = TD__REMOTE__FENCE__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_FENCE;
  head.fence = &body;
  body.task = dead->task;
  body.incarnation = dead->peer->incarnation;
  body.place = (uint64_t)dead->place;
  if (!TD_BUG(TD_BUG_NO_FENCE))
    td_status_release(td_member_send(to, TD_LANE_CONTROL, &head, NULL, 0));
}

static void fence(td_member *dead) {
  td_master *m = dead->master;
  for (size_t i = 0; i < m->members.len; i++)
    if (m->members.at[i]->state == TD_MEMBER_OPEN)
      say_fence(m->members.at[i], dead);
}

void td_master_peer_changed(td_remote *r, td_peer *p) {
  for (size_t i = r->masters.len; i-- > 0;) {
    if (i >= r->masters.len) continue;
    td_master *m = r->masters.at[i];
    m->refs++;
    td_member *w = td_member_of_peer(m, p);
    if (w && w->state != TD_MEMBER_ENDED && p->health.state == TD_DEAD) {
      td_status *why = p->error
                           ? td_status_retain(p->error)
                           : td_error(TD_UNAVAILABLE, "%s is gone", p->task);
      lost(w, td_status_at(why, NULL, NULL, NULL, w->task));
      fence(w);
    }
    advance(m);
    td_master_release(m);
  }
}

/* What was opened for it is closed as others are: until it is heard. */
static void close_coming(td_member *w) {
  bool open = w->place > 0 && w->state != TD_MEMBER_ENDED;
  if (!open) {
    end_coming(w, td_error(TD_CANCELLED, "closed"));
    return;
  }
  w->was->again = NULL;
  w->state = TD_MEMBER_CLOSING;
  w->closed = true;
  say_close(w);
}

/* The participant's: the session is closed, or has another in its place. */
static void close_member(td_participant *p) {
  td_member *w = (td_member *)p;
  td_remote *r = td_member_remote(w);
  td_remote_retain(r);
  td_remote_enter(r);
  if (w->state == TD_MEMBER_OPEN || w->state == TD_MEMBER_OPENING) {
    w->state = TD_MEMBER_CLOSING;
    say_close(w);
  }
  w->closed = true;
  if (w->again) close_coming(w->again);
  drop_view(w->master);
  td_remote_leave(r);
  td_remote_release(r);
}

/* It has nothing of the session any more. Why one did not join is known. */
static void closed(td_member *w) {
  if (w->state == TD_MEMBER_CLOSING)
    lost(w, w->error ? td_status_retain(w->error)
                     : td_error(TD_CANCELLED, "the session is closed"));
}

void td_master_close_all(td_remote *r) {
  for (size_t i = r->masters.len; i-- > 0;) {
    if (i >= r->masters.len) continue;
    td_master *m = r->masters.at[i];
    m->refs++;
    for (size_t k = 0; k < m->members.len; k++)
      lost(m->members.at[k],
           td_error(TD_UNAVAILABLE, "this process takes part in nothing any "
                                    "more"));
    td_master_release(m);
  }
}

/* ---- the clock ----------------------------------------------------------- */

static void tick_member(td_member *w, int64_t now) {
  if (w->state == TD_MEMBER_OPENING && now - w->said >= TD_HEALTH_BEAT)
    say_open(w);
  if (w->state == TD_MEMBER_CLOSING && now - w->said >= TD_HEALTH_BEAT)
    say_close(w);
  if (w->told && !w->closed && !w->again && now >= w->retry) dial_again(w);
  if (w->state != TD_MEMBER_OPEN) return;
  if (w->opened < w->master->view && now - w->said >= TD_HEALTH_BEAT)
    say_open(w);
  td_rolls_tick(w, now);
  td_portions_tick(w, now);
}

void td_master_tick(td_remote *r, int64_t now) {
  for (size_t i = 0; i < r->masters.len; i++) {
    td_master *m = r->masters.at[i];
    for (size_t k = 0; k < m->members.len; k++)
      tick_member(m->members.at[k], now);
  }
}

/* ---- messages ------------------------------------------------------------ */

/* Or does it answer what was sent before it had this place? */
static bool is_meant(const td_member *w, const Td__Remote__Handles *stale) {
  return stale->n_handle < 2 || stale->handle[0] >= TD_LANES ||
         stale->handle[1] > w->before[stale->handle[0]];
}

static void member_message(td_member *w, td_message *m) {
  const td_head *d = m->head;
  switch (d->body_case) {
  case TD__REMOTE__MESSAGE__BODY_OPENED:
    opened(w, d->opened);
    break;
  case TD__REMOTE__MESSAGE__BODY_NEED:
    td_roll_needed(w, d->need);
    break;
  case TD__REMOTE__MESSAGE__BODY_REGISTERED:
    td_roll_registered(w, d->registered);
    td_portions_go_on(w->master);
    break;
  case TD__REMOTE__MESSAGE__BODY_DONE:
    td_portion_done(w, m);
    break;
  case TD__REMOTE__MESSAGE__BODY_TENSOR:
    td_portion_value(w, m);
    break;
  case TD__REMOTE__MESSAGE__BODY_ROOM:
    w->full = m->head->room->full;
    break;
  case TD__REMOTE__MESSAGE__BODY_ABORT:
    td_portion_aborted(w, d->abort);
    break;
  case TD__REMOTE__MESSAGE__BODY_LOG:
    td_portion_printed(w, d->log);
    break;
  case TD__REMOTE__MESSAGE__BODY_ANSWER:
    if (!td_portion_explained(w, d->answer)) td_member_answered(w, d->answer);
    break;
  case TD__REMOTE__MESSAGE__BODY_CLOSED:
    closed(w);
    break;
  case TD__REMOTE__MESSAGE__BODY_STALE:
    if (w->state == TD_MEMBER_OPEN && is_meant(w, d->stale))
      lost(w, td_error(TD_UNAVAILABLE,
                       "%s has dropped the session: it heard nothing of us "
                       "for %.0f s, or was told that we are dead",
                       w->task, (double)lease(w) * 1e-9));
    break;
  default:
    break;
  }
}

bool td_master_message(td_peer *p, td_message *m) {
  td_master *s =
      td_master_find(p->of, m->head->session_high, m->head->session_low);
  td_member *w = s ? td_member_of_peer(s, p) : NULL;
  if (!w) return false;
  td_member_retain(w);
  member_message(w, m);
  td_member_release(w);
  return true;
}

/* ---- attaching ----------------------------------------------------------- */

static const td_participant_ops ops = {.enroll = td_member_enroll,
                                       .forget = td_member_forget,
                                       .cost = td_member_cost,
                                       .costs = td_member_costs,
                                       .begin = td_member_begin,
                                       .start = td_member_start,
                                       .cancel = td_member_cancel,
                                       .deliver = td_member_deliver,
                                       .wanted = td_member_wanted,
                                       .unwanted = td_member_unwanted,
                                       .why = td_member_why,
                                       .inquire = td_member_inquire,
                                       .reset = td_member_reset,
                                       .end = td_member_end,
                                       .pump = td_member_pump,
                                       .nudge = td_member_nudge,
                                       .attend = td_member_attend,
                                       .rename = td_member_rename,
                                       .lives = td_member_lives,
                                       .drop = td_member_drop,
                                       .sweep = td_member_sweep,
                                       .save = td_member_save,
                                       .load = td_member_load,
                                       .clear = td_member_clear,
                                       .reset_container =
                                           td_member_reset_container,
                                       .close = close_member,
                                       .free = td_member_free};

static td_status *member_new(td_master *m, td_peer *p, td_member **out) {
  td_member *w = td_calloc(1, sizeof *w);
  if (!w) return td_oom();
  w->base.ops = &ops;
  w->base.refs = 1;
  w->base.session[0] = m->id.high;
  w->base.session[1] = m->id.low;
  w->master = m;
  w->peer = td_peer_retain(p);
  w->state = p->welcomed ? TD_MEMBER_OPENING : TD_MEMBER_JOINING;
  m->refs++;
  *out = w;
  return NULL;
}

/* ---- coming -------------------------------------------------------------- */

static td_member *take_coming(td_master *m, const td_member *w) {
  for (size_t i = 0; i < m->coming.len; i++)
    if (m->coming.at[i] == w) {
      td_member *share = m->coming.at[i];
      m->coming.at[i] = m->coming.at[--m->coming.len];
      return share;
    }
  return NULL;
}

/* What it may have of the session is closed there, as often as it takes. Takes
 * ownership of `why`. */
static void end_unjoined(td_member *w, td_status *why) {
  bool there = w->place > 0 && w->peer->health.state != TD_DEAD;
  w->state = there ? TD_MEMBER_CLOSING : TD_MEMBER_ENDED;
  td_status_release(w->error);
  w->error = why;
  if (there) say_close(w);
}

/* It came to nothing. Takes ownership of `why`. */
static void end_coming(td_member *w, td_status *why) {
  td_member *share = take_coming(w->master, w);
  if (w->was) {
    w->was->again = NULL;
    w->was->retry = td_clock_now() + TD_HEALTH_PATIENCE;
  }
  if (w->state != TD_MEMBER_ENDED) end_unjoined(w, td_status_retain(why));
  w->closed = true;
  td_status_release(why);
  td_remote_news(w->master->of);
  if (share) td_member_release(share);
}

static td_status *copy_devices(td_member *w) {
  const td_peer *p = w->peer;
  if (!td_vec_reserve(&w->devices, p->devices.len)) return td_oom();
  for (size_t i = 0; i < p->devices.len; i++) {
    TD_TRY(td_device_far_copy(p->devices.at[i], &w->devices.at[i]));
    w->devices.len++;
  }
  return NULL;
}

static td_status *taken(const td_member *w, const td_member *by) {
  return td_error(TD_ALREADY_EXISTS,
                  "the session has a task %s already: the worker at %s, and "
                  "the one at %s says that it is the same; start one of them "
                  "with another number (tide worker --task %d)",
                  w->task, by->peer->control, w->peer->control, by->place);
}

/* A place in the view is for good: edges name tasks by it. */
static td_status *take_place(td_member *w) {
  td_master *m = w->master;
  w->task = td_strdup(w->peer->task);
  if (!w->task) return td_oom();
  w->base.task = w->task;
  if (w->was && strcmp(w->was->task, w->task) != 0)
    return td_error(TD_FAILED_PRECONDITION, "%s is where %s was", w->task,
                    w->was->task);
  for (size_t i = 0; i < m->members.len; i++)
    if (strcmp(m->members.at[i]->task, w->task) == 0 &&
        m->members.at[i]->state != TD_MEMBER_ENDED)
      return taken(w, m->members.at[i]);
  TD_TRY(copy_devices(w));
  if (!td_vec_push(&m->members, w)) return td_oom();
  (void)take_coming(m, w); /* the share is the view's now */
  w->place = (int32_t)m->members.len;
  w->since = m->view + 1;
  memcpy(w->before, w->peer->sent, sizeof w->before);
  w->state = TD_MEMBER_OPENING;
  return NULL;
}

/* Those whose peer is there now have a place, those whose peer is dead none. */
static void advance(td_master *m) {
  bool changed = false;
  for (size_t i = m->coming.len; i-- > 0;) {
    if (i >= m->coming.len) continue;
    td_member *w = m->coming.at[i];
    if (w->peer->health.state == TD_DEAD) {
      end_coming(w, td_peer_lost(w->peer));
    } else if (w->peer->welcomed) {
      td_status *s = take_place(w);
      if (td_ok(s))
        changed = true;
      else
        end_coming(w, s);
    }
  }
  if (changed) new_view(m);
}

static td_status *come(td_master *m, const td_dial *to, td_keep *keep,
                       td_member *was, td_member **out) {
  td_peer *p;
  TD_TRY(td_peer_dial(m->of, to, &p));
  td_member *w = NULL, *there = td_member_of_peer(m, p);
  td_status *s =
      there && there->state != TD_MEMBER_ENDED
          ? td_error(TD_ALREADY_EXISTS, "%s is attached already", p->task)
          : member_new(m, p, &w);
  td_peer_release(p);
  TD_TRY(s);
  if (!td_vec_push(&m->coming, w)) {
    td_member_release(w);
    return td_oom();
  }
  w->keep = td_keep_retain(keep);
  if (was) {
    td_member_retain(was);
    w->was = was;
    was->again = w;
  }
  if (out) {
    td_member_retain(w);
    *out = w;
  }
  advance(m);
  return NULL;
}

/* ---- coming back --------------------------------------------------------- */

static void dial_again(td_member *w) {
  td_peer *p = w->peer;
  td_dial to = {p->control, NULL, p->key};
  w->retry = td_clock_now() + TD_HEALTH_PATIENCE;
  td_status_release(come(w->master, &to, w->keep, w, NULL));
}

/* After the turn: the session has it in the place of the old one. */
static void rejoin(td_task *task) {
  td_member *w = (td_member *)((char *)task - offsetof(td_member, task_after));
  td_master *m = w->master;
  td_remote *r = m->of;
  td_status *s = td_session_rejoin(m->session, &w->was->base, &w->base,
                                   w->devices.at, (int)w->devices.len);
  td_session_release(m->session);
  td_remote_enter(r);
  w->joined = td_ok(s);
  if (!td_ok(s)) {
    w->was->retry = td_clock_now() + TD_HEALTH_PATIENCE;
    w->closed = true;
    if (w->state != TD_MEMBER_ENDED) end_unjoined(w, td_status_retain(s));
    drop_view(m);
  } else if (w->state == TD_MEMBER_ENDED) {
    tell_session(w);
  }
  td_member_release(w);
  td_remote_leave(r);
  td_status_release(s);
  td_remote_release(r);
}

/* Inside of the turn. */
static void begin_rejoin(td_member *w) {
  if (w->was->closed || !td_session_try_retain(w->master->session)) return;
  w->was->again = NULL; /* it is the session's from now on, or nobody's */
  w->was->retry = INT64_MAX;
  w->task_after.run = rejoin;
  td_member_retain(w); /* the task's */
  td_member_retain(w); /* the session's */
  td_remote_retain(w->master->of);
  td_remote_after(w->master->of, &w->task_after);
}

/* ---- attaching ----------------------------------------------------------- */

static bool is_decided(void *arg) {
  td_member *w = arg;
  td_remote *r = w->master->of;
  td_remote_enter(r);
  bool decided = w->state >= TD_MEMBER_OPEN;
  td_remote_leave(r);
  return decided;
}

/* Why it came to nothing. Caller owns the result. */
static td_status *why_not(const td_member *w, const td_attach_options *o) {
  const td_peer *p = w->peer;
  if (w->state > TD_MEMBER_OPEN && w->error) return td_status_retain(w->error);
  if (o->interrupt && __atomic_load_n(o->interrupt, __ATOMIC_RELAXED))
    return td_error(TD_CANCELLED, "interrupted");
  double s = (double)(o->timeout > 0 ? o->timeout : ATTACH) * 1e-9;
  if (p->error)
    return td_error(td_status_code(p->error),
                    "no worker at %s within %.3g s: %s", o->to.control, s,
                    td_status_message(p->error));
  return td_error(TD_UNAVAILABLE,
                  p->welcomed
                      ? "%s answered, but did not open the session in %.3g s"
                      : "nobody answers at %s within %.3g s: is a worker "
                        "running there, and is the port right and open?",
                  o->to.control, s);
}

/* A worker that was lost while it joined is told of here. */
static td_status *join(td_member *w, td_session *s) {
  td_remote *r = w->master->of;
  td_member_retain(w); /* the session's */
  td_status *st =
      td_session_join(s, &w->base, w->devices.at, (int)w->devices.len);
  td_remote_enter(r);
  w->joined = td_ok(st);
  if (w->joined && w->state == TD_MEMBER_ENDED) tell_session(w);
  td_remote_leave(r);
  return st;
}

static void give_up(td_member *w, const td_status *why) {
  td_remote *r = w->master->of;
  td_remote_retain(r);
  td_remote_enter(r);
  td_master *m = w->master;
  m->refs++;
  end_coming(w, td_status_retain((td_status *)why));
  drop_view(m);
  td_member_release(w);
  td_master_release(m);
  td_remote_leave(r);
  td_remote_release(r);
}

static td_status *begin(td_remote *r, td_session *s, const td_attach_options *o,
                        td_member **out) {
  td_master *m = td_master_of(r, s);
  if (m)
    m->refs++;
  else
    TD_TRY(td_master_new(r, s, &m));
  td_status *st = come(m, &o->to, o->keep, NULL, out);
  td_master_release(m);
  return st;
}

td_status *td_remote_attach(td_remote *r, td_session *s,
                            const td_attach_options *o, td_member **out) {
  td_member *w = NULL;
  td_remote_enter(r);
  if (o->patience > r->patience && o->patience <= TD_PATIENCE_MOST)
    r->patience = o->patience;
  td_status *st = begin(r, s, o, &w);
  td_remote_leave(r);
  TD_TRY(st);
  int64_t until = td_clock_now() + (o->timeout > 0 ? o->timeout : ATTACH);
  (void)td_pump_until(r, until, o->interrupt, is_decided, w);
  td_remote_enter(r);
  if (w->state != TD_MEMBER_OPEN) st = why_not(w, o);
  td_remote_leave(r);
  if (td_ok(st)) st = join(w, s);
  if (!td_ok(st)) {
    give_up(w, st);
    return st;
  }
  *out = w;
  td_participant_release(&w->base); /* the session has it */
  return NULL;
}
