/* master_member.c - the session of ours and its members, as objects.
 *
 * The lowest of the master's files: what the others do is not known here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "engine/base/entropy.h"
#include "engine/remote/far_session_impl.h"
#include "engine/remote/master_impl.h"

/* ---- finding ------------------------------------------------------------- */

/* Has the session let go of all, or is nobody left? Then it may be gone, and
 * another in its place in memory. */
static bool is_left(const td_master *m) {
  size_t left = 0;
  for (size_t i = 0; i < m->members.len; i++) left += m->members.at[i]->closed;
  return left == m->members.len && m->coming.len == 0;
}

td_master *td_master_of(td_remote *r, const td_session *s) {
  for (size_t i = 0; i < r->masters.len; i++)
    if (r->masters.at[i]->session == s && !is_left(r->masters.at[i]))
      return r->masters.at[i];
  return NULL;
}

td_master *td_master_find(td_remote *r, uint64_t high, uint64_t low) {
  for (size_t i = 0; i < r->masters.len; i++)
    if (r->masters.at[i]->id.high == high && r->masters.at[i]->id.low == low)
      return r->masters.at[i];
  return NULL;
}

/* The last is meant: one that dropped the session and has it again has the
 * place that it had, which is over, and another. */
td_member *td_member_of_peer(td_master *m, const td_peer *p) {
  for (size_t i = m->members.len; i-- > 0;)
    if (m->members.at[i] && m->members.at[i]->peer == p)
      return m->members.at[i];
  return NULL;
}

int32_t td_master_task_of(const td_master *m, const td_device *d) {
  for (size_t i = 0; i < m->members.len; i++) {
    const td_member *w = m->members.at[i];
    for (size_t k = 0; k < w->devices.len; k++)
      if (w->devices.at[k] == d) return w->place;
  }
  return 0;
}

/* ---- life ---------------------------------------------------------------- */

void td_master_release(td_master *m) {
  td_remote *r = m->of;
  if (--m->refs > 0) return;
  for (size_t i = 0; i < r->masters.len; i++)
    if (r->masters.at[i] == m)
      r->masters.at[i] = r->masters.at[--r->masters.len];
  td_vec_free(&m->members);
  td_vec_free(&m->coming);
  td_free(m);
  td_remote_release(r); /* not the last: whoever is in the turn has one */
}

td_status *td_master_new(td_remote *r, td_session *s, td_master **out) {
  td_master *m = td_calloc(1, sizeof *m);
  if (!m || !td_vec_push(&r->masters, m)) {
    td_free(m);
    return td_oom();
  }
  m->refs = 1;
  m->of = td_remote_retain(r);
  m->session = s;
  m->early_most = TD_MASTER_EARLY;
  m->slow_link = (uint64_t)td_session_slow_link(s);
  m->id = (td_session_id){td_entropy(), td_entropy() | 1};
  *out = m;
  return NULL;
}

void td_member_retain(td_member *m) {
  td_participant_retain(&m->base);
}

/* After the turn, or on the pool. */
static void free_later(td_task *task) {
  td_member *m = (td_member *)((char *)task - offsetof(td_member, task_after));
  td_remote *r = m->master->of;
  td_remote_enter(r);
  td_peer_release(m->peer);
  if (m->was) td_member_release(m->was);
  for (size_t i = 0; i < m->devices.len; i++)
    td_device_release(m->devices.at[i]);
  td_vec_free(&m->devices);
  td_master_release(m->master);
  td_status_release(m->error);
  td_keep_release(m->keep);
  td_free(m->task);
  td_free(m->last);
  td_free(m);
  td_remote_leave(r);
  td_remote_release(r);
}

/* Of a thread of the pool: who lets go of it outside of the turn may hold a
 * lock of the session. */
void td_member_free(td_participant *p) {
  td_member *m = (td_member *)p;
  td_remote_retain(m->master->of);
  m->task_after.run = free_later;
  td_pool_submit(&m->task_after);
}

void td_member_release(td_member *m) {
  if (__atomic_sub_fetch(&m->base.refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  td_remote_retain(m->master->of);
  m->task_after.run = free_later;
  td_remote_after(m->master->of, &m->task_after);
}

td_status *td_member_send(td_member *m, td_lane lane, td_head *head,
                          td_raw *frames, int n) {
  head->session_high = m->master->id.high;
  head->session_low = m->master->id.low;
  return td_peer_send(m->peer, lane, head, frames, n);
}
