/* socket.c - opens the five sockets.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/socket.h"

#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum {
  LINGER_MS = 1000,
  SEND_MS = 2000,   /* how long a peer that does not read holds IOPub */
  SEND_MOST = 10000 /* messages that wait for a peer */
};

static void set(void *socket, int option, int value) {
  zmq_setsockopt(socket, option, &value, sizeof value);
}

static void configure(void *socket, int type) {
  set(socket, ZMQ_LINGER, LINGER_MS);
  if (type == ZMQ_XPUB) {
    set(socket, ZMQ_XPUB_VERBOSE, 1);
    set(socket, ZMQ_XPUB_MANUAL, 1);
    set(socket, ZMQ_XPUB_NODROP, 1);
    set(socket, ZMQ_SNDTIMEO, SEND_MS);
    set(socket, ZMQ_SNDHWM, SEND_MOST);
  } else {
    set(socket, ZMQ_ROUTER_HANDOVER, 1);
    set(socket, ZMQ_SNDHWM, 0);
    set(socket, ZMQ_RCVHWM, 0);
  }
}

/* The port that the system chose, when it was left to it. */
static void learn_port(void *socket, int *port) {
  char endpoint[256];
  size_t len = sizeof endpoint;
  zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &len);
  const char *colon = strrchr(endpoint, ':');
  if (*port == 0 && colon) *port = atoi(colon + 1);
}

/* Who has not the server's public key gets no connection. */
static td_status *encrypt(void *socket, const td_jupyter_connection *c) {
  if (!c->curve_secret[0]) return NULL;
  set(socket, ZMQ_CURVE_SERVER, 1);
  if (zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, c->curve_secret,
                     TD_JUPYTER_CURVE_KEY) == 0)
    return NULL;
  return td_error(TD_UNIMPLEMENTED,
                  "the connection file asks for encryption (curve), which this "
                  "ZeroMQ cannot do: %s",
                  zmq_strerror(zmq_errno()));
}

static td_status *open_socket(td_jupyter_connection *c, void *context,
                              td_jupyter_channel channel, int type,
                              void **out) {
  td_str endpoint;
  td_status *s = NULL;
  td_str_init(&endpoint);
  td_jupyter_connection_endpoint(c, channel, &endpoint);
  *out = zmq_socket(context, type);
  if (*out) configure(*out, type);
  if (*out) s = encrypt(*out, c);
  if (td_ok(s) && (!*out || zmq_bind(*out, td_str_c(&endpoint)) != 0))
    s = td_error(TD_UNAVAILABLE, "cannot listen at %s: %s", td_str_c(&endpoint),
                 zmq_strerror(zmq_errno()));
  if (td_ok(s)) learn_port(*out, &c->port[channel]);
  td_str_deinit(&endpoint);
  return s;
}

static const int socket_types[TD_JUPYTER_N_CHANNELS] = {
    ZMQ_ROUTER, ZMQ_XPUB, ZMQ_ROUTER, ZMQ_ROUTER, ZMQ_ROUTER};

td_status *td_jupyter_socket_open_all(td_jupyter_connection *c, void *context,
                                      void *heart_context,
                                      void *sockets[TD_JUPYTER_N_CHANNELS]) {
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i < TD_JUPYTER_N_CHANNELS; i++) {
    void *own = i == TD_JUPYTER_HEARTBEAT ? heart_context : context;
    s = open_socket(c, own, (td_jupyter_channel)i, socket_types[i],
                    &sockets[i]);
  }
  if (td_ok(s)) set(sockets[TD_JUPYTER_STDIN], ZMQ_ROUTER_MANDATORY, 1);
  return s;
}
