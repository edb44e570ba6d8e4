/* keeper_session.c - a kept session, as an object: shares, and its end.
 *
 * The lowest of the keeper's files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/remote/keeper_impl.h"

/* ---- life ---------------------------------------------------------------- */

static void kept_free(td_kept_session *k) {
  td_kept_loops_drop(k);
  td_session_release(k->session);
  td_graph_release(k->graph);
  td_map_deinit(&k->known);
  td_vec_free(&k->loops);
  td_vec_free(&k->guests);
  pthread_mutex_destroy(&k->lock);
  td_remote_release(k->of);
  td_free(k->name);
  td_free(k);
}

td_kept_session *td_kept_retain(td_kept_session *k) {
  __atomic_fetch_add(&k->refs, 1, __ATOMIC_RELAXED);
  return k;
}

void td_kept_release(td_kept_session *k) {
  if (k && __atomic_sub_fetch(&k->refs, 1, __ATOMIC_ACQ_REL) == 0) kept_free(k);
}

/* ---- ends ---------------------------------------------------------------- */

/* The list's share, or NULL. */
static td_kept_session *take(td_remote *r, td_kept_session *k) {
  for (size_t i = 0; r->keeper && i < r->keeper->all.len; i++)
    if (!k || r->keeper->all.at[i] == k) {
      td_kept_session *share = r->keeper->all.at[i];
      r->keeper->all.at[i] = r->keeper->all.at[--r->keeper->all.len];
      share->ended = true;
      return share;
    }
  return NULL;
}

void td_kept_end(td_kept_session *k) {
  td_remote_enter(k->of);
  td_kept_session *share = take(k->of, k);
  td_remote_leave(k->of);
  if (share) td_session_close(share->session);
  td_kept_release(share);
}

void td_keeper_close(td_remote *r) {
  td_remote_retain(r);
  for (td_kept_session *k;;) {
    td_remote_enter(r);
    k = take(r, NULL);
    td_remote_leave(r);
    if (!k) break;
    td_session_close(k->session);
    td_kept_release(k);
  }
  td_remote_enter(r);
  if (r->keeper) td_vec_free(&r->keeper->all);
  td_free(r->keeper);
  r->keeper = NULL;
  td_remote_leave(r);
  td_remote_release(r);
}
