/* iopub.h - what everybody watching sees: status, output, results.
 *
 * One thread owns the XPUB socket; others put messages into its queue
 * (iopub_queue.h), which keeps their order. It collects the text of each cell
 * (output.h) and thins the updates of displays (updates.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_IOPUB_H
#define TD_JUPYTER_IOPUB_H

#include "jupyter/wire.h"

typedef struct td_jupyter_iopub td_jupyter_iopub;

/* Takes over `socket`, a bound XPUB. `wire` is borrowed. `limit`: how many
 * bytes of text a cell may show; 0: any. */
td_status *td_jupyter_iopub_new(td_jupyter_iopub **out,
                                const td_jupyter_wire *wire, void *socket,
                                size_t limit) TD_MUST_USE;
/* Sends what is queued, closes the socket, ends the thread. */
void td_jupyter_iopub_free(td_jupyter_iopub *p);

/* `parent` may be NULL. Copies what it is given; waits while the queue is full.
 */
void td_jupyter_iopub_send(td_jupyter_iopub *p, td_jupyter_request *parent,
                           const char *type, td_bytes content,
                           td_bytes metadata, const td_bytes *buffers,
                           int n_buffers);
/* "busy" or "idle"; what was held back of the request's output goes before the
 * latter. */
void td_jupyter_iopub_status(td_jupyter_iopub *p, td_jupyter_request *parent,
                             const char *state);
/* stream: 1 stdout, 2 stderr. */
void td_jupyter_iopub_text(td_jupyter_iopub *p, td_jupyter_request *parent,
                           int stream, const char *text, size_t len);
/* Logs why a message was dropped; where it was a client's own, those who watch
 * are told too. Takes ownership of `why`. */
void td_jupyter_iopub_dropped(td_jupyter_iopub *p, td_status *why);
/* Reads output of the process's own descriptors 1 and 2, of C code and child
 * processes, from these pipes; it belongs to the request last named by
 * td_jupyter_iopub_owner. Called before the first message. */
void td_jupyter_iopub_capture(td_jupyter_iopub *p, int out, int err);
/* The cell that output of no thread's request belongs to from here on. */
void td_jupyter_iopub_owner(td_jupyter_iopub *p, td_jupyter_request *parent);
/* Returns once everything queued before is in the socket. */
void td_jupyter_iopub_flush(td_jupyter_iopub *p);

#endif
