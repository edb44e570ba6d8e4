/* kernel_impl.h - the kernel as a whole, for the few files that see it so.
 *
 * The others know only what they are given. Calls go down this list, a file
 * calls none above it:
 *
 *   kernel     starts, dispatches and ends; owns everything
 *   control    the thread of the control socket
 *   shutdown   ends what runs, for control
 *   interrupt  interrupts what runs, for control and shutdown
 *   stdio      the process's streams are the notebook's
 *   subshell   further workers
 *   worker     serves requests
 *   shell      the thread of the shell and stdin sockets
 *   iopub      the thread of the IOPub socket
 *   outbox queue event   between threads
 *   wire request         messages
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_KERNEL_IMPL_H
#define TD_JUPYTER_KERNEL_IMPL_H

#include "jupyter/subshell.h"

typedef struct td_jupyter_kernel {
  td_jupyter_connection connection;
  char *announced; /* the file that told clients of it; NULL: none */
  td_jupyter_wire wire;
  void *context;       /* ZeroMQ's */
  void *heart_context; /* of the heartbeat, which nothing may delay */
  td_jupyter_iopub *iopub;
  td_jupyter_shell *shell;
  td_host *host;
  td_jupyter_worker main, side;
  td_jupyter_worker debug; /* control's: started by the first debug_request */
  td_jupyter_subshells subshells;
  int64_t interrupted_ns; /* control's: when the last interrupt came, or 0 */
  bool told;              /* control's: that it takes long */
  size_t output_limit;
  pthread_t control, heartbeat;
  bool has_control, has_heartbeat;
  int stopping;  /* atomic: a shutdown has begun */
  int terminate; /* an event: control is to end the kernel */
  int interrupt; /* an event: control is to interrupt what runs */
} td_jupyter_kernel;

/* ---- control.c ---- */

td_status *td_jupyter_control_start(td_jupyter_kernel *k,
                                    void *socket) TD_MUST_USE;
void td_jupyter_control_join(td_jupyter_kernel *k);

/* ---- shutdown.c: on control's thread ---- */

/* Ends all cells, within about two seconds; called once. */
void td_jupyter_shutdown(td_jupyter_kernel *k);
/* Ends the process though a cell still runs, which nothing could stop. */
_Noreturn void td_jupyter_shutdown_abandon(td_jupyter_kernel *k);

/* ---- interrupt.c: on control's thread ---- */

/* Interrupts everything that runs. */
void td_jupyter_interrupt_all(td_jupyter_kernel *k);
/* Sees to interrupts that are not obeyed yet; called every so many ms while it
 * returns true. */
bool td_jupyter_interrupt_follow(td_jupyter_kernel *k);

/* ---- stdio.c ---- */

/* C's stdout and stderr, descriptors 1 and 2, and stdin become the notebook's.
 * Before the host is made. */
td_status *td_jupyter_stdio_take(td_jupyter_kernel *k) TD_MUST_USE;
/* After everything was shown: they are the process's again. */
void td_jupyter_stdio_give_back(void);

/* ---- heartbeat.c ---- */

td_status *td_jupyter_heartbeat_start(td_jupyter_kernel *k,
                                      void *socket) TD_MUST_USE;
void td_jupyter_heartbeat_join(td_jupyter_kernel *k);

#endif
