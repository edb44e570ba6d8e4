/* screen.h - what stands on the terminal, and how little must be written.
 *
 * The screen remembers the frame it drew last, and writes only the rows that
 * differ. Its part of the terminal begins at the row where the cursor stood.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_SCREEN_H
#define TD_REPL_SCREEN_H

#include "repl/frame.h"

typedef struct td_edit_screen {
  td_edit_frame shown;
  int first;       /* the row of `shown` at the top of our part */
  int height;      /* rows of our part */
  int row, column; /* the cursor, in our part */
  td_str out;
} td_edit_screen;

void td_edit_screen_init(td_edit_screen *s);
void td_edit_screen_deinit(td_edit_screen *s);
/* Nothing of ours is shown; the cursor is at the start of an empty row. */
void td_edit_screen_fresh(td_edit_screen *s);
/* Shows the part of `f` that has the cursor, at most `lines` rows, and keeps
 * what was shown in it. */
void td_edit_screen_draw(td_edit_screen *s, td_edit_frame *f, int lines);
/* Draws all rows of `f` above each other and leaves the cursor below them. */
void td_edit_screen_leave(td_edit_screen *s, td_edit_frame *f);
/* The terminal has become that narrow and wrapped our rows anew, as most do
 * (td_edit_term_wraps). Before td_edit_screen_wipe. */
void td_edit_screen_wrapped(td_edit_screen *s, int columns);
/* Wipes our part; the cursor is where it began. */
void td_edit_screen_wipe(td_edit_screen *s);

#endif
