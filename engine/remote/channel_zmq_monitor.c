/* channel_zmq_monitor.c - what becomes of the connections that we dial.
 *
 * ZeroMQ connects and connects again by itself and tells a *monitor*, a socket
 * inside of the process, what it met with. A refusal for the key or the
 * mechanism it takes as final: we hang up then and connect anew each RETRY_NS,
 * since keys are added to lists while processes run. After one without a reason
 * it tries again soon, for ever; of what that was channel_zmq_probe.c finds
 * out more.
 *
 * Of who dials us it tells that a descriptor was closed, and each message says
 * by which one it came; and by tcp how many come (channel_zmq_flood.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/remote/channel_zmq_impl.h"

enum {
  REFUSED_MOST = 3, /* handshakes that end without a reason */
  HEARD = ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_DISCONNECTED |
          ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
          ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH,
  OF_PEERS = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_LISTENING | ZMQ_EVENT_ACCEPTED
};

static const int64_t RETRY_NS = 2000000000;

static td_zmq *channel_of(const td_zmq_link *l) {
  return (td_zmq *)l->base.of;
}

static td_zmq_lane *lane_of(td_zmq *c, td_zmq_link *l, td_lane lane) {
  return l ? &l->lane[lane] : &c->listens[lane];
}

td_status *td_zmq_monitor_open(td_zmq *c, td_zmq_link *l, td_lane lane,
                               const char *address) {
  td_zmq_lane *a = lane_of(c, l, lane);
  char name[48];
  snprintf(name, sizeof name, "inproc://monitor-%" PRIu64, c->n_monitors++);
  a->monitor.rank = TD_ZMQ_EVENTS;
  a->monitor.lane = lane;
  a->monitor.link = l;
  TD_TRY(td_zmq_socket_open(c, &a->monitor, ZMQ_PAIR, address));
  /* Who tells waits when nobody listens, and with it all traffic. */
  td_zmq_socket_set(&a->monitor, ZMQ_RCVHWM, 0);
  if (zmq_socket_monitor(a->messages.zmq, name,
                         l ? HEARD
                         : td_zmq_address_is_ipc(address)
                             ? ZMQ_EVENT_DISCONNECTED
                             : OF_PEERS) == 0 &&
      zmq_connect(a->monitor.zmq, name) == 0) {
    td_zmq_socket_look(c, &a->monitor);
    return NULL;
  }
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "cannot watch the connection to %s: %s", address,
                  zmq_strerror(zmq_errno()));
}

void td_zmq_monitor_close(td_zmq *c, td_zmq_link *l, td_lane lane) {
  td_zmq_lane *a = lane_of(c, l, lane);
  if (a->messages.zmq) zmq_socket_monitor(a->messages.zmq, NULL, 0);
  td_zmq_socket_close(c, &a->monitor);
  if (l) td_zmq_probe_close(l, lane);
}

/* ---- refused ---------------------------------------------------------------
 */

/* No more tries for a while. */
static void pause_lane(td_zmq_link *l, td_zmq_lane *a) {
  td_zmq *c = channel_of(l);
  if (a->retry_at) return;
  zmq_disconnect(a->messages.zmq, a->address);
  td_zmq_socket_look(c, &a->messages);
  a->retry_at = td_clock_now() + RETRY_NS;
  if (a->retry_at < c->retry_at)
    __atomic_store_n(&c->retry_at, a->retry_at, __ATOMIC_RELAXED);
}

static void connect_again(td_zmq_link *l, td_zmq_lane *a) {
  a->retry_at = 0;
  a->refused = 0;
  a->dropped = false;
  if (zmq_connect(a->messages.zmq, a->address) != 0)
    td_zmq_trouble(l, TD_TROUBLE_UNREACHED);
  td_zmq_socket_look(channel_of(l), &a->messages);
}

void td_zmq_monitor_retry(td_zmq *c) {
  int64_t now, next = INT64_MAX;
  if (c->retry_at == INT64_MAX || c->retry_at > (now = td_clock_now())) return;
  for (td_zmq_link *l = c->links; l; l = l->next)
    for (int i = 0; i < TD_LANES; i++) {
      td_zmq_lane *a = &l->lane[i];
      if (!a->retry_at || !a->messages.zmq) continue;
      if (a->retry_at <= now)
        connect_again(l, a);
      else if (a->retry_at < next)
        next = a->retry_at;
    }
  __atomic_store_n(&c->retry_at, next, __ATOMIC_RELAXED);
}

/* ---- events ----------------------------------------------------------------
 */

static void refused(td_zmq_link *l, td_zmq_lane *a, td_trouble what) {
  td_zmq_trouble(l, what);
  pause_lane(l, a);
}

/* Refused without a reason, again. */
static void doubt(td_zmq_link *l, td_zmq_lane *a, td_lane lane) {
  if (++a->refused < REFUSED_MOST) return;
  if (a->refused == REFUSED_MOST && td_zmq_probe_open(l, lane)) return;
  td_zmq_probe_read(l, lane);
  td_zmq_met met = td_zmq_probe_met(a);
  td_zmq_probe_close(l, lane);
  a->refused = 0;
  if (met == TD_ZMQ_MET_NOBODY)
    td_zmq_trouble(l, TD_TROUBLE_CLOSED);
  else
    refused(l, a,
            met == TD_ZMQ_MET_CURVE ? TD_TROUBLE_HANDSHAKE
                                    : TD_TROUBLE_MECHANISM);
}

static void hear(td_zmq_link *l, td_zmq_lane *a, td_lane lane, unsigned event,
                 uint32_t value) {
  if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
    a->connected = true;
    a->passed = false; /* what the last one took once its end was heard of */
    a->refused = 0;
    td_zmq_probe_close(l, lane);
  } else if (event == ZMQ_EVENT_DISCONNECTED) {
    if (a->connected) td_zmq_trouble(l, TD_TROUBLE_LOST);
    a->connected = a->passed = false;
    a->dropped = true;
  } else if (event == ZMQ_EVENT_CONNECT_RETRIED) {
    if (!a->dropped) td_zmq_trouble(l, TD_TROUBLE_UNREACHED);
    a->dropped = false;
  } else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
    refused(l, a, TD_TROUBLE_KEY);
  } else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
    bool other = value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH;
    refused(l, a, other ? TD_TROUBLE_MECHANISM : TD_TROUBLE_HANDSHAKE);
  } else {
    doubt(l, a, lane);
  }
}

/* Of who dialled us. */
static void closed(td_zmq *c, td_lane lane, int fd) {
  for (td_zmq_link *l = c->links; l; l = l->next) {
    if (l->base.dialled || l->fd[lane] != fd) continue;
    l->fd[lane] = -1;
    td_zmq_trouble(l, TD_TROUBLE_LOST);
  }
}

static void hear_of_peers(td_zmq *c, td_lane lane, unsigned event, int fd) {
  if (event == ZMQ_EVENT_DISCONNECTED)
    closed(c, lane, fd);
  else if (event == ZMQ_EVENT_LISTENING)
    c->flood.fd[lane] = fd;
  else if (event == ZMQ_EVENT_ACCEPTED)
    td_zmq_flood_came(c, fd);
}

/* A message of two frames: a number of 16 bits and one of 32, then the address.
 */
static bool read_one(td_zmq_socket *s, uint16_t *event, uint32_t *value) {
  char bytes[sizeof *event + sizeof *value];
  int n = zmq_recv(s->zmq, bytes, sizeof bytes, ZMQ_DONTWAIT);
  if (n < 0) return false;
  zmq_recv(s->zmq, NULL, 0, ZMQ_DONTWAIT);
  *event = 0, *value = 0;
  if (n < (int)sizeof bytes) return true;
  memcpy(event, bytes, sizeof *event);
  memcpy(value, bytes + sizeof *event, sizeof *value);
  return true;
}

void td_zmq_monitor_read(td_zmq *c, td_zmq_link *l, td_lane lane) {
  td_zmq_lane *a = lane_of(c, l, lane);
  uint16_t event;
  uint32_t value;
  while (a->monitor.zmq && read_one(&a->monitor, &event, &value))
    if (!l)
      hear_of_peers(c, lane, event, (int)value);
    else if (event & HEARD)
      hear(l, a, lane, event, value);
}

/* The number may be that of a connection which was closed before: that is heard
 * first. */
void td_zmq_monitor_seen(td_zmq_link *l, td_lane lane, int fd) {
  if (l->fd[lane] == fd) return;
  td_zmq_monitor_read(channel_of(l), NULL, lane);
  l->fd[lane] = fd;
}
