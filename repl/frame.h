/* frame.h - rows of text with their colours, laid out for a width.
 *
 * What is to stand on the terminal: put together anew for every key, then drawn
 * by screen.h, which finds out what has changed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_FRAME_H
#define TD_REPL_FRAME_H

#include "engine/base/str.h"
#include "engine/base/vec.h"

typedef enum td_edit_style {
  TD_EDIT_STYLE_PLAIN,
  TD_EDIT_STYLE_KEYWORD,
  TD_EDIT_STYLE_NUMBER,
  TD_EDIT_STYLE_STRING,
  TD_EDIT_STYLE_COMMENT,
  TD_EDIT_STYLE_BROKEN,  /* no Lua */
  TD_EDIT_STYLE_COMMAND, /* %time, !ls, ?name */
  TD_EDIT_STYLE_MATCH,   /* the bracket's other half; what a search found */
  TD_EDIT_STYLE_PROMPT,
  TD_EDIT_STYLE_GREY,
  TD_EDIT_STYLE_MENU,
  TD_EDIT_STYLE_CHOSEN, /* in the menu */
  TD_EDIT_STYLE_COUNT,
} td_edit_style;

typedef struct td_edit_row {
  td_str bytes; /* with colours, plain at the end */
  int width;
} td_edit_row;

typedef struct td_edit_frame {
  TD_VEC(td_edit_row) rows; /* the first `n` of them are the frame */
  int n, columns;
  bool colour;
  td_edit_style style; /* at the end of the last row */
  int cursor_row, cursor_column;
  bool bottom; /* the last rows matter more than those above the cursor */
  bool failed; /* no memory: not to be drawn */
} td_edit_frame;

void td_edit_frame_init(td_edit_frame *f);
void td_edit_frame_deinit(td_edit_frame *f);
/* Empties it to one empty row. */
void td_edit_frame_begin(td_edit_frame *f, int columns, bool colour);
/* Cells left in the last row. */
int td_edit_frame_room(const td_edit_frame *f);
/* Adds one cluster as it is drawn, on a new row where it does not fit. */
void td_edit_frame_put(td_edit_frame *f, td_edit_style style, const char *bytes,
                       size_t len, int width);
/* Adds a text of one line. */
void td_edit_frame_text(td_edit_frame *f, td_edit_style style, const char *text,
                        size_t len);
/* The same, cut to `width` cells and filled up with spaces. */
void td_edit_frame_cell(td_edit_frame *f, td_edit_style style, const char *text,
                        size_t len, int width);
void td_edit_frame_newline(td_edit_frame *f);
/* The cursor stands where the next cluster, `width` wide, will. */
void td_edit_frame_cursor(td_edit_frame *f, int width);
/* Closes the last row; td_edit_screen does, before it draws. */
void td_edit_frame_end(td_edit_frame *f);

#endif
