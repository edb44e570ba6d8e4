/* shell.h - the thread that owns the shell and stdin sockets.
 *
 * It numbers the requests as they arrive and hands each to a handler, sends
 * the replies that workers left in its outbox, and asks for input in their
 * name: a question goes out by the stdin socket, its answer comes back there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_SHELL_H
#define TD_JUPYTER_SHELL_H

#include "jupyter/iopub.h"
#include "jupyter/queue.h"
#include "lua/console/host.h"

typedef struct td_jupyter_shell td_jupyter_shell;

/* Takes a request over, on the shell's thread, and leaves it to a worker.
 * `number` counts requests in the order of their arrival. */
typedef void td_jupyter_shell_handler(void *arg, td_jupyter_request *r,
                                      uint64_t number);

/* Takes over the two sockets, bound ROUTERs; the rest is borrowed. */
td_status *td_jupyter_shell_new(td_jupyter_shell **out,
                                const td_jupyter_wire *wire,
                                td_jupyter_iopub *iopub, void *shell,
                                void *input) TD_MUST_USE;
/* The thread begins; requests go to handle(arg, ...). */
td_status *td_jupyter_shell_start(td_jupyter_shell *s,
                                  td_jupyter_shell_handler *handle,
                                  void *arg) TD_MUST_USE;
/* Sends what is in the outbox, closes the sockets, ends the thread. */
void td_jupyter_shell_free(td_jupyter_shell *s);

/* Where replies to requests of this socket are left. Borrowed. */
td_jupyter_queue *td_jupyter_shell_outbox(td_jupyter_shell *s);
/* Returns once everything that had arrived has been handed out; the number the
 * next request will get. Any other thread. */
uint64_t td_jupyter_shell_drain(td_jupyter_shell *s);
/* Asks the client that sent `r` for a line and waits for it, for an interrupt
 * of `line`, or the end. What was printed is shown before. Called on the thread
 * that serves `r` (NULL: none), with the interpreter free. */
td_host_outcome td_jupyter_shell_input(td_jupyter_shell *s,
                                       td_jupyter_request *r, td_line *line,
                                       const char *prompt, bool password,
                                       td_str *out);

#endif
