/* kernel.h - `tide kernel`: a Jupyter kernel over ZeroMQ.
 *
 * Its threads and sockets: see kernel.c. What the files are, and which calls
 * which: kernel_impl.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_KERNEL_H
#define TD_JUPYTER_KERNEL_H

/* tide kernel [CONNECTION_FILE]; the exit code. */
int td_jupyter_kernel_main(int argc, char **argv);

#endif
