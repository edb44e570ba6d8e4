/* view.h - the editor as rows on the terminal: prompt, text, suggestion, menu.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_VIEW_H
#define TD_REPL_VIEW_H

#include "repl/editor.h"

/* Lays the text out for the terminal's width into e->frame. `final`: without
 * what helps only while typing. */
void td_edit_view_layout(td_editor *e, int columns, int lines, bool final);
/* Lays it out for the terminal and draws it. */
void td_edit_view_draw(td_editor *e);
/* What goes on in grey behind the text; NULL: nothing. Borrowed. */
const char *td_edit_view_suggestion(const td_editor *e);

#endif
