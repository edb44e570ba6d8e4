/* peer_bundle.c - messages that leave together.
 *
 * Each message has a thread of the channel wake up, here and there, and two of
 * them take turns with whoever sends. What a thread says to a peer while it
 * runs what it heard (td_remote_hear) is therefore kept, and goes as one: heads
 * and their frames one after the other, where a head says how many are its
 * own. Only what steps say in passing is kept, and little of it; whatever else
 * is said to the peer sends it off first, so that the order stays.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/remote/remote_impl.h"

enum { BYTES_MOST = 16 << 10 }; /* of one message's frames */

static bool is_of_step(const td_head *head) {
  switch (head->body_case) {
  case TD__REMOTE__MESSAGE__BODY_RUN:
  case TD__REMOTE__MESSAGE__BODY_TENSOR:
  case TD__REMOTE__MESSAGE__BODY_DONE:
    return true;
  default:
    return false;
  }
}

/* Is it among those that are sent off? */
static bool enlist(td_peer *p) {
  td_remote *r = p->of;
  if (p->n_bundle > 0) return true;
  if (r->n_bundled == TD_BUNDLES) return false;
  if (!p->bundle) p->bundle = td_malloc(TD_MESSAGE_FRAMES * sizeof *p->bundle);
  return p->bundle != NULL;
}

bool td_peer_bundles(td_peer *p, td_lane lane, const td_head *head,
                     const td_raw *frames, int n) {
  size_t bytes = 0;
  if (lane != TD_LANE_CONTROL || !p->of->channel->soon || !is_of_step(head) ||
      !p->welcomed || p->backlog.len > 0)
    return false;
  for (int i = 0; i < n; i++) bytes += frames[i].len;
  return bytes <= BYTES_MOST && p->n_bundle + n + 1 <= TD_MESSAGE_FRAMES &&
         enlist(p);
}

void td_peer_bundle(td_peer *p, const td_raw *frames, int n) {
  td_remote *r = p->of;
  if (p->n_bundle == 0) {
    p->refs++;
    r->bundled[r->n_bundled] = p;
    __atomic_store_n(&r->n_bundled, r->n_bundled + 1, __ATOMIC_RELAXED);
  }
  memcpy(p->bundle + p->n_bundle, frames, (size_t)n * sizeof *frames);
  p->n_bundle += n;
}

void td_peer_drop_bundle(td_peer *p) {
  for (int i = 0; i < p->n_bundle; i++) td_raw_release(&p->bundle[i]);
  p->n_bundle = 0;
}
