/* registration.c - the handshake with a launcher.
 *
 * Frames there and back: "<IDS|MSG>", the signature of the one that follows, a
 * JSON object. Ours has the kernel's id and its five ports.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/registration.h"

#include <string.h>
#include <zmq.h>

enum { PATIENCE_MS = 10000, MOST = 4096, HEX_MOST = 129 };

static void describe(const td_jupyter_wire *w, const td_jupyter_connection *c,
                     td_str *out) {
  td_str_add(out, "{\"kernel_id\": ");
  const char *id = c->kernel_id ? c->kernel_id : w->session;
  td_str_json(out, id, strlen(id));
  for (int i = 0; i < TD_JUPYTER_N_CHANNELS; i++)
    td_str_addf(out, ", \"%s\": %d",
                td_jupyter_connection_port_name((td_jupyter_channel)i),
                c->port[i]);
  td_str_addc(out, '}');
}

static bool send_frame(void *socket, const char *bytes, size_t len, bool more) {
  return zmq_send(socket, bytes, len, more ? ZMQ_SNDMORE : 0) >= 0;
}

static bool receive_frame(void *socket, char *into, size_t *len) {
  int n = zmq_recv(socket, into, MOST, 0);
  *len = n < 0 ? 0 : n > MOST ? MOST : (size_t)n;
  return n >= 0;
}

/* Drops a frame that nobody asked for. */
static void receive_rest(void *socket) {
  char bytes[MOST];
  int more = 0;
  size_t size = sizeof more, n;
  while (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) == 0 && more &&
         receive_frame(socket, bytes, &n)) {
  }
}

/* Is it one of the launcher's? False also when the time is over. */
static bool is_acknowledged(const td_jupyter_wire *w, void *socket) {
  char delimiter[MOST], signature[MOST], content[MOST];
  size_t n_delimiter, n_signature, n_content;
  bool ok = receive_frame(socket, delimiter, &n_delimiter) &&
            receive_frame(socket, signature, &n_signature) &&
            receive_frame(socket, content, &n_content);
  receive_rest(socket);
  return ok && td_jupyter_wire_signed(w, (td_bytes){content, n_content},
                                      (td_bytes){signature, n_signature});
}

static td_status *exchange(const td_jupyter_wire *w,
                           const td_jupyter_connection *c, void *socket) {
  char hex[HEX_MOST];
  td_str content;
  td_str_init(&content);
  describe(w, c, &content);
  td_jupyter_wire_sign(w, (td_bytes){td_str_c(&content), content.len}, hex);
  bool ok = !content.failed &&
            send_frame(socket, TD_JUPYTER_DELIMITER,
                       strlen(TD_JUPYTER_DELIMITER), true) &&
            send_frame(socket, hex, strlen(hex), true) &&
            send_frame(socket, td_str_c(&content), content.len, false) &&
            is_acknowledged(w, socket);
  td_str_deinit(&content);
  return ok ? NULL
            : td_error(TD_UNAVAILABLE,
                       "the launcher at port %d did not acknowledge our ports "
                       "(or its signature does not fit)",
                       c->registration_port);
}

td_status *td_jupyter_registration_send(const td_jupyter_wire *w,
                                        const td_jupyter_connection *c,
                                        void *context) {
  int ms = PATIENCE_MS, linger = 0;
  td_str endpoint;
  td_str_init(&endpoint);
  td_str_addf(&endpoint, "%s://%s%c%d", c->ipc ? "ipc" : "tcp", c->ip,
              c->ipc ? '-' : ':', c->registration_port);
  void *socket = zmq_socket(context, ZMQ_DEALER);
  td_status *s = NULL;
  if (!socket || zmq_connect(socket, td_str_c(&endpoint)) != 0)
    s = td_error(TD_UNAVAILABLE, "cannot connect to the launcher at %s: %s",
                 td_str_c(&endpoint), zmq_strerror(zmq_errno()));
  if (td_ok(s)) {
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &ms, sizeof ms);
    zmq_setsockopt(socket, ZMQ_SNDTIMEO, &ms, sizeof ms);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    s = exchange(w, c, socket);
  }
  if (socket) zmq_close(socket);
  td_str_deinit(&endpoint);
  return s;
}
