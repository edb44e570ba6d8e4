/* channel_zmq.c - the channel over ZeroMQ.
 *
 * A channel has a context of its own with two threads, which carry one lane
 * each: what is small and prompt waits for no tensor. Who listens has a ROUTER
 * for each lane, who dials a DEALER for each lane of each link; a link is never
 * used again for another peer (channel_zmq_link.c).
 *
 * By tcp all is encrypted (CURVE), on this machine too, where any user may
 * connect; by ipc nothing, in a folder that only we may enter. ZeroMQ's own
 * heartbeats are off: the owner's tell more. With ZMQ_IMMEDIATE a message is
 * kept only for a connection that is there, and goes with it.
 *
 * Names of hosts that are dialled are looked up by the lane's thread, which
 * does nothing else meanwhile.
 *
 * A message without an end (frame after frame) is with ZeroMQ until it has one:
 * its limits hold for a frame. Only who has a key that is on the list can do
 * that.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/remote/channel_zmq_impl.h"

enum {
  THREADS = 2,
  SOCKETS_MOST = 8192,
  HANDSHAKE_MS = 5000,
  RECONNECT_MS = 100,
  RECONNECT_MOST_MS = 2000,
  KEEPALIVE_S = 30,
  SEND_MOST = 4096, /* messages: what has no bytes to be counted */
  OVERHEAD = 1024,  /* of a frame that is encrypted */
  BURST = 16        /* messages of a socket in a row */
};

/* Messages that ZeroMQ reads ahead, of a peer. */
static const int receive_most[TD_LANES] = {256, 64};

/* ---- sockets ---------------------------------------------------------------
 */

static td_status *open_socket(td_zmq *c, td_zmq_socket *s, int type,
                              td_lane lane, const char *to) {
  s->lane = lane;
  s->rank = lane == TD_LANE_CONTROL ? TD_ZMQ_CONTROL : TD_ZMQ_DATA;
  TD_TRY(td_zmq_socket_open(c, s, type, to));
  uint64_t thread = UINT64_C(1) << lane;
  zmq_setsockopt(s->zmq, ZMQ_AFFINITY, &thread, sizeof thread);
  int64_t frame_most = TD_FRAME_MOST + OVERHEAD;
  zmq_setsockopt(s->zmq, ZMQ_MAXMSGSIZE, &frame_most, sizeof frame_most);
  td_zmq_socket_set(s, ZMQ_SNDHWM, SEND_MOST);
  td_zmq_socket_set(s, ZMQ_RCVHWM, receive_most[lane]);
  td_zmq_socket_set(s, ZMQ_IMMEDIATE, 1);
  td_zmq_socket_set(s, ZMQ_HANDSHAKE_IVL, c->handshake_ms);
  td_zmq_socket_set(s, ZMQ_CONNECT_TIMEOUT, c->handshake_ms);
  td_zmq_socket_set(s, ZMQ_RECONNECT_IVL, RECONNECT_MS);
  td_zmq_socket_set(s, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MOST_MS);
  td_zmq_socket_set(s, ZMQ_TCP_KEEPALIVE, 1);
  td_zmq_socket_set(s, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_S);
  return NULL;
}

static td_status *set_key(td_zmq_socket *s, int option, const char *key) {
  if (zmq_setsockopt(s->zmq, option, key, TD_ZMQ_KEY) == 0) return NULL;
  return td_error(TD_UNIMPLEMENTED, "this ZeroMQ cannot encrypt: %s",
                  zmq_strerror(zmq_errno()));
}

/* ---- keys ------------------------------------------------------------------
 */

/* Copies a key of Z85; NULL is "". */
static td_status *copy_key(const char *what, const char *key,
                           char out[TD_ZMQ_KEY]) {
  uint8_t bytes[32];
  out[0] = '\0';
  if (!key) return NULL;
  if (strlen(key) != TD_ZMQ_KEY - 1 || !zmq_z85_decode(bytes, key))
    return td_error(TD_INVALID_ARGUMENT,
                    "the %s is not one: a key has %d characters of Z85 "
                    "(tide keygen makes a pair)",
                    what, TD_ZMQ_KEY - 1);
  memcpy(out, key, TD_ZMQ_KEY);
  return NULL;
}

static td_status *take_keys(td_zmq *c, const td_channel_zmq_options *o) {
  char pair[TD_ZMQ_KEY] = "";
  TD_TRY(copy_key("public key", o->public_key, c->public_key));
  TD_TRY(copy_key("secret key", o->secret, c->secret));
  if (!c->secret[0] && !c->public_key[0]) return NULL;
  if (c->secret[0] && zmq_curve_public(pair, c->secret) == 0 &&
      strcmp(pair, c->public_key) == 0)
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the secret key and the public key are no pair");
}

static td_status *need_keys(const td_zmq *c, const char *address) {
  if (c->secret[0]) return NULL;
  return td_error(TD_FAILED_PRECONDITION,
                  "%s: what goes by tcp is encrypted, and there is no key "
                  "(tide keygen makes a pair)",
                  address);
}

/* ---- listening -------------------------------------------------------------
 */

static td_status *listen_at(td_zmq *c, td_lane lane, const char *address) {
  td_zmq_socket *s = &c->listens[lane].messages;
  TD_TRY(td_zmq_address_check(address, true));
  TD_TRY(open_socket(c, s, ZMQ_ROUTER, lane, address));
  td_zmq_socket_set(s, ZMQ_ROUTER_MANDATORY, 1);
  /* Who comes again before we have heard that he was gone: without it his
   * messages go nowhere. Nobody else knows his id. */
  td_zmq_socket_set(s, ZMQ_ROUTER_HANDOVER, 1);
  TD_TRY(td_zmq_monitor_open(c, NULL, lane, address));
  if (!td_zmq_address_is_ipc(address)) {
    TD_TRY(need_keys(c, address));
    td_zmq_socket_set(s, ZMQ_CURVE_SERVER, 1);
    TD_TRY(set_key(s, ZMQ_CURVE_SECRETKEY, c->secret));
    zmq_setsockopt(s->zmq, ZMQ_ZAP_DOMAIN, "tide", 4);
    if (!c->zap.zmq) TD_TRY(td_zmq_zap_open(c));
  }
  TD_TRY(td_zmq_address_listen(s, address, &c->listens[lane].address));
  td_zmq_socket_look(c, s);
  return NULL;
}

static td_status *start_listening(td_zmq *c, const td_channel_zmq_options *o) {
  if (!o->listen) return NULL;
  TD_TRY(listen_at(c, TD_LANE_CONTROL, o->listen));
  if (o->listen_data) return listen_at(c, TD_LANE_DATA, o->listen_data);
  char *data = td_zmq_address_for_data(c->listens[TD_LANE_CONTROL].address);
  if (!data) return td_oom();
  td_status *s = listen_at(c, TD_LANE_DATA, data);
  td_free(data);
  return s;
}

/* ---- dialling --------------------------------------------------------------
 */

static td_status *encrypt(td_zmq *c, td_zmq_link *l, td_zmq_lane *a) {
  if (td_zmq_address_is_ipc(a->address)) return NULL;
  if (!l->key[0])
    return td_error(TD_FAILED_PRECONDITION,
                    "%s: what goes by tcp is encrypted, and the key of who "
                    "listens there is not known",
                    a->address);
  TD_TRY(need_keys(c, a->address));
  TD_TRY(set_key(&a->messages, ZMQ_CURVE_SERVERKEY, l->key));
  TD_TRY(set_key(&a->messages, ZMQ_CURVE_PUBLICKEY, c->public_key));
  return set_key(&a->messages, ZMQ_CURVE_SECRETKEY, c->secret);
}

static td_status *connect_lane(td_zmq_link *l, td_lane lane) {
  td_zmq *c = (td_zmq *)l->base.of;
  td_zmq_lane *a = &l->lane[lane];
  a->messages.link = l;
  TD_TRY(open_socket(c, &a->messages, ZMQ_DEALER, lane, a->address));
  zmq_setsockopt(a->messages.zmq, ZMQ_ROUTING_ID, l->id, TD_ZMQ_ID);
  td_zmq_socket_set(&a->messages, ZMQ_IPV6, 1);
  TD_TRY(encrypt(c, l, a));
  TD_TRY(td_zmq_monitor_open(c, l, lane, a->address));
  if (zmq_connect(a->messages.zmq, a->address) != 0)
    return td_error(TD_INVALID_ARGUMENT, "cannot dial %s: %s", a->address,
                    zmq_strerror(zmq_errno()));
  td_zmq_socket_look(c, &a->messages);
  return NULL;
}

static td_status *dial_lane(td_zmq_link *l, td_lane lane, const char *address) {
  td_zmq *c = (td_zmq *)l->base.of;
  td_zmq_lane *a = &l->lane[lane];
  if (a->address || l->stopped)
    return td_error(TD_FAILED_PRECONDITION, "%s: the link has a connection: %s",
                    address, a->address ? a->address : "it was ended");
  TD_TRY(td_zmq_address_check(address, false));
  a->address = td_strdup(address);
  if (!a->address) return td_oom();
  td_status *s = connect_lane(l, lane);
  if (td_ok(s)) return NULL;
  td_zmq_monitor_close(c, l, lane);
  td_zmq_socket_close(c, &a->messages);
  td_free(a->address);
  a->address = NULL;
  return s;
}

static td_status *dial(td_channel *base, const td_dial *to, td_link **out) {
  td_zmq *c = (td_zmq *)base;
  td_zmq_link *l = td_zmq_link_new(c, true);
  if (!l) return td_oom();
  td_status *s = copy_key("peer's public key", to->key, l->key);
  if (td_ok(s)) s = dial_lane(l, TD_LANE_CONTROL, to->control);
  if (td_ok(s) && to->data) s = dial_lane(l, TD_LANE_DATA, to->data);
  if (!td_ok(s)) {
    td_zmq_link_hang_up(l);
    return s;
  }
  if (l->key[0] && !td_zmq_address_is_ipc(to->control)) l->base.key = l->key;
  *out = &l->base;
  return NULL;
}

static td_status *dial_data(td_link *l, const char *address) {
  return dial_lane((td_zmq_link *)l, TD_LANE_DATA, address);
}

/* ---- in turns --------------------------------------------------------------
 */

static td_status *send_message(td_link *l, td_lane lane, td_raw *frames,
                               int n) {
  return td_zmq_send((td_zmq_link *)l, lane, frames, n);
}

static void hang_up(td_link *l) {
  td_zmq_link_hang_up((td_zmq_link *)l);
}

static const char *address_of(const td_channel *base, td_lane lane) {
  return ((const td_zmq *)base)->listens[lane].address;
}

static void serve_events(td_zmq *c) {
  for (td_zmq_socket *s; (s = td_zmq_socket_next(c, TD_ZMQ_EVENTS));) {
    if (s == &c->zap)
      td_zmq_zap_serve(c);
    else if (s->link && s == &s->link->lane[s->lane].probe)
      td_zmq_probe_read(s->link, s->lane);
    else
      td_zmq_monitor_read(c, s->link, s->lane);
  }
}

/* A few messages of the first that is ready. False: none is. */
static bool serve_one(td_zmq *c, td_zmq_rank rank, int *left) {
  td_zmq_socket *s = td_zmq_socket_next(c, rank);
  if (!s) return false;
  int most = *left < BURST ? *left : BURST, n = 0;
  c->reading = s;
  while (n < most && td_zmq_receive(c, s)) n++;
  c->reading = NULL;
  if (n == most) td_zmq_socket_ready(c, s);
  *left -= n;
  return true;
}

static bool drain(td_channel *base, int most) {
  td_zmq *c = (td_zmq *)base;
  int left = most;
  c->draining = true;
  td_zmq_socket_poll(c);
  serve_events(c);
  td_zmq_flood_look(c);
  td_zmq_monitor_retry(c);
  bool told = td_zmq_link_tell(c);
  for (bool more = true; more && left > 0;) {
    more = serve_one(c, TD_ZMQ_CONTROL, &left);
    if (left > 0) more |= serve_one(c, TD_ZMQ_DATA, &left);
  }
  c->draining = false;
  td_zmq_link_bury(c);
  bool more = c->troubled;
  for (int i = 0; i < TD_ZMQ_RANKS; i++) more |= c->first[i] != NULL;
  td_zmq_pending(c, more);
  return told || left < most;
}

static void wait_for(td_channel *base, int64_t until) {
  td_zmq_wait((td_zmq *)base, until);
}

static void wake(td_channel *base) {
  td_zmq_wake((td_zmq *)base);
}

/* ---- life ------------------------------------------------------------------
 */

/* ZeroMQ's threads are its maker's: a forked child leaves all as it is. */
static void free_channel(td_channel *base) {
  td_zmq *c = (td_zmq *)base;
  if (c->pid != getpid()) return;
  for (td_zmq_link *l = c->links; l; l = l->next) {
    c->draining = true; /* frees none of them yet */
    td_zmq_link_hang_up(l);
  }
  td_zmq_link_bury(c);
  for (int i = 0; i < TD_LANES; i++) {
    td_zmq_lane *a = &c->listens[i];
    td_zmq_address_leave(a->address);
    td_zmq_monitor_close(c, NULL, i);
    td_zmq_socket_close(c, &a->messages);
    td_free(a->address);
  }
  td_zmq_socket_close(c, &c->zap);
  if (c->context) zmq_ctx_term(c->context);
  if (c->poll_fd >= 0) close(c->poll_fd);
  if (c->wake_fd >= 0) close(c->wake_fd);
  td_map_deinit(&c->peers);
  td_map_deinit(&c->refused);
  if (c->allow_free) c->allow_free(c->allow_arg);
  td_free(c);
}

static const td_channel_ops ops = {
    .dial = dial,
    .dial_data = dial_data,
    .send = send_message,
    .hang_up = hang_up,
    .address = address_of,
    .drain = drain,
    .wait = wait_for,
    .wake = wake,
    .free = free_channel,
};

static td_status *start(td_zmq *c) {
  struct epoll_event e = {.events = EPOLLIN}; /* no socket: wake_fd */
  c->context = zmq_ctx_new();
  c->poll_fd = epoll_create1(EPOLL_CLOEXEC);
  c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (!c->context || c->poll_fd < 0 || c->wake_fd < 0 ||
      epoll_ctl(c->poll_fd, EPOLL_CTL_ADD, c->wake_fd, &e) != 0)
    return td_error(TD_RESOURCE_EXHAUSTED, "cannot make a channel: %s",
                    strerror(errno));
  zmq_ctx_set(c->context, ZMQ_IO_THREADS, THREADS);
  zmq_ctx_set(c->context, ZMQ_MAX_SOCKETS, SOCKETS_MOST);
  return NULL;
}

td_status *td_channel_zmq_new(const td_channel_zmq_options *o,
                              td_channel **out) {
  td_zmq *c = td_calloc(1, sizeof *c);
  if (!c) {
    if (o->allow_free) o->allow_free(o->allow_arg);
    return td_oom();
  }
  c->base.ops = &ops;
  c->pid = getpid();
  c->poll_fd = c->wake_fd = -1;
  c->retry_at = INT64_MAX;
  c->allow = o->allow;
  c->allow_arg = o->allow_arg;
  c->allow_free = o->allow_free;
  c->handshake_ms = o->handshake_ms > 0 ? o->handshake_ms : HANDSHAKE_MS;
  td_zmq_flood_init(&c->flood, o->connections);
  td_map_init(&c->peers);
  td_map_init(&c->refused);
  td_status *s = start(c);
  if (td_ok(s)) s = take_keys(c, o);
  if (td_ok(s)) s = start_listening(c, o);
  if (td_ok(s)) {
    *out = &c->base;
    return NULL;
  }
  free_channel(&c->base);
  return s;
}
