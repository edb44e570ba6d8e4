/* wire.h - messages of the Jupyter protocol as ZeroMQ frames.
 *
 *   identities... <IDS|MSG> signature header parent metadata content buffers...
 *
 * The signature is the HMAC of the four parts behind it, over the bytes as they
 * are sent.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_WIRE_H
#define TD_JUPYTER_WIRE_H

#include "engine/base/status.h"
#include "engine/base/str.h"
#include "jupyter/connection.h"
#include "jupyter/request.h"

/* What signs and names messages. Read-only once made, but for `seen`: threads
 * share it. */
typedef struct td_jupyter_wire {
  const char *key;
  bool sha512;
  char session[37]; /* a new one each start: clients see restarts by it */
  char username[64];
  /* signatures that came, so that none comes twice */
  struct td_jupyter_replay *seen;
} td_jupyter_wire;

td_status *td_jupyter_wire_init(td_jupyter_wire *w,
                                const td_jupyter_connection *c) TD_MUST_USE;
void td_jupyter_wire_deinit(td_jupyter_wire *w);
/* A random (version 4) UUID. */
void td_jupyter_wire_uuid(char out[37]);
/* Appends the time now, in UTC, ISO 8601, with its quotes. */
void td_jupyter_wire_now(td_str *out);

/* The signature, in hex, of bytes that are a message of one part. */
void td_jupyter_wire_sign(const td_jupyter_wire *w, td_bytes part,
                          char hex[129]);
bool td_jupyter_wire_signed(const td_jupyter_wire *w, td_bytes part,
                            td_bytes signature);

/* Takes one whole message from the socket and parses it: NULL in *out with
 * TD_UNAVAILABLE when none is waiting, else why it was dropped (bad signature,
 * frames; TD_DATA_LOSS: a header of our own client's that cannot be read).
 * Caller owns *out. */
td_status *td_jupyter_wire_receive(const td_jupyter_wire *w, void *socket,
                                   td_jupyter_request **out) TD_MUST_USE;
/* Parses a message whose signature holds and was not seen before. */
td_status *td_jupyter_wire_check(const td_jupyter_wire *w,
                                 td_jupyter_request *r) TD_MUST_USE;

/* A message to clients. */
typedef struct td_jupyter_reply {
  const td_jupyter_request *to; /* identities and parent; NULL: no parent */
  const char *topic;            /* IOPub: the one frame before; else NULL */
  const char *type;
  td_bytes content, metadata; /* JSON objects; metadata may be empty */
  const td_bytes *buffers;
  int n_buffers;
} td_jupyter_reply;

/* False when the peer is not there, or the socket's queue stays full. *id, when
 * given, gets the message's id. */
bool td_jupyter_wire_send(const td_jupyter_wire *w, void *socket,
                          const td_jupyter_reply *reply, char id[37]);

#endif
