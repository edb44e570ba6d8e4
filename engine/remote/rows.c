/* rows.c - who is there, and how each is; and taking leave of one.
 *
 * Rows are copied inside of the turn and shown outside of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/remote/master_impl.h"
#include "engine/run/session_members.h"

#define PATIENCE                                                               \
  INT64_C(2000000000) /* ns that a detached worker has to say so */

typedef struct rows {
  TD_VEC(td_remote_row) list;
} rows;

void td_remote_row_deinit(td_remote_row *row) {
#define FREE(field, name) td_free(row->field);
#define LEAVE(field, name)
  TD_REMOTE_ROW(FREE, LEAVE, LEAVE, LEAVE, LEAVE)
#undef FREE
#undef LEAVE
  *row = (td_remote_row){0};
}

/* ---- copying ------------------------------------------------------------- */

static const char *text_of(const td_status *s) {
  return td_ok(s) ? "" : td_status_message(s);
}

/* A row that finds no memory is left out. */
static void add(rows *to, const td_peer *p, const td_status *error,
                const char *last) {
  td_remote_row row = {.task = td_strdup(p->task),
                       .address = td_strdup(p->control ? p->control : ""),
                       .error = td_strdup(text_of(error)),
                       .last = td_strdup(last ? last : ""),
                       .state = td_health_name(p->health.state),
                       .heard =
                           (double)(td_clock_now() - p->health.heard) * 1e-9,
                       .steps = p->steps,
                       .memory = p->memory,
                       .bytes_in = p->bytes_in,
                       .bytes_out = p->bytes_out,
                       .round_trip = p->round_trip,
                       .clock = p->clock,
                       .incarnation = p->incarnation,
                       .pid = p->pid};
  if (row.task && row.address && row.error && row.last &&
      td_vec_push(&to->list, row))
    return;
  td_remote_row_deinit(&row);
}

/* Those that have not left, dead ones too. */
static void add_members(rows *to, const td_master *m) {
  for (size_t i = 0; i < m->members.len; i++) {
    const td_member *w = m->members.at[i];
    bool ended = w->state == TD_MEMBER_ENDED;
    if (!w->closed) add(to, w->peer, ended ? w->error : NULL, w->last);
  }
}

void td_remote_rows(td_remote *r, td_session *s,
                    void (*each)(void *arg, const td_remote_row *row),
                    void *arg) {
  rows copies = {0};
  td_remote_enter(r);
  td_master *m = s ? td_master_of(r, s) : NULL;
  if (m) add_members(&copies, m);
  for (size_t i = 0; !s && i < r->peers.len; i++)
    add(&copies, r->peers.at[i], r->peers.at[i]->error, NULL);
  td_remote_leave(r);
  for (size_t i = 0; i < copies.list.len; i++) {
    each(arg, &copies.list.at[i]);
    td_remote_row_deinit(&copies.list.at[i]);
  }
  td_vec_free(&copies.list);
}

/* ---- one of them --------------------------------------------------------------- */

/* A share of the member of that task which has not left, or NULL. */
static td_member *find_member(td_remote *r, const td_session *s,
                              const char *task) {
  td_member *found = NULL;
  td_remote_enter(r);
  td_master *m = td_master_of(r, s);
  for (size_t i = 0; m && !found && i < m->members.len; i++)
    if (!m->members.at[i]->closed && strcmp(m->members.at[i]->task, task) == 0)
      found = m->members.at[i];
  if (found) td_member_retain(found);
  td_remote_leave(r);
  return found;
}

static td_status *no_member(const char *task) {
  return td_error(TD_NOT_FOUND, "%s takes no part in this session", task);
}

td_status *td_remote_stats(td_remote *r, td_session *s, const char *task,
                           td_str *out) {
  td_member *w = find_member(r, s, task);
  if (!w) return no_member(task);
  td_status *st = td_member_stats(&w->base, out);
  td_participant_release(&w->base);
  return st;
}

static bool has_ended(void *arg) {
  td_member *w = arg;
  td_remote *r = td_member_remote(w);
  td_remote_enter(r);
  bool ended = w->state == TD_MEMBER_ENDED;
  td_remote_leave(r);
  return ended;
}

td_status *td_remote_detach(td_remote *r, td_session *s, const char *task,
                            bool drop) {
  td_member *w = find_member(r, s, task);
  if (!w) return no_member(task);
  td_status *st = td_session_leave(s, &w->base, drop);
  if (td_ok(st))
    (void)td_pump_until(r, td_clock_now() + PATIENCE, NULL, has_ended, w);
  td_participant_release(&w->base);
  return st;
}
