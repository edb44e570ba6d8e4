/* prompt.h - the prompt: read a chunk, run it, and again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_PROMPT_H
#define TD_REPL_PROMPT_H

#include "lua/console/host.h"

/* Runs until the user leaves. On a terminal with the editor, else plainly. */
void td_prompt_run(td_line *line);

/* For td_frontend.input: a line typed while code runs. */
td_host_outcome td_prompt_input(void *arg, td_line *line, const char *label,
                                bool password, td_str *out);

#endif
