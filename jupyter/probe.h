/* probe.h - `tide kernel --probe`: does a kernel answer?
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_PROBE_H
#define TD_JUPYTER_PROBE_H

/* Without arguments: what ZeroMQ there is. With SECONDS and a command: does the
 * kernel that it starts answer? Prints a JSON object; the exit code. */
int td_jupyter_probe_main(int argc, char **argv);

#endif
