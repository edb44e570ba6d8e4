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

typedef enum td_jupyter_channel {
  TD_JUPYTER_SHELL,
  TD_JUPYTER_IOPUB,
  TD_JUPYTER_STDIN,
  TD_JUPYTER_CONTROL,
  TD_JUPYTER_HEARTBEAT,
  TD_JUPYTER_N_CHANNELS
} td_jupyter_channel;

enum { TD_JUPYTER_CURVE_KEY = 40 }; /* characters of a key, in Z85 */

typedef struct td_jupyter_connection {
  bool ipc; /* else tcp */
  char *ip; /* for ipc: the path that "-PORT" follows */
  int port[TD_JUPYTER_N_CHANNELS]; /* 0: any */
  char *key;             /* as it stands in the file; "" signs nothing */
  bool sha512;           /* else HMAC-SHA256 */
  int registration_port; /* of a registration file; else 0 */
  char *kernel_id;       /* what the launcher calls us, or NULL */
  char curve_public[TD_JUPYTER_CURVE_KEY + 1]; /* in Z85; "" without CURVE */
  char curve_secret[TD_JUPYTER_CURVE_KEY + 1];
} td_jupyter_connection;

td_status *td_jupyter_connection_read(td_jupyter_connection *c,
                                      const char *path) TD_MUST_USE;
/* A key, and any ports, on the loopback address. */
td_status *td_jupyter_connection_make(td_jupyter_connection *c) TD_MUST_USE;
/* Readable by its owner alone. */
td_status *td_jupyter_connection_write(const td_jupyter_connection *c,
                                       const char *path) TD_MUST_USE;
void td_jupyter_connection_deinit(td_jupyter_connection *c);
/* "shell_port", ... */
const char *td_jupyter_connection_port_name(td_jupyter_channel channel);
/* "tcp://127.0.0.1:5555", for bind; port 0 is "*". */
void td_jupyter_connection_endpoint(const td_jupyter_connection *c,
                                    td_jupyter_channel channel, td_str *out);

#endif
