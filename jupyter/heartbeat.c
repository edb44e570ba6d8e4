/* heartbeat.c - sends back what it gets, so that clients know we live.
 *
 * A context of its own: nothing that the other sockets do can delay it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <zmq.h>

#include "engine/base/thread.h"
#include "jupyter/kernel_impl.h"

static void *run(void *socket) {
  zmq_proxy(socket, socket, NULL); /* until the context ends */
  zmq_close(socket);
  return NULL;
}

td_status *td_jupyter_heartbeat_start(td_jupyter_kernel *k, void *socket) {
  k->has_heartbeat =
      td_thread_start(&k->heartbeat, "heartbeat", -1, run, socket);
  return k->has_heartbeat
             ? NULL
             : td_error(TD_RESOURCE_EXHAUSTED, "no thread for the heartbeat");
}

void td_jupyter_heartbeat_join(td_jupyter_kernel *k) {
  zmq_ctx_shutdown(k->heart_context);
  if (k->has_heartbeat) pthread_join(k->heartbeat, NULL);
}
