/* vi_command.h - vi's operators, and its commands that are no motions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_VI_COMMAND_H
#define TD_REPL_VI_COMMAND_H

#include "repl/vi_move.h"

/* Applies d, c, y, > or < from the cursor to where the motion leads. */
void td_edit_vi_command_operate(td_editor *e, char op,
                                const td_edit_vi_motion *m);
/* The operator twice, as in dd: n whole lines. */
void td_edit_vi_command_lines(td_editor *e, char op, int n);
/* r: the character under the cursor becomes this one. */
void td_edit_vi_command_replace(td_editor *e, unsigned rune);
/* The command of this letter, n times where it can be counted. */
td_edit_outcome td_edit_vi_command(td_editor *e, unsigned rune, int n);

#endif
