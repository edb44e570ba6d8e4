/* plain.h - the prompt without an editor: lines from standard input.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_PLAIN_H
#define TD_REPL_PLAIN_H

#include "lua/host.h"

/* One line without its end; false at the end of input. *cancelled: a signal
 * came, and `typed` is empty. */
bool td_plain_line(const char *prompt, td_str *typed, bool *cancelled);

/* Reads and runs until the input ends. */
void td_plain_run(td_line *line);

#endif
