/* ask.h - what the prompt asks of the console: Jupyter's requests.
 *
 * Each is one td_line_call. A service that fails or is missing answers as if it
 * had nothing to say, so that the editor always works.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_ASK_H
#define TD_REPL_ASK_H

#include "lua/host.h"
#include "repl/history.h"
#include "repl/menu.h"

typedef enum td_ask_state {
  TD_ASK_COMPLETE, /* or invalid: running it says why */
  TD_ASK_INCOMPLETE,
} td_ask_state;

/* Before all else: the user's start file. */
void td_ask_start(td_line *l);
/* Is `code` all of a chunk? *indent (td_free; NULL: not said) is what the next
 * line should begin with. */
td_ask_state td_ask_is_complete(td_line *l, const char *code, size_t len,
                                char **indent);
/* Fills the menu with what can stand at byte `cursor`. */
void td_ask_complete(td_line *l, const char *code, size_t len, size_t cursor,
                     td_menu *menu);
/* Runs it; what it shows goes to the terminal. *leave is true when it asked to
 * leave; *count (or -1) is how many chunks have been run. An error that no
 * service showed is in `text`; without one, what the next chunk begins as. */
td_host_outcome td_ask_execute(td_line *l, const char *code, size_t len,
                               int *count, bool *leave, td_str *text);
/* Adds the newest `most` entries kept on disk. */
void td_ask_history(td_line *l, int most, td_history *h);
/* The lines shown at the start; what failed is left out. */
void td_ask_banner(td_line *l, td_str *text);

#endif
