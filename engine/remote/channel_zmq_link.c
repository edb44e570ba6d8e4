/* channel_zmq_link.c - peers: links that we dialled, and those that they made.
 *
 * A dialled link is two sockets of its own. All that dial us share two, where a
 * routing id tells them apart: the same id on both lanes, drawn by who dials,
 * so that nobody can guess another's. Whichever lane brings the first message
 * makes the link. ZeroMQ has no way to hang up on one peer of many: what comes
 * of its id from then on is a stranger's, who can be told so. Whoever broke the
 * rules is refused instead; of ids that are refused the latest
 * TD_ZMQ_PEERS_MOST are known. Whose connection broke comes again with the same
 * id and takes the place of the old connection, be it closed here or not yet.
 *
 * A link has one key. By tcp each message tells which one its connection has
 * proved (channel_zmq_zap.c answers with it): what comes of an id under another
 * is nobody's.
 *
 * Links are hung up inside of callbacks, while lists of them are walked: they
 * are freed after the drain.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/entropy.h"
#include "engine/base/mem.h"
#include "engine/remote/channel_zmq_impl.h"

static td_zmq *channel_of(const td_zmq_link *l) {
  return (td_zmq *)l->base.of;
}

static void draw_id(char id[TD_ZMQ_ID]) {
  uint64_t x = td_entropy();
  id[0] = 'T';
  memcpy(id + 1, &x, sizeof x);
}

td_zmq_link *td_zmq_link_new(td_zmq *c, bool dialled) {
  td_zmq_link *l = td_calloc(1, sizeof *l);
  if (l) l->load = td_zmq_load_new();
  if (!l || !l->load) {
    td_free(l);
    return NULL;
  }
  l->base = (td_link){&c->base, NULL, dialled, NULL};
  for (int i = 0; i < TD_LANES; i++) l->fd[i] = -1;
  if (dialled) draw_id(l->id);
  l->next = c->links;
  c->links = l;
  return l;
}

/* ---- peers -----------------------------------------------------------------
 */

static void refuse(td_zmq *c, const char *id) {
  char *slot = c->refused_order[c->n_refused % TD_ZMQ_PEERS_MOST];
  if (c->n_refused >= TD_ZMQ_PEERS_MOST)
    td_map_removen(&c->refused, slot, TD_ZMQ_ID);
  memcpy(slot, id, TD_ZMQ_ID);
  c->n_refused++;
  if (!td_map_putn(&c->refused, id, TD_ZMQ_ID, c))
    return; /* a new peer, then */
}

static td_zmq_link *new_peer(td_zmq *c, const void *id) {
  if (c->peers.count >= TD_ZMQ_PEERS_MOST) return NULL;
  td_zmq_link *l = td_zmq_link_new(c, false);
  if (!l) return NULL;
  memcpy(l->id, id, TD_ZMQ_ID);
  if (td_map_putn(&c->peers, id, TD_ZMQ_ID, l)) return l;
  td_zmq_link_hang_up(l);
  return NULL;
}

td_zmq_link *td_zmq_link_of(td_zmq *c, const void *id, size_t len) {
  if (len != TD_ZMQ_ID || *(const char *)id != 'T') return NULL;
  td_zmq_link *l = td_map_getn(&c->peers, id, len);
  if (l) return l->stopped ? NULL : l;
  return td_map_getn(&c->refused, id, len) ? NULL : new_peer(c, id);
}

bool td_zmq_link_proves(td_zmq_link *l, zmq_msg_t *m) {
  const char *key = zmq_msg_gets(m, "User-Id");
  if (!key) key = "";
  if (l->known) return strcmp(key, l->key) == 0;
  if (strlen(key) >= TD_ZMQ_KEY) return false;
  memcpy(l->key, key, strlen(key) + 1);
  l->base.key = l->key[0] ? l->key : NULL;
  l->known = true;
  return true;
}

/* ---- ends ------------------------------------------------------------------
 */

static void close_lanes(td_zmq_link *l) {
  for (int i = 0; i < TD_LANES; i++) {
    td_zmq_monitor_close(channel_of(l), l, i);
    td_zmq_socket_close(channel_of(l), &l->lane[i].messages);
    l->lane[i].connected = false;
  }
}

void td_zmq_link_stop(td_zmq_link *l) {
  if (l->stopped || l->gone) return;
  l->stopped = true;
  close_lanes(l);
  td_zmq_trouble(l, TD_TROUBLE_LOST);
}

void td_zmq_link_hang_up(td_zmq_link *l) {
  td_zmq *c = channel_of(l);
  if (l->gone) return;
  l->gone = true;
  c->n_gone++;
  close_lanes(l);
  if (!l->base.dialled && td_map_removen(&c->peers, l->id, TD_ZMQ_ID) &&
      l->stopped)
    refuse(c, l->id);
  if (!c->draining) td_zmq_link_bury(c);
}

static void free_link(td_zmq_link *l) {
  for (int i = 0; i < TD_LANES; i++) td_free(l->lane[i].address);
  td_zmq_load_release(l->load);
  td_free(l);
}

void td_zmq_link_bury(td_zmq *c) {
  if (c->n_gone == 0) return;
  td_zmq_socket_purge(c);
  for (td_zmq_link **at = &c->links, *l; (l = *at);) {
    if (!l->gone) {
      at = &l->next;
      continue;
    }
    *at = l->next;
    free_link(l);
  }
  c->n_gone = 0;
}

/* ---- trouble ---------------------------------------------------------------
 */

bool td_zmq_link_tell(td_zmq *c) {
  bool any = false;
  if (!c->troubled) return false;
  c->troubled = false;
  for (td_zmq_link *l = c->links; l; l = l->next) {
    unsigned bits = l->trouble;
    l->trouble = 0;
    for (int what = 0; bits >> what; what++) {
      if (!(bits >> what & 1) || l->gone) continue;
      any = true;
      c->base.events.trouble(c->base.events.arg, &l->base, (td_trouble)what);
    }
  }
  return any;
}
