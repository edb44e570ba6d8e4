/* buffer.h - the text being edited: cursor, motions, undo.
 *
 * Every change goes through td_edit_buffer_replace, so that it can be undone.
 * Positions are byte offsets at cluster boundaries. Functions that change the
 * text are false, and change nothing, when there is no memory or the text would
 * grow beyond TD_EDIT_BUFFER_MOST.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_BUFFER_H
#define TD_REPL_BUFFER_H

#include "engine/base/str.h"
#include "engine/base/vec.h"

enum { TD_EDIT_BUFFER_MOST = 4 << 20 };

typedef struct td_edit_buffer_change {
  size_t at;             /* where */
  char *removed, *added; /* owned */
  size_t n_removed, n_added;
  size_t before; /* the cursor then */
  int step;      /* edits of one step are undone together */
} td_edit_buffer_change;

typedef struct td_edit_buffer {
  td_str text;
  size_t cursor;
  TD_VEC(td_edit_buffer_change) edits; /* those from `done` on were undone */
  size_t done;
  int step, nested;
  bool typing;      /* the next insertion may join the last edit */
  unsigned version; /* grows with every change of the text */
} td_edit_buffer;

void td_edit_buffer_init(td_edit_buffer *b);
void td_edit_buffer_deinit(td_edit_buffer *b);
/* Empties it and forgets what could be undone. */
void td_edit_buffer_reset(td_edit_buffer *b);

/* Puts `text` in the place of [from, to); the cursor goes behind it. */
bool td_edit_buffer_replace(td_edit_buffer *b, size_t from, size_t to,
                            const char *text, size_t len);
bool td_edit_buffer_insert(td_edit_buffer *b, const char *text, size_t len);
bool td_edit_buffer_remove(td_edit_buffer *b, size_t from, size_t to);

/* What is typed in one go is one step; this ends it. Between begin and end, all
 * changes are one step. */
void td_edit_buffer_seal(td_edit_buffer *b);
void td_edit_buffer_begin(td_edit_buffer *b);
void td_edit_buffer_end(td_edit_buffer *b);
/* False when there is nothing to undo or redo. */
bool td_edit_buffer_undo(td_edit_buffer *b);
bool td_edit_buffer_redo(td_edit_buffer *b);

/* Where a motion from `at` leads. Words are of letters and digits. */
size_t td_edit_buffer_left(const td_edit_buffer *b, size_t at);
size_t td_edit_buffer_right(const td_edit_buffer *b, size_t at);
size_t td_edit_buffer_line_start(const td_edit_buffer *b, size_t at);
size_t td_edit_buffer_line_end(const td_edit_buffer *b, size_t at);
size_t td_edit_buffer_word_left(const td_edit_buffer *b, size_t at);
size_t td_edit_buffer_word_right(const td_edit_buffer *b, size_t at);
/* The line's first character that is no space. */
size_t td_edit_buffer_line_text(const td_edit_buffer *b, size_t at);
/* The place of column `goal` (in cells) in the line of `at`. */
size_t td_edit_buffer_at_column(const td_edit_buffer *b, size_t at, int goal);
int td_edit_buffer_column(const td_edit_buffer *b, size_t at);

#endif
