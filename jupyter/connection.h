/* connection.h - where a kernel listens, and with which key.
 *
 * Read from the file that a client wrote (its path is `tide kernel`'s
 * argument), or made up and written for clients to find.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_CONNECTION_H
#define TD_JUPYTER_CONNECTION_H

#include "engine/base/status.h"
#include "engine/base/str.h"

typedef enum td_channel {
  TD_SHELL,
  TD_IOPUB,
  TD_STDIN,
  TD_CONTROL,
  TD_HEARTBEAT,
  TD_N_CHANNELS
} td_channel;

typedef struct td_connection {
  bool ipc;                /* else tcp */
  char *ip;                /* for ipc: the path that "-PORT" follows */
  int port[TD_N_CHANNELS]; /* 0: any */
  char *key;               /* as it stands in the file; "" signs nothing */
  bool sha512;             /* else HMAC-SHA256 */
} td_connection;

td_status *td_connection_read(td_connection *c, const char *path) TD_MUST_USE;
/* A key, and any ports, on the loopback address. */
td_status *td_connection_make(td_connection *c) TD_MUST_USE;
/* Readable by its owner alone. */
td_status *td_connection_write(const td_connection *c,
                               const char *path) TD_MUST_USE;
void td_connection_deinit(td_connection *c);
/* "tcp://127.0.0.1:5555", for bind; port 0 is "*". */
void td_connection_endpoint(const td_connection *c, td_channel channel,
                            td_str *out);

#endif
