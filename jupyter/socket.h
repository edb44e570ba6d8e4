/* socket.h - the five sockets of a kernel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_SOCKET_H
#define TD_JUPYTER_SOCKET_H

#include "jupyter/connection.h"

/* Opens and binds all, encrypted when the connection has keys; ports that were
 * left open are filled in. Sockets that are open when it fails stay so. */
td_status *td_jupyter_socket_open_all(
    td_jupyter_connection *c, void *context, void *heart_context,
    void *sockets[TD_JUPYTER_N_CHANNELS]) TD_MUST_USE;

#endif
