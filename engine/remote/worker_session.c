/* worker_session.c - a session of others, as an object: who takes part in it,
 * and which of its steps came.
 *
 * The lowest of the worker's files: what the others do is in td_hosted_hooks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/worker_impl.h"

enum { TASKS_MOST = 4096 };

/* ---- finding ------------------------------------------------------------- */

td_hosted *td_hosted_find(td_remote *r, const td_session_id *id) {
  for (size_t i = 0; i < r->hosted.len; i++)
    if (r->hosted.at[i]->id.high == id->high &&
        r->hosted.at[i]->id.low == id->low)
      return r->hosted.at[i];
  return NULL;
}

/* The last is meant: a process that was thought dead and came back has the
 * place that it had, which is fenced, and another. */
int32_t td_hosted_task(const td_hosted *h, uint64_t incarnation) {
  for (size_t i = h->tasks.len; i-- > 0;)
    if (h->tasks.at[i].incarnation == incarnation) return (int32_t)i;
  return -1;
}

int32_t td_hosted_task_of(const td_hosted *h, const td_peer *p) {
  for (size_t i = h->tasks.len; i-- > 0;)
    if (h->tasks.at[i].incarnation == p->incarnation &&
        td_peer_proves(p, h->tasks.at[i].key))
      return (int32_t)i;
  return -1;
}

td_peer *td_hosted_known(const td_hosted *h, int32_t task) {
  if (task < 0 || (size_t)task >= h->tasks.len) return NULL;
  const td_view_task *t = &h->tasks.at[task];
  if (t->incarnation == h->master->incarnation) return h->master;
  return td_peer_find(h->of, t->incarnation, t->key);
}

static td_status *dial_task(td_hosted *h, td_view_task *t) {
  td_dial to = {t->control, *t->data ? t->data : NULL, *t->key ? t->key : NULL};
  if (!*t->control)
    return td_status_about(
        td_error(TD_UNAVAILABLE, "%s cannot be reached from here", t->task),
        t->task);
  return td_peer_dial_to(h->of, &to, t->task, t->incarnation, &t->peer);
}

/* Rather a new connection than one that was lost, or is not heard any more, or
 * on which nothing moves. */
static bool is_way(const td_peer *p, const td_view_task *t) {
  return (p->health.state != TD_SUSPECT && !td_peer_lags(p)) || !*t->control;
}

td_status *td_hosted_peer(td_hosted *h, int32_t task, td_peer **out) {
  if (task < 0 || (size_t)task >= h->tasks.len)
    return td_error(TD_UNAVAILABLE,
                    "%s knows %zu tasks of the session, and was not told of "
                    "task %d",
                    td_runtime_place(h->of->runtime), h->tasks.len, (int)task);
  td_view_task *t = &h->tasks.at[task];
  if (t->fenced)
    return td_status_about(
        td_error(TD_UNAVAILABLE, "the master says that %s is dead", t->task),
        t->task);
  if (t->peer && t->peer->health.state == TD_DEAD) {
    td_peer_release(t->peer); /* the way there may be open by now: the master,
                                 who would have said so, has it still */
    t->peer = NULL;
  }
  if (!t->peer) {
    td_peer *p = td_hosted_known(h, task);
    if (p && (p == h->master || is_way(p, t)))
      t->peer = td_peer_retain(p);
    else
      TD_TRY(dial_task(h, t));
  }
  if (t->peer->health.state == TD_DEAD) return td_peer_lost(t->peer);
  *out = t->peer;
  return NULL;
}

/* ---- opening ------------------------------------------------------------- */

static void drop_task(td_view_task *t) {
  td_peer_release(t->peer);
  td_free(t->task);
  td_free(t->control);
  td_free(t->data);
  td_free(t->key);
  *t = (td_view_task){0};
}

static void drop_tasks(td_hosted *h) {
  for (size_t i = 0; i < h->tasks.len; i++) drop_task(&h->tasks.at[i]);
  td_vec_free(&h->tasks);
}

static td_status *put_task(td_hosted *h, size_t i,
                           const Td__Remote__Task *from) {
  td_view_task t = {td_strdup(from->task),
                    td_strdup(from->control),
                    td_strdup(from->data),
                    td_strdup(from->key),
                    from->incarnation,
                    NULL,
                    false,
                    false};
  bool whole = t.task && t.control && t.data && t.key;
  if (whole && i == h->tasks.len)
    whole = td_vec_push(&h->tasks, (td_view_task){0});
  if (!whole) {
    drop_task(&t);
    return td_oom();
  }
  drop_task(&h->tasks.at[i]);
  h->tasks.at[i] = t;
  return NULL;
}

/* Who hung up, and was not heard to, is found out before steps begin. */
static void poke_all(const td_hosted *h) {
  for (size_t i = 0; i < h->tasks.len; i++) {
    td_peer *p = td_hosted_known(h, (int32_t)i);
    if (p && p != h->master) td_peer_poke(p);
  }
}

/* Tasks are added at the end only: edges name them by place. One that was
 * restarted has another incarnation there. */
td_status *td_hosted_look(td_hosted *h, const Td__Remote__Open *m) {
  if (m->view <= h->view) return NULL;
  if (m->n_task > TASKS_MOST || m->n_task < h->tasks.len)
    return td_error(TD_INVALID_ARGUMENT, "a session of %zu tasks", m->n_task);
  for (size_t i = 0; i < m->n_task; i++)
    if (i >= h->tasks.len ||
        h->tasks.at[i].incarnation != m->task[i]->incarnation)
      TD_TRY(put_task(h, i, m->task[i]));
  h->view = m->view;
  h->slow_link = m->slow_link;
  poke_all(h);
  return NULL;
}

/* ---- life ---------------------------------------------------------------- */

void td_hosted_release(td_hosted *h) {
  if (!h || --h->refs > 0) return;
  td_peer_release(h->master);
  drop_tasks(h);
  td_participant_release(h->local);
  td_free(h);
}

void td_hosted_answer(td_hosted *h, int body_case, uint64_t id,
                      const td_status *s, td_bytes text) {
  td_arena a;
  td_head head;
  Td__Remote__Answer body = TD__REMOTE__ANSWER__INIT;
  td_arena_init(&a);
  td_head_init(&head, &h->id);
  head.body_case = (Td__Remote__Message__BodyCase)body_case;
  head.answer = &body; /* one field of the union for all of its kind */
  body.id = id;
  body.status = td_wire_status_out(&a, s);
  body.text.data = (uint8_t *)text.at;
  body.text.len = text.len;
  td_status *st = td_peer_send(h->master, TD_LANE_CONTROL, &head, NULL, 0);
  if (td_ok(s) && text.len > 0 && !td_ok(st)) /* too long, as it is */
    td_hosted_answer(h, body_case, id, st, (td_bytes){"", 0});
  td_status_release(st);
  td_arena_deinit(&a);
}

/* ---- which steps were seen ----------------------------------------------- */

static void set_seen(td_hosted *h, uint64_t step, bool on) {
  uint64_t i = step % TD_STEP_WINDOW;
  uint64_t bit = (uint64_t)1 << (i % 64);
  h->seen[i / 64] = on ? h->seen[i / 64] | bit : h->seen[i / 64] & ~bit;
}

bool td_hosted_step_seen(const td_hosted *h, uint64_t step) {
  if (step > h->highest) return false;
  if (h->highest - step >= TD_STEP_WINDOW) return true;
  uint64_t i = step % TD_STEP_WINDOW;
  return h->seen[i / 64] >> (i % 64) & 1;
}

void td_hosted_step_note(td_hosted *h, uint64_t step) {
  uint64_t ahead = step > h->highest ? step - h->highest : 1;
  if (ahead > TD_STEP_WINDOW) ahead = TD_STEP_WINDOW;
  for (uint64_t i = 1; i < ahead; i++) set_seen(h, step - i, false);
  if (step > h->highest) h->highest = step;
  set_seen(h, step, true);
}

td_hosted_step *td_hosted_step_find(const td_hosted *h, uint64_t number) {
  td_hosted_step *step = h->steps;
  while (step && step->number != number) step = step->next;
  return step;
}

void td_hosted_step_use(td_hosted_step *step) {
  step->refs++;
  step->users++;
  td_remote_retain(step->of->of);
}
