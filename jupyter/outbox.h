/* outbox.h - replies on their way to the thread that owns their socket.
 *
 * A ZeroMQ socket belongs to one thread. Workers put their replies into the
 * queue of the shell's thread or of control's, which sends them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_OUTBOX_H
#define TD_JUPYTER_OUTBOX_H

#include "jupyter/queue.h"
#include "jupyter/wire.h"

/* Leaves a reply to be sent; any thread. Copies the content and the metadata,
 * JSON objects, of which the latter may be NULL. */
void td_jupyter_outbox_post(td_jupyter_queue *outbox, td_jupyter_request *to,
                            const char *type, const td_str *content,
                            const char *metadata);
/* Sends all there are; the socket's thread. */
void td_jupyter_outbox_send(td_jupyter_queue *outbox, const td_jupyter_wire *w,
                            void *socket);

#endif
