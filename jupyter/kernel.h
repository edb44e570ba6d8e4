/* kernel.h - `tide kernel`: a Jupyter kernel over ZeroMQ.
 *
 * Threads: the main one runs the notebook's cells; *shell* owns the shell and
 * stdin sockets and hands requests to workers; *control* answers interrupts and
 * shutdown at all times; *iopub* owns what is shown; *heartbeat* echoes. While
 * a cell runs, a second worker answers what needs no cell: completion,
 * inspection, comm messages. Subshells and the debugger have workers of their
 * own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_KERNEL_H
#define TD_JUPYTER_KERNEL_H

/* tide kernel [CONNECTION_FILE]; the exit code. */
int td_jupyter_kernel_main(int argc, char **argv);

#endif
