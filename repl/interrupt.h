/* interrupt.h - Ctrl-C.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_INTERRUPT_H
#define TD_REPL_INTERRUPT_H

#include "lua/console/host.h"

enum { TD_INTERRUPT_EXIT = 130 };

/* From now on SIGINT interrupts what runs on `line`. One that does not listen
 * to three ends the process. NULL: nothing is interrupted any more. */
void td_interrupt_listen(td_line *line);
/* A new run begins: interrupts of the one before are forgotten. */
void td_interrupt_reset(void);

#endif
