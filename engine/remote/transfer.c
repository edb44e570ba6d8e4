/* transfer.c - values between processes: what both ways have in common.
 *
 * Small values ride along with the message that speaks of them. Of a larger one
 * that message says dtype, shape and size only, an *offer*: who wants it takes
 * memory for all of it and asks for chunks (transfer_in.c, transfer_out.c). On
 * one host the offer also names a place in shared memory, from where it is
 * copied without anybody's doing.
 *
 * What a peer can make this process hold is bounded: chunks under way by a
 * window for each value and a number of values, offers by what the steps that
 * made them may take.
 *
 * TIDE_REMOTE_OFF, words with commas between, leaves out: shm, eager (all is
 * offered), wanted (pulled at once), narrow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/remote/same_host.h"
#include "engine/remote/transfer_impl.h"

#define SHARED_PEER ((size_t)512 << 20) /* bytes for one peer */
#define SHARED_ALL ((size_t)1 << 30)
#define VIEWED_ALL ((size_t)1 << 30)
#define TRIM INT64_C(10000000000) /* ns that an idle segment is kept */

static bool is_off(const char *what) {
  return td_runtime_env_has("TIDE_REMOTE_OFF", what);
}

static td_status *share(td_remote *r, td_transfers *t) {
  if (is_off("shm")) return NULL;
  td_same_host_text(&t->host);
  t->segments = td_segments_new(r->incarnation, SHARED_PEER, SHARED_ALL);
  t->views = td_segment_views_new(VIEWED_ALL);
  return t->segments && t->views && !t->host.failed ? NULL : td_oom();
}

td_status *td_transfers_new(td_remote *r, td_transfers **out) {
  td_device *cpu;
  TD_TRY(td_runtime_cpu(r->runtime, 0, &cpu));
  td_transfers *t = td_calloc(1, sizeof *t);
  if (!t) return td_oom();
  t->memory = cpu->memory;
  t->no_eager = is_off("eager");
  t->no_wanted = is_off("wanted");
  t->no_narrow = is_off("narrow");
  td_status *s = share(r, t);
  if (!td_ok(s)) {
    td_transfers_free(t);
    return s;
  }
  *out = t;
  return NULL;
}

void td_transfers_free(td_transfers *t) {
  if (!t) return;
  td_segments_free(t->segments);
  td_segment_views_free(t->views);
  td_str_deinit(&t->host);
  td_free(t);
}

const char *td_transfers_host(const td_remote *r) {
  return td_str_c(&r->transfers->host);
}

void td_peer_values_deinit(td_peer_values *v) {
  td_map_deinit(&v->offers);
  td_map_deinit(&v->transfers);
  td_vec_free(&v->owed);
  td_transfer_drop_eager(v->eager);
}

void td_transfer_peer_dead(td_peer *p) {
  td_transfers *all = p->of->transfers;
  td_transfer_end_offers(p);
  td_transfer_fail_all(p, td_peer_lost(p));
  if (!all->segments || !p->incarnation) return;
  td_segments_drop_peer(all->segments, p->incarnation);
  td_segment_views_drop_peer(all->views, p->incarnation);
}

void td_transfer_tick(td_remote *r, int64_t now) {
  td_transfers *t = r->transfers;
  for (size_t i = 0; i < r->peers.len; i++)
    td_transfer_send_owed(r->peers.at[i]);
  if (!t->segments || now - t->trimmed < TRIM / 10) return;
  t->trimmed = now;
  td_segments_trim(t->segments, now - TRIM);
  td_segment_views_trim(t->views);
}

void td_remote_read_traffic(td_remote *r, td_remote_traffic *out) {
  td_remote_enter(r);
  *out = r->transfers->traffic;
  td_remote_leave(r);
}
