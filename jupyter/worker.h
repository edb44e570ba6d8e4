/* worker.h - a line, its thread, and the requests that wait for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_WORKER_H
#define TD_JUPYTER_WORKER_H

#include "jupyter/shell.h"

typedef struct td_jupyter_worker {
  td_line *line;
  td_jupyter_iopub *iopub;
  td_jupyter_shell *shell;  /* where its requests come from */
  td_jupyter_queue *outbox; /* where its replies are left */
  pthread_t thread;
  bool started;                /* has a thread of its own */
  int count;                   /* of the last cell; its thread's alone */
  td_jupyter_queue jobs;       /* its lock is that of what follows too */
  td_jupyter_request *current; /* being served */
  uint64_t abort_before;   /* execute requests with lower numbers are refused */
  uint64_t interrupted_at; /* `current` was, when this number was next; or 0 */
  bool stopping;
} td_jupyter_worker;

/* All that it is given is borrowed; it fails without a line. */
td_status *td_jupyter_worker_init(td_jupyter_worker *w, td_line *line,
                                  td_jupyter_iopub *iopub,
                                  td_jupyter_shell *shell,
                                  td_jupyter_queue *outbox) TD_MUST_USE;
/* Stops it, and waits for its thread; one that was never made is left alone. */
void td_jupyter_worker_deinit(td_jupyter_worker *w);
/* A thread that serves until td_jupyter_worker_stop. */
td_status *td_jupyter_worker_start(td_jupyter_worker *w) TD_MUST_USE;
/* Serves on this thread until td_jupyter_worker_stop. */
void td_jupyter_worker_run(td_jupyter_worker *w);
/* Takes the request over. */
void td_jupyter_worker_add(td_jupyter_worker *w, td_jupyter_request *r,
                           uint64_t number);
/* True while it runs a cell or has one to run. */
bool td_jupyter_worker_has_cell(td_jupyter_worker *w);
/* True while it serves or has something to. */
bool td_jupyter_worker_busy(td_jupyter_worker *w);
/* True when something was there to be interrupted. `number`: of the request
 * that comes next. */
bool td_jupyter_worker_interrupt(td_jupyter_worker *w, uint64_t number);
/* What it serves, or NULL; the caller releases it. */
td_jupyter_request *td_jupyter_worker_served(td_jupyter_worker *w);
/* No more requests: what waits is dropped, what runs may end. */
void td_jupyter_worker_stop(td_jupyter_worker *w);
/* The request this thread serves, or NULL; borrowed. */
td_jupyter_request *td_jupyter_worker_request(void);

#endif
