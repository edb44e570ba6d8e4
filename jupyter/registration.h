/* registration.h - telling a launcher which ports we chose.
 *
 * A launcher may give a *registration file* in place of a connection file: no
 * ports, but one where it waits to be told of them (Jupyter's enhancement
 * proposal 66). No two kernels can then clash over a port.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_REGISTRATION_H
#define TD_JUPYTER_REGISTRATION_H

#include "jupyter/wire.h"

/* Sends the ports, signed, and waits for the signed acknowledgement. */
td_status *td_jupyter_registration_send(const td_jupyter_wire *w,
                                        const td_jupyter_connection *c,
                                        void *context) TD_MUST_USE;

#endif
