/* screen.h - what stands on the terminal, and how little must be written.
 *
 * A frame is rows of text with their colours, laid out for the terminal's
 * width. The screen remembers the frame it drew last, and writes only the rows
 * that differ.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_SCREEN_H
#define TD_REPL_SCREEN_H

#include "engine/base/str.h"
#include "engine/base/vec.h"

typedef enum td_style {
  TD_STYLE_PLAIN,
  TD_STYLE_KEYWORD,
  TD_STYLE_NUMBER,
  TD_STYLE_STRING,
  TD_STYLE_COMMENT,
  TD_STYLE_BROKEN,  /* no Lua */
  TD_STYLE_COMMAND, /* %time, !ls, ?name */
  TD_STYLE_MATCH,   /* the bracket's other half; what a search found */
  TD_STYLE_PROMPT,
  TD_STYLE_GREY,
  TD_STYLE_MENU,
  TD_STYLE_CHOSEN, /* in the menu */
  TD_STYLE_COUNT,
} td_style;

typedef struct td_row {
  td_str bytes; /* with colours, plain at the end */
  int width;
} td_row;

typedef struct td_frame {
  TD_VEC(td_row) rows; /* the first `n` of them are the frame */
  int n, columns;
  bool colour;
  td_style style; /* at the end of the last row */
  int cursor_row, cursor_column;
  bool bottom; /* the last rows matter more than those above the cursor */
  bool failed; /* no memory: not to be drawn */
} td_frame;

void td_frame_init(td_frame *f);
void td_frame_deinit(td_frame *f);
/* Empties it to one empty row. */
void td_frame_begin(td_frame *f, int columns, bool colour);
/* Cells left in the last row. */
int td_frame_room(const td_frame *f);
/* Adds one cluster as it is drawn, on a new row where it does not fit. */
void td_frame_put(td_frame *f, td_style style, const char *bytes, size_t len,
                  int width);
/* Adds a text of one line. */
void td_frame_text(td_frame *f, td_style style, const char *text, size_t len);
/* The same, cut to `width` cells and filled up with spaces. */
void td_frame_cell(td_frame *f, td_style style, const char *text, size_t len,
                   int width);
void td_frame_newline(td_frame *f);
/* The cursor stands where the next cluster, `width` wide, will. */
void td_frame_cursor(td_frame *f, int width);
/* Closes the last row. Before a frame is drawn. */
void td_frame_end(td_frame *f);

typedef struct td_screen {
  td_frame shown;
  int first;       /* the row of `shown` at the top of our part */
  int height;      /* rows of our part */
  int row, column; /* the cursor, in our part */
  td_str out;
} td_screen;

void td_screen_init(td_screen *s);
void td_screen_deinit(td_screen *s);
/* Nothing of ours is shown; the cursor is at the start of an empty row. */
void td_screen_fresh(td_screen *s);
/* Shows the part of `f` that has the cursor, at most `lines` rows, and keeps
 * what was shown in it. */
void td_screen_draw(td_screen *s, td_frame *f, int lines);
/* Draws all rows of `f` above each other and leaves the cursor below them. */
void td_screen_leave(td_screen *s, td_frame *f);
/* The terminal has become that narrow and wrapped our rows anew, as most do
 * (td_term_wraps). Before td_screen_wipe. */
void td_screen_wrapped(td_screen *s, int columns);
/* Wipes our part; the cursor is where it began. */
void td_screen_wipe(td_screen *s);

#endif
