/* vi_move.h - where vi's motions lead, and what its text objects are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_VI_MOVE_H
#define TD_REPL_VI_MOVE_H

#include "repl/editor.h"

/* Where a motion leads, or what text an object is. */
typedef struct td_edit_vi_motion {
  size_t to;
  size_t from; /* of an object; a motion begins at the cursor */
  bool object;
  bool lines;     /* of whole lines */
  bool inclusive; /* the character at the end belongs to it */
} td_edit_vi_motion;

/* The start of the line that is `n` further down (up), or the last one. */
size_t td_edit_vi_move_line(const td_edit_buffer *b, size_t at, int n);

/* The motion `rune`, n times; false: there is none, or it leads nowhere. */
bool td_edit_vi_move(td_editor *e, unsigned rune, int n, td_edit_vi_motion *m);
/* To the end of the word under the cursor, or of the n-th from there; false:
 * there is a space. */
bool td_edit_vi_move_rest_of_word(const td_editor *e, bool big, int n,
                                  td_edit_vi_motion *m);
/* f, t forwards, F, T backwards, in the line; false: not there. */
bool td_edit_vi_move_find(const td_editor *e, char how, unsigned rune,
                          td_edit_vi_motion *m);
/* iw, a", i( and the like; false: the cursor is in none. */
bool td_edit_vi_move_object(const td_editor *e, bool around, unsigned rune,
                            td_edit_vi_motion *m);

#endif
