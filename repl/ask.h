/* ask.h - what the prompt asks of the console: Jupyter's requests.
 *
 * Each is one td_host_call. A service that fails or is missing answers as if it
 * had nothing to say, so that the editor always works.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_ASK_H
#define TD_REPL_ASK_H

#include "lua/console/host.h"
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
                     td_edit_menu *menu);
/* What is known of what stands at byte `cursor`, without colours; nothing is
 * added when nothing is. */
void td_ask_inspect(td_line *l, const char *code, size_t len, size_t cursor,
                    td_str *text);

/* What running a chunk led to. */
typedef struct td_ask_result {
  td_host_outcome outcome;
  int count;   /* chunks run so far; -1: not said */
  bool leave;  /* it asked to */
  td_str next; /* what is to stand at the next prompt */
  td_str text; /* an error that no service showed */
} td_ask_result;

/* Runs it; what it shows goes to the terminal. Caller owns the result. */
void td_ask_execute(td_line *l, const char *code, size_t len,
                    td_ask_result *result);
void td_ask_result_deinit(td_ask_result *result);
/* Adds the next older entries kept on disk, which takes some milliseconds;
 * false when there are none, or enough. `l` may be NULL. */
bool td_ask_history(td_line *l, td_edit_history *h);
/* The lines shown at the start; what failed is left out. */
void td_ask_banner(td_line *l, td_str *text);

#endif
