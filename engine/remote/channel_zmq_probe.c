/* channel_zmq_probe.c - who is it that refused us?
 *
 * ZeroMQ says the same of a worker whose key is not the one given and of a
 * forwarder that takes connections for a worker that is not there: the other
 * side closed the connection during the handshake, with no detail. The first
 * is for good, the second may be over soon. A CURVE server greets before it
 * refuses, and its greeting has the name of its mechanism; so a connection of
 * its own, without ZeroMQ's protocol, greets and looks what is answered.
 *
 * Nobody waits for it: the refusals that follow find its answer, or that there
 * was none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/remote/channel_zmq_impl.h"

/* Of ZMTP 3.1: signature, version, mechanism. */
enum { VERSION = 10, MECHANISM = 12 };
static const uint8_t ours[TD_ZMQ_GREETING] = {
    [0] = 0xff,        [8] = 1, [9] = 0x7f, [VERSION] = 3, [VERSION + 1] = 1,
    [MECHANISM] = 'C', 'U',     'R',        'V',           'E'};

void td_zmq_probe_close(td_zmq_link *l, td_lane lane) {
  td_zmq_socket_close((td_zmq *)l->base.of, &l->lane[lane].probe);
}

bool td_zmq_probe_open(td_zmq_link *l, td_lane lane) {
  td_zmq_lane *a = &l->lane[lane];
  td_zmq *c = (td_zmq *)l->base.of;
  a->probe.rank = TD_ZMQ_EVENTS;
  a->probe.lane = lane;
  a->probe.link = l;
  a->greeted = -1;
  td_status *s = td_zmq_socket_open(c, &a->probe, ZMQ_STREAM, a->address);
  bool open = td_ok(s);
  td_status_release(s);
  if (!open) return false;
  td_zmq_socket_set(&a->probe, ZMQ_IPV6, 1);
  td_zmq_socket_set(&a->probe, ZMQ_RECONNECT_IVL, -1);
  td_zmq_socket_set(&a->probe, ZMQ_CONNECT_TIMEOUT, c->handshake_ms);
  td_zmq_socket_set(&a->probe, ZMQ_LINGER, 0);
  if (zmq_connect(a->probe.zmq, a->address) != 0)
    td_zmq_probe_close(l, lane);
  else
    td_zmq_socket_look(c, &a->probe);
  return a->probe.zmq != NULL;
}

/* A piece of the connection: an empty one is its beginning, or its end. False:
 * there was none. */
static bool read_piece(td_zmq_lane *a) {
  char id[256], piece[256];
  void *s = a->probe.zmq;
  int n = zmq_recv(s, id, sizeof id, ZMQ_DONTWAIT);
  if (n < 0) return false;
  int len = zmq_recv(s, piece, sizeof piece, ZMQ_DONTWAIT);
  if (len > (int)sizeof piece) len = (int)sizeof piece;
  if (a->greeted < 0) { /* it is connected */
    a->greeted = 0;
    (void)zmq_send(s, id, (size_t)n, ZMQ_DONTWAIT | ZMQ_SNDMORE);
    (void)zmq_send(s, ours, sizeof ours, ZMQ_DONTWAIT);
    return true;
  }
  for (int i = 0; i < len && a->greeted < TD_ZMQ_GREETING; i++)
    a->greeting[a->greeted++] = (uint8_t)piece[i];
  return true;
}

void td_zmq_probe_read(td_zmq_link *l, td_lane lane) {
  td_zmq_lane *a = &l->lane[lane];
  while (a->probe.zmq && read_piece(a)) {
  }
}

td_zmq_met td_zmq_probe_met(const td_zmq_lane *a) {
  const uint8_t *g = a->greeting;
  if (a->greeted < TD_ZMQ_GREETING || g[0] != 0xff || !(g[9] & 1))
    return TD_ZMQ_MET_NOBODY;
  bool curve = memcmp(g + MECHANISM, "CURVE", 6) == 0;
  return curve ? TD_ZMQ_MET_CURVE : TD_ZMQ_MET_OTHER;
}
