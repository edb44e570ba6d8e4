/* worker.c - sessions of others: who takes part in them, and how they end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/remote/cells.h"
#include "engine/remote/keeper_impl.h"
#include "engine/remote/metrics.h"
#include "engine/remote/worker_impl.h"

enum { TASKS_MOST = 4096, SESSIONS_MOST = 1024, SESSIONS_OF_ONE = 128 };
enum { EARLY_MOST = 64 << 20 }; /* bytes */
#define LEASE_MOST INT64_C(600000000000)

/* ---- opening ------------------------------------------------------------- */

/* One peer does not take all of them. */
static td_status *check_room(const td_remote *r, const td_peer *master) {
  int own = 0;
  if (r->hosted.len >= SESSIONS_MOST)
    return td_error(TD_RESOURCE_EXHAUSTED, "%d sessions are here already",
                    SESSIONS_MOST);
  for (size_t i = 0; i < r->hosted.len; i++)
    own += r->hosted.at[i]->master == master;
  if (own < SESSIONS_OF_ONE) return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "%d sessions of this process are here already", own);
}

static void rest(td_hosted *h);
static void close_session(td_hosted *h, td_status *why);

static const td_hosted_hooks hooks = {
    .rest = rest, .stop = td_hosted_step_stop, .unuse = td_hosted_step_unuse};

/* Who runs what the master registers; `keep`: a session that is kept here. */
static td_status *local_of(td_hosted *h, const Td__Remote__Keep *keep) {
  uint64_t words[2] = {h->id.high, h->id.low};
  if (!td_vec_reserve(&h->of->hosted, 1)) return td_oom();
  return keep ? td_keeper_enter(h->of, keep, &h->id, &h->local)
              : td_participant_local_new(h->of->runtime, words, false,
                                         &h->local);
}

static td_status *begin(td_remote *r, td_peer *master, const td_session_id *id,
                        const Td__Remote__Open *m, const Td__Remote__Keep *keep,
                        td_hosted **out) {
  if (!r->serve)
    return td_error(TD_FAILED_PRECONDITION,
                    "%s runs nothing for others: it is no worker",
                    td_runtime_place(r->runtime));
  TD_TRY(check_room(r, master));
  td_hosted *h = td_calloc(1, sizeof *h);
  if (!h) return td_oom();
  h->of = r;
  h->refs = 1;
  h->hooks = &hooks;
  h->id = *id;
  h->place = m->place;
  h->early_most = EARLY_MOST;
  td_status *s = local_of(h, keep);
  if (!td_ok(s)) {
    td_free(h);
    return s;
  }
  r->hosted.at[r->hosted.len++] = h;
  h->master = td_peer_retain(master);
  *out = h;
  return NULL;
}

static void say_opened(td_peer *p, const td_session_id *id, uint64_t view,
                       const td_status *s) {
  td_arena a;
  td_head head;
  Td__Remote__Answer body = TD__REMOTE__ANSWER__INIT;
  td_arena_init(&a);
  td_head_init(&head, id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_OPENED;
  head.opened = &body;
  body.id = view;
  body.status = td_wire_status_out(&a, s);
  td_peer_say(p, &head);
  td_arena_deinit(&a);
}

/* An OPEN that comes after its CLOSE opens nothing. */
static void note_closed(td_remote *r, const td_session_id *id,
                        const Td__Remote__Handles *m) {
  uint64_t view = m->n_handle ? m->handle[0] : 0;
  r->closed_ones[r->next_closed++ % TD_CLOSED_KEPT] = (td_closed){*id, view};
}

static bool is_closed(const td_remote *r, const td_session_id *id,
                      uint64_t view) {
  for (int i = 0; i < TD_CLOSED_KEPT; i++) {
    const td_closed *c = &r->closed_ones[i];
    if (c->id.high == id->high && c->id.low == id->low && view <= c->view)
      return true;
  }
  return false;
}

/* What a planted bug does: a master that thought this process dead, and has it
 * back by another link, finds what the session had here. */
static void adopt(td_hosted *h, td_peer *p) {
  td_peer *was = h->master;
  h->master = td_peer_retain(p);
  td_peer_release(was);
}

/* What the session had here at the place before is over, and goes first: the
 * master believes it gone, and must not go on with it (P7). NULL: nothing is
 * left of it. */
static td_hosted *make_way(td_remote *r, td_hosted *h, uint64_t place) {
  td_session_id id = h->id;
  if (place > h->place)
    close_session(h, td_error(TD_UNAVAILABLE, "its master begins it anew"));
  return td_hosted_find(r, &id);
}

/* Said again on silence: the same twice is the same. What was dropped here is
 * not begun anew behind the master's back, who believes that its variables are
 * there. False: it is answered by STALE. */
static bool open_session(td_remote *r, td_peer *p, const td_session_id *id,
                         const Td__Remote__Open *m,
                         const Td__Remote__Keep *keep) {
  td_hosted *h = td_hosted_find(r, id);
  td_status *s = NULL;
  if (is_closed(r, id, m->view)) return true;
  if (h && h->master == p && h->place != m->place &&
      !TD_BUG(TD_BUG_MIXED_RESTORE)) {
    h = make_way(r, h, m->place);
    if (h) return true; /* OPEN is said again */
  }
  if (!h && m->again) return false;
  if (!h) s = begin(r, p, id, m, keep, &h);
  if (td_ok(s) && TD_BUG(TD_BUG_MIXED_RESTORE)) adopt(h, p);
  if (td_ok(s) && h->master != p)
    s = td_error(TD_PERMISSION_DENIED, "the session is another process's");
  if (td_ok(s) && h->state != TD_HOSTED_OPEN)
    s = td_error(TD_FAILED_PRECONDITION, "the session is being closed");
  if (td_ok(s)) s = td_hosted_look(h, m);
  if (td_ok(s))
    h->lease = m->lease > 0 && m->lease < LEASE_MOST ? m->lease : LEASE_MOST;
  say_opened(p, id, m->view, s);
  td_status_release(s);
  return true;
}

/* ---- ending -------------------------------------------------------------- */

/* On the pool: variables may be large, and kernels' states have a drop each. */
static void let_go(td_task *task) {
  td_hosted *h = (td_hosted *)((char *)task - offsetof(td_hosted, end));
  td_remote *r = h->of;
  h->local->ops->close(h->local);
  td_remote_enter(r);
  td_hosted_release(h);
  td_remote_leave(r);
  td_remote_release(r);
}

static void submit(td_task *task) {
  td_hosted *h = (td_hosted *)((char *)task - offsetof(td_hosted, end));
  h->end.run = let_go;
  td_pool_submit(&h->end);
}

static void say_closed(td_hosted *h) {
  td_head head;
  Td__Remote__Handles body = TD__REMOTE__HANDLES__INIT;
  td_head_init(&head, &h->id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_CLOSED;
  head.closed = &body;
  if (h->master->health.state != TD_DEAD) td_peer_say(h->master, &head);
}

static void rest(td_hosted *h) {
  td_remote *r = h->of;
  if (h->state != TD_HOSTED_CLOSING || h->steps) return;
  for (size_t i = 0; i < h->rolls.len; i++)
    if (h->rolls.at[i]->compiling) return;
  h->state = TD_HOSTED_GONE;
  for (size_t i = 0; i < r->hosted.len; i++)
    if (r->hosted.at[i] == h) r->hosted.at[i] = r->hosted.at[--r->hosted.len];
  td_hosted_rolls_drop(h);
  say_closed(h);
  td_remote_retain(r);
  h->end.run = submit;
  td_remote_after(r, &h->end); /* the session's own share goes with it */
}

static void close_session(td_hosted *h, td_status *why) {
  td_cell(TD_CELLS_SESSION, h->state, TD_MASTER_GONE);
  if (h->state != TD_HOSTED_OPEN) {
    td_status_release(why);
    return;
  }
  h->state = TD_HOSTED_CLOSING;
  td_transfer_withdraw(h->of, &h->id, 0);
  td_hosted_unpark(h, INT64_MAX);
  for (int i = 0; i < TD_TOMBSTONES; i++) {
    td_status_release(h->tombs[i].cause);
    h->tombs[i] = (td_tombstone){0};
  }
  td_hosted_stop(h, -1, why);
  rest(h);
}

/* Nobody is left who could close it. */
static void end_orphan(td_hosted *h, td_status *why) {
  if (TD_BUG(TD_BUG_LEAKED_SESSION))
    td_status_release(why);
  else
    close_session(h, why);
}

void td_worker_close_all(td_remote *r) {
  for (size_t i = r->hosted.len; i-- > 0;)
    if (i < r->hosted.len)
      close_session(r->hosted.at[i],
                    td_error(TD_UNAVAILABLE, "the worker is being closed"));
}

/* ---- others -------------------------------------------------------------- */

/* Does a session of another master know it? Then it is not this one's to end.
 */
static bool is_of_others(const td_hosted *h, const td_peer *p) {
  const td_remote *r = h->of;
  for (size_t i = 0; i < r->hosted.len; i++) {
    const td_hosted *o = r->hosted.at[i];
    if (o->master != h->master &&
        (o->master == p || td_hosted_task_of(o, p) >= 0))
      return true;
  }
  return false;
}

/* The place that is meant; -1: it is not known here. */
static int32_t fenced_task(const td_hosted *h, const Td__Remote__Fence *m) {
  bool known = m->place < h->tasks.len &&
               h->tasks.at[m->place].incarnation == m->incarnation;
  return known ? (int32_t)m->place : -1;
}

/* One that is there again has another place, and its links serve that. */
static void fence(td_hosted *h, const Td__Remote__Fence *m) {
  td_cell(TD_CELLS_SESSION, h->state, TD_OTHER_FENCED);
  td_remote *r = h->of;
  if (m->incarnation == r->incarnation) {
    if (m->place == h->place)
      close_session(h, td_error(TD_UNAVAILABLE, "it was fenced out"));
    return;
  }
  int32_t task = fenced_task(h, m);
  bool again = task >= 0 && td_hosted_task(h, m->incarnation) > task;
  td_peer *p = again ? NULL : td_hosted_known(h, task);
  td_status *why = td_status_about(
      td_error(TD_UNAVAILABLE, "the master says that %s is dead", m->task),
      m->task);
  if (task >= 0) {
    td_hosted_stop(h, task, td_status_retain(why));
    h->tasks.at[task].fenced = true;
  }
  if (p && p != h->master && !is_of_others(h, p))
    td_peer_end(p, TD_ENDED, why);
  else
    td_status_release(why);
}

/* What was on its way there is lost, for steps too that are over here. */
static void say_lost(td_hosted *h, td_peer *p) {
  td_arena a;
  td_head head;
  Td__Remote__Stop body = TD__REMOTE__STOP__INIT;
  td_status *why = td_peer_lost(p);
  td_arena_init(&a);
  td_head_init(&head, &h->id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_ABORT;
  head.abort = &body;
  body.status = td_wire_status_out(&a, why);
  if (h->state == TD_HOSTED_OPEN)
    td_status_release(td_peer_send(h->master, TD_LANE_CONTROL, &head, NULL, 0));
  td_arena_deinit(&a);
  td_status_release(why);
}

/* A link to a task is dead. There may be two: what counts for what it gets is
 * the one by which that goes, and for what it sends it looks itself. */
static void lost_way(td_hosted *h, int32_t task, td_peer *p) {
  const td_peer *way = h->tasks.at[task].peer;
  if (way ? way != p : td_hosted_known(h, task) != NULL) return;
  td_hosted_stop(h, task, td_peer_lost(p));
  if (way) say_lost(h, p);
}

void td_worker_peer_changed(td_remote *r, td_peer *p) {
  if (p->health.state != TD_DEAD) return;
  for (size_t i = r->hosted.len; i-- > 0;) {
    if (i >= r->hosted.len) continue;
    td_hosted *h = r->hosted.at[i];
    int32_t task = td_hosted_task_of(h, p);
    if (h->master == p) {
      end_orphan(h, td_status_derive(td_peer_lost(p)));
    } else if (task >= 0 && p->incarnation != h->master->incarnation) {
      /* Else it is another link of the master, who is there still. */
      lost_way(h, task, p);
    }
  }
}

void td_worker_tick(td_remote *r, int64_t now, bool stalled) {
  for (size_t i = r->hosted.len; i-- > 0;) {
    if (i >= r->hosted.len) continue;
    td_hosted *h = r->hosted.at[i];
    td_hosted_unpark(h, now);
    td_hosted_steps_tick(h);
    bool out = now - h->master->health.heard >= h->lease;
    if (!out || (now < r->patient && !stalled)) continue;
    end_orphan(h, td_error(TD_UNAVAILABLE,
                           "nothing was heard of the session's master "
                           "for %.0f s",
                           (double)h->lease * 1e-9));
  }
}

/* ---- questions ----------------------------------------------------------- */

/* A question, which is answered outside of the turn. */
typedef struct question {
  td_task task;
  td_hosted *of; /* a share */
  uint64_t id, step;
  int what;
  char *name, *to;
  td_str state, text;
} question;

static void lives_on(td_hosted *h, const char *device, bool drop,
                     td_str *names) {
  td_device **all;
  int n;
  td_status *s =
      td_runtime_devices(h->of->runtime, h->of->cpu_devices, &all, &n);
  if (!td_ok(s)) {
    td_status_release(s);
    return;
  }
  for (int i = 0; i < n; i++) {
    if (*device && strcmp(all[i]->name, device) != 0) continue;
    if (drop)
      h->local->ops->drop(h->local, all[i]);
    else
      h->local->ops->lives(h->local, all[i], names);
  }
  td_runtime_drop_devices(all, n);
}

/* How many serials the ranges have, which ascend; INVALID_ARGUMENT else. */
static td_status *count_ranges(td_bytes from, size_t *out) {
  uint64_t first, last, before = 0, n = 0;
  while (from.len > 0) {
    bool whole =
        td_bytes_get(&from, 8, &first) && td_bytes_get(&from, 8, &last);
    if (!whole || (n > 0 && first <= before) || last < first ||
        last - first >= TD_ROLL_NODES_MOST - n)
      return td_error(TD_INVALID_ARGUMENT, "ranges of nodes that are none");
    n += last - first + 1;
    before = last;
  }
  *out = (size_t)n;
  return NULL;
}

/* Drops what belongs to nodes that are no more. */
static td_status *sweep(td_hosted *h, td_bytes ranges, uint64_t last) {
  td_makers alive = {.last = last};
  size_t n = 0;
  uint64_t from, to;
  TD_TRY(count_ranges(ranges, &n));
  alive.serials = td_calloc(n + 1, sizeof *alive.serials);
  if (!alive.serials) return td_oom();
  while (td_bytes_get(&ranges, 8, &from) && td_bytes_get(&ranges, 8, &to))
    for (; from <= to; from++) alive.serials[alive.n++] = from;
  h->local->ops->sweep(h->local, &alive);
  td_free(alive.serials);
  return NULL;
}

static td_status *answer(question *q) {
  td_hosted *h = q->of;
  const td_participant_ops *ops = h->local->ops;
  td_bytes state = {td_str_c(&q->state), q->state.len};
  switch (q->what) {
  case TD__REMOTE__ASK__WHAT__RENAME:
    return ops->rename(h->local, q->name, *q->to ? q->to : NULL);
  case TD__REMOTE__ASK__WHAT__DROP_ON:
    lives_on(h, q->name, true, NULL);
    break;
  case TD__REMOTE__ASK__WHAT__LIVES_ON:
    lives_on(h, q->name, false, &q->text);
    break;
  case TD__REMOTE__ASK__WHAT__SAVE:
    return ops->save(h->local, &q->text);
  case TD__REMOTE__ASK__WHAT__LOAD:
    return ops->load(h->local, state, &q->text);
  case TD__REMOTE__ASK__WHAT__STATS:
    td_metrics_text(h->of, &q->text);
    break;
  case TD__REMOTE__ASK__WHAT__SWEEP:
    return sweep(h, state, q->step);
  case TD__REMOTE__ASK__WHAT__CLEAR:
    ops->clear(h->local);
    break;
  case TD__REMOTE__ASK__WHAT__RESET:
    td_resources_reset(td_runtime_resources(h->of->runtime), q->name);
    break;
  default:
    break;
  }
  return NULL;
}

static void free_question(question *q) {
  td_str_deinit(&q->state);
  td_str_deinit(&q->text);
  td_free(q->name);
  td_free(q->to);
  td_free(q);
}

static void answer_later(td_task *task) {
  question *q = (question *)task;
  td_hosted *h = q->of;
  td_remote *r = h->of;
  td_status *s = answer(q);
  td_remote_enter(r);
  if (h->state == TD_HOSTED_OPEN)
    td_hosted_answer(h, TD__REMOTE__MESSAGE__BODY_ANSWER, q->id, s,
                     (td_bytes){td_str_c(&q->text), q->text.len});
  td_hosted_release(h);
  td_remote_leave(r);
  td_status_release(s);
  free_question(q);
  td_remote_release(r);
}

static void ask(td_hosted *h, const Td__Remote__Ask *m) {
  question *q = td_calloc(1, sizeof *q);
  if (q) {
    q->name = td_strdup(m->name);
    q->to = td_strdup(m->to);
    td_str_addn(&q->state, (const char *)m->state.data, m->state.len);
  }
  if (!q || !q->name || !q->to || q->state.failed) {
    td_hosted_answer(h, TD__REMOTE__MESSAGE__BODY_ANSWER, m->id, td_oom(),
                     (td_bytes){"", 0});
    if (q) free_question(q);
    return;
  }
  q->task.run = answer_later;
  q->of = h;
  q->id = m->id;
  q->what = (int)m->what;
  q->step = m->step;
  if (m->what == TD__REMOTE__ASK__WHAT__WHY)
    td_hosted_why(h, m->step, &q->text);
  h->refs++;
  td_remote_retain(h->of);
  td_remote_after(h->of, &q->task);
}

/* ---- messages ------------------------------------------------------------ */

static void to_open(td_hosted *h, td_peer *p, td_message *m) {
  const td_head *d = m->head;
  switch (d->body_case) {
  case TD__REMOTE__MESSAGE__BODY_REGISTER:
    td_hosted_register(h, d->register_);
    break;
  case TD__REMOTE__MESSAGE__BODY_BLOB:
    td_hosted_blob(h, m);
    break;
  case TD__REMOTE__MESSAGE__BODY_UNREGISTER:
    td_hosted_unregister(h, d->unregister);
    break;
  case TD__REMOTE__MESSAGE__BODY_RUN:
    td_hosted_run(h, m);
    break;
  case TD__REMOTE__MESSAGE__BODY_CANCEL:
    td_hosted_cancel(h, d->cancel);
    break;
  case TD__REMOTE__MESSAGE__BODY_FENCE:
    fence(h, d->fence);
    break;
  case TD__REMOTE__MESSAGE__BODY_ASK:
    ask(h, d->ask);
    break;
  case TD__REMOTE__MESSAGE__BODY_CLOSE:
    note_closed(h->of, &h->id, d->close);
    close_session(h, td_error(TD_CANCELLED, "the session was closed"));
    break;
  default:
    break;
  }
  (void)p;
}

static bool is_for_worker(const td_head *d) {
  switch (d->body_case) {
  case TD__REMOTE__MESSAGE__BODY_REGISTER:
  case TD__REMOTE__MESSAGE__BODY_BLOB:
  case TD__REMOTE__MESSAGE__BODY_UNREGISTER:
  case TD__REMOTE__MESSAGE__BODY_RUN:
  case TD__REMOTE__MESSAGE__BODY_CANCEL:
  case TD__REMOTE__MESSAGE__BODY_FENCE:
  case TD__REMOTE__MESSAGE__BODY_ASK:
  case TD__REMOTE__MESSAGE__BODY_CLOSE:
    return true;
  default:
    return false;
  }
}

/* CLOSE is said again until CLOSED comes: of a session that is gone, too. */
static bool is_gone(td_peer *p, const td_session_id *id, const td_head *d) {
  td_head head;
  Td__Remote__Handles body = TD__REMOTE__HANDLES__INIT;
  td_cell(TD_CELLS_SESSION, TD_HOSTED_GONE,
          d->body_case == TD__REMOTE__MESSAGE__BODY_RUN      ? TD_RUN_NEW
          : d->body_case == TD__REMOTE__MESSAGE__BODY_TENSOR ? TD_VALUE_OLD
          : d->body_case == TD__REMOTE__MESSAGE__BODY_FENCE  ? TD_OTHER_FENCED
          : d->body_case == TD__REMOTE__MESSAGE__BODY_CANCEL ? TD_CANCEL_EARLY
                                                             : TD_MASTER_GONE);
  if (d->body_case != TD__REMOTE__MESSAGE__BODY_CLOSE) return false;
  note_closed(p->of, id, d->close);
  td_head_init(&head, id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_CLOSED;
  head.closed = &body;
  td_peer_say(p, &head);
  return true;
}

/* A worker's own part in a step that goes wrong. */
static void aborted(td_hosted *h, td_peer *p, const Td__Remote__Stop *m) {
  td_status *why = td_wire_status_in(m->status, p->task);
  int32_t task = td_hosted_task_of(h, p);
  if (task >= 0 && why)
    td_hosted_stop(h, task, td_status_derive(why));
  else
    td_status_release(why);
}

bool td_worker_message(td_peer *p, td_message *m) {
  td_remote *r = p->of;
  const td_head *d = m->head;
  td_session_id id = {d->session_high, d->session_low};
  if (d->body_case == TD__REMOTE__MESSAGE__BODY_OPEN)
    return open_session(r, p, &id, d->open, NULL);
  if (d->body_case == TD__REMOTE__MESSAGE__BODY_KEEP)
    return !d->keep->open || open_session(r, p, &id, d->keep->open, d->keep);
  td_hosted *h = td_hosted_find(r, &id);
  if (!h) return r->serve && is_gone(p, &id, d);
  if (d->body_case == TD__REMOTE__MESSAGE__BODY_TENSOR)
    td_hosted_tensor(h, p, m);
  else if (d->body_case == TD__REMOTE__MESSAGE__BODY_ABORT)
    aborted(h, p, d->abort);
  else if (d->body_case == TD__REMOTE__MESSAGE__BODY_ROOM)
    td_hosted_room(h, p, d->room);
  else if (!is_for_worker(d))
    return false;
  else if (p == h->master)
    to_open(h, p, m);
  return true;
}
