/* iopub_queue.h - what is to be shown, until iopub's thread sends it.
 *
 * Any thread adds; the order stays. Text of a stream is joined with the text
 * before it and may wait for more, so that a loop of prints becomes some ten
 * messages a second; everything else goes at once and takes the text before it
 * along. Nothing is dropped: who adds more than the queue holds waits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_IOPUB_QUEUE_H
#define TD_JUPYTER_IOPUB_QUEUE_H

#include "jupyter/queue.h"
#include "jupyter/wire.h"

typedef enum td_jupyter_iopub_kind {
  TD_JUPYTER_IOPUB_MESSAGE,
  TD_JUPYTER_IOPUB_TEXT,  /* of a stream, in `content` */
  TD_JUPYTER_IOPUB_OWNER, /* a cell begins to own what the process prints */
  TD_JUPYTER_IOPUB_END,   /* a cell is over */
} td_jupyter_iopub_kind;

typedef struct td_jupyter_iopub_item {
  td_jupyter_entry entry;
  td_jupyter_iopub_kind kind;
  td_jupyter_request *parent; /* or NULL */
  char *type;                 /* of a message */
  int stream;                 /* of text: 1 stdout, 2 stderr */
  td_str content, metadata;
  td_str *buffers;
  int n_buffers;
  size_t size;         /* the bytes it counts for in the queue */
  uint64_t stands_for; /* items that were joined in it, with itself */
} td_jupyter_iopub_item;

typedef struct td_jupyter_iopub_queue {
  td_jupyter_queue queue; /* its lock is that of all that follows */
  int pipe[2];            /* what the process itself writes on 1 and 2; or -1 */
  size_t bytes;           /* in the queue, and of the item that is being sent */
  size_t others;          /* items in the queue that are no text */
  uint64_t added, sent;   /* items ever */
  uint64_t hurry;         /* so many are not to wait for more text */
  int64_t printed;        /* ns: when text last came */
  bool closing;
} td_jupyter_iopub_queue;

td_status *td_jupyter_iopub_queue_init(td_jupyter_iopub_queue *q) TD_MUST_USE;
void td_jupyter_iopub_queue_deinit(td_jupyter_iopub_queue *q);

/* ---- any thread ---- */

/* These three copy what they are given, and wait while the queue is full. */
void td_jupyter_iopub_queue_message(td_jupyter_iopub_queue *q,
                                    td_jupyter_request *parent,
                                    const char *type, td_bytes content,
                                    td_bytes metadata, const td_bytes *buffers,
                                    int n_buffers);
void td_jupyter_iopub_queue_text(td_jupyter_iopub_queue *q,
                                 td_jupyter_request *parent, int stream,
                                 const char *text, size_t len);
/* `kind` is OWNER or END. */
void td_jupyter_iopub_queue_mark(td_jupyter_iopub_queue *q,
                                 td_jupyter_iopub_kind kind,
                                 td_jupyter_request *parent);
/* Text is read from these descriptors too, before each item that is added and
 * by td_jupyter_iopub_queue_refill. */
void td_jupyter_iopub_queue_capture(td_jupyter_iopub_queue *q, int out,
                                    int err);
/* Returns once everything added before has been sent, or at the end. */
void td_jupyter_iopub_queue_flush(td_jupyter_iopub_queue *q);
/* The end: nobody waits any more. */
void td_jupyter_iopub_queue_close(td_jupyter_iopub_queue *q);

/* ---- iopub's thread ---- */

/* Reads the pipes; `ripe`: text that is there waits no longer. */
void td_jupyter_iopub_queue_refill(td_jupyter_iopub_queue *q, bool ripe);
/* The first item when it may be sent now, else NULL: there is none, or text
 * that nothing follows waits for more. Caller owns it. */
td_jupyter_iopub_item *td_jupyter_iopub_queue_take(td_jupyter_iopub_queue *q);
/* What was taken has been sent: its size, and how many items it stood for. */
void td_jupyter_iopub_queue_sent(td_jupyter_iopub_queue *q, size_t size,
                                 uint64_t stands_for);
void td_jupyter_iopub_queue_release(td_jupyter_iopub_item *i);
/* Does text wait for more? */
bool td_jupyter_iopub_queue_waits(td_jupyter_iopub_queue *q);
bool td_jupyter_iopub_queue_closing(td_jupyter_iopub_queue *q);

#endif
