/* peer_room.c - how many processes may have one key here.
 *
 * Who has a key that is on the list may begin as many connections as it likes,
 * each as another incarnation, and would have all places there are: others
 * could not come in. So a key has TD_ROOM places, and TD_ROOM_IDLE for who
 * takes part in no session: of these the one that has been here for the longest
 * time goes when another comes. By ipc there is one user only, and no key.
 *
 * Who finds no place is told so, as REFUSED, and why.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/remote/worker_impl.h"

/* ---- places -------------------------------------------------------------- */

/* Counts: it has dialled us, and lives. */
static bool is_of(const td_peer *p, const char *key) {
  return p->health.state != TD_DEAD && p->link && !p->link->dialled &&
         p->proof && strcmp(p->proof, key) == 0;
}

static bool is_in_view(const td_remote *r, const td_peer *p) {
  for (size_t i = 0; i < r->hosted.len; i++) {
    const td_hosted *h = r->hosted.at[i];
    for (size_t k = 0; k < h->tasks.len; k++)
      if (h->tasks.at[k].incarnation == p->incarnation &&
          td_peer_proves(p, h->tasks.at[k].key))
        return true;
  }
  return false;
}

/* Is it, or what has a link to it beside, of a session? Those of a session
 * share the peer. */
static bool takes_part(const td_remote *r, const td_peer *p) {
  if (p->refs > 1) return true;
  for (size_t i = 0; i < r->peers.len; i++) {
    const td_peer *same = r->peers.at[i];
    if (same->incarnation == p->incarnation && same->refs > 1 &&
        td_peer_proves(same, p->proof))
      return true;
  }
  return is_in_view(r, p);
}

static void refused_as(td_head *head, Td__Remote__Refused *body,
                       const td_status *why) {
  td__remote__refused__init(body);
  td_head_init(head, NULL);
  head->body_case = TD__REMOTE__MESSAGE__BODY_REFUSED;
  head->refused = body;
  body->code = (int32_t)td_status_code(why);
  body->message = td_wire_text(td_status_message(why));
}

/* It takes part in nothing, and another is to have its place. */
static void send_away(td_remote *r, td_peer *p) {
  td_head head;
  Td__Remote__Refused body;
  td_status *why = td_error(
      TD_RESOURCE_EXHAUSTED,
      "%d processes that have one key and take part in no session may be "
      "connected to %s; another came, and this one was there the longest",
      r->room_idle, td_runtime_place(r->runtime));
  refused_as(&head, &body, why);
  td_peer_say(p, &head);
  td_peer_end(p, TD_ENDED, why);
}

static td_status *make_room(td_remote *r, const char *key) {
  td_peer *first = NULL;
  int n = 0, idle = 0;
  for (size_t i = 0; i < r->peers.len; i++) n += is_of(r->peers.at[i], key);
  if (n < r->room_idle && n < r->room) return NULL;
  for (size_t i = 0; i < r->peers.len; i++) {
    td_peer *p = r->peers.at[i];
    if (!is_of(p, key) || takes_part(r, p)) continue;
    idle++;
    if (!first || p->dialled < first->dialled) first = p;
  }
  bool full = n >= r->room;
  if (first && (full || idle >= r->room_idle))
    send_away(r, first);
  else if (full)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "%d processes that have this one's key take part in "
                    "sessions at %s; there may be %d of one key",
                    n, td_runtime_place(r->runtime), r->room);
  return NULL;
}

/* ---- who comes ----------------------------------------------------------- */

/* Of a link that has no peer, and will be hung up. */
static void refuse(td_remote *r, td_link *l, const td_head *got,
                   const td_status *why) {
  td_raw frame;
  td_head head;
  Td__Remote__Refused body;
  refused_as(&head, &body, why);
  head.version = (uint32_t)r->protocol;
  head.from = r->incarnation;
  head.to = got->from;
  td_status *s = td_wire_pack(&head, &frame);
  if (td_ok(s)) {
    s = r->channel->ops->send(l, TD_LANE_CONTROL, &frame, 1);
    if (td_status_code(s) == TD_UNAVAILABLE) td_raw_release(&frame);
  }
  td_status_release(s);
}

td_status *td_peer_let_in(td_remote *r, td_link *l, const td_head *hello) {
  td_peer *p;
  td_status *s = l->key ? make_room(r, l->key) : NULL;
  if (td_ok(s)) s = td_peer_met(r, l, hello->from, &p);
  if (!td_ok(s) && !r->closed) refuse(r, l, hello, s);
  return s;
}
