/* plain.h - the prompt without an editor: lines from standard input.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_PLAIN_H
#define TD_REPL_PLAIN_H

#include "repl/ask.h"

/* One line without its end; false at the end of input. *cancelled: a signal
 * came, and `typed` is empty. */
bool td_plain_line(const char *prompt, td_str *typed, bool *cancelled);

/* Whether it is `exit` or `quit`, which is what people type first. */
bool td_plain_leaves(const td_str *chunk);
/* Runs a chunk and prints an error that no service showed. Caller owns the
 * result. */
void td_plain_execute(td_line *line, const td_str *chunk,
                      td_ask_result *result);

/* Reads and runs until the input ends. */
void td_plain_run(td_line *line);

#endif
