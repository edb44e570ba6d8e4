/* command.h - what an editor can do, by whichever key it is asked for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_COMMAND_H
#define TD_REPL_COMMAND_H

#include "repl/editor.h"

/* Runs what is complete, else begins a new line. */
td_edit_outcome td_edit_command_enter(td_editor *e);
/* A new line, indented as the text before it wants. */
void td_edit_command_newline(td_editor *e);
void td_edit_command_type(td_editor *e, unsigned rune);
/* Without the prompts it was copied with. */
void td_edit_command_paste(td_editor *e, const char *text, size_t len);
/* Fills the menu with what can stand at the cursor; it stays closed. */
void td_edit_command_complete(td_editor *e);
/* Indents, or completes and opens the menu. */
void td_edit_command_tab(td_editor *e);
/* Shows what is known of what stands at the cursor. */
void td_edit_command_help(td_editor *e);
void td_edit_command_move(td_editor *e, size_t to);
/* Accepts the suggestion up to the end of a word, or all of it; false: none. */
bool td_edit_command_accept(td_editor *e, bool word);
/* A line up or down; beyond the first or last, to the history. */
void td_edit_command_up(td_editor *e);
void td_edit_command_down(td_editor *e);
/* The next entry of the history. */
void td_edit_command_older(td_editor *e);
void td_edit_command_newer(td_editor *e);
/* Cuts [from, to) into the kill ring. */
void td_edit_command_kill(td_editor *e, size_t from, size_t to);
/* Inserts what was cut last; then, in its place, what was cut before that. */
void td_edit_command_yank(td_editor *e);
void td_edit_command_yank_pop(td_editor *e);
/* Opens the search in the history. */
void td_edit_command_search(td_editor *e);
/* Replaces all of the text; the cursor goes to `cursor`. */
void td_edit_command_set(td_editor *e, const char *text, size_t len,
                         size_t cursor);

#endif
