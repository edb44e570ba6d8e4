/* channel_zmq_zap.c - who may connect: the other end of ZAP, by which ZeroMQ
 * asks its own process about each connection that is encrypted (RFC 27).
 *
 * A question is a message: id, "", version, request, domain, address, identity,
 * mechanism, credentials; with CURVE these are the 32 bytes of the public key.
 * All but the key is ZeroMQ's own. It is answered inside of the owner's turn; a
 * connection whose question waits for longer than a handshake may take is tried
 * again by its maker.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/remote/channel_zmq_impl.h"

static const char address[] = "inproc://zeromq.zap.01";

enum { ID, EMPTY, VERSION, REQUEST, MECHANISM = 7, KEY, PARTS, KEY_BYTES = 32 };

td_status *td_zmq_zap_open(td_zmq *c) {
  c->zap.rank = TD_ZMQ_EVENTS;
  TD_TRY(td_zmq_socket_open(c, &c->zap, ZMQ_ROUTER, address));
  if (zmq_bind(c->zap.zmq, address) == 0) {
    td_zmq_socket_look(c, &c->zap);
    return NULL;
  }
  return td_error(TD_INTERNAL, "cannot listen at %s: %s", address,
                  zmq_strerror(zmq_errno()));
}

/* 0: there is no question. What has another number of parts is none. */
static int read_question(td_zmq *c, zmq_msg_t *part) {
  int n = 0;
  bool more = true;
  for (; more; n++) {
    zmq_msg_t m, *to = n < PARTS ? &part[n] : &m;
    zmq_msg_init(to);
    if (zmq_msg_recv(to, c->zap.zmq, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(to);
      return n;
    }
    more = zmq_msg_more(to);
    if (n >= PARTS) zmq_msg_close(to);
  }
  return n;
}

static bool may_come(td_zmq *c, zmq_msg_t *part, char *key) {
  if (zmq_msg_size(&part[MECHANISM]) != 5 ||
      memcmp(zmq_msg_data(&part[MECHANISM]), "CURVE", 5) != 0 ||
      zmq_msg_size(&part[KEY]) != KEY_BYTES)
    return false;
  zmq_z85_encode(key, zmq_msg_data(&part[KEY]), KEY_BYTES);
  return !c->allow || c->allow(c->allow_arg, key);
}

static void answer_text(td_zmq *c, const char *text, int more) {
  zmq_send(c->zap.zmq, text, strlen(text), ZMQ_DONTWAIT | more);
}

static void answer(td_zmq *c, zmq_msg_t *part, bool yes, const char *user) {
  for (int i = ID; i <= REQUEST; i++)
    zmq_msg_send(&part[i], c->zap.zmq, ZMQ_DONTWAIT | ZMQ_SNDMORE);
  answer_text(c, yes ? "200" : "400", ZMQ_SNDMORE);
  answer_text(c, yes ? "OK" : "not on the list", ZMQ_SNDMORE);
  answer_text(c, yes ? user : "", ZMQ_SNDMORE);
  answer_text(c, "", 0);
}

void td_zmq_zap_serve(td_zmq *c) {
  zmq_msg_t part[PARTS];
  int n;
  while ((n = read_question(c, part)) > 0) {
    char key[TD_ZMQ_KEY] = "";
    if (n == PARTS) answer(c, part, may_come(c, part, key), key);
    for (int i = 0; i < n && i < PARTS; i++) zmq_msg_close(&part[i]);
  }
}
