/* emacs.c - the keys of emacs, as readline has them.
 *
 *   ^A ^E  ^B ^F  M-b M-f  M-< M->   start/end of line, left/right, words, text
 *   ^P ^N, up down                   lines, then history by what stands before
 *   M-p M-n, page up and down        history at once
 *   ^R ^S                            search in the history
 *   ^K ^U ^W M-d M-Backspace         cut
 *   ^Y, then M-y                     put back, in its place what was before
 *   ^T M-t  M-u M-l M-c              swap characters, words; change case
 *   ^_ or ^X ^U, M-_ or ^X ^R        undo, redo
 *   Tab, Shift-Tab                   complete or indent, indent less
 *   Alt-Enter                        a new line, whatever stands there
 *   M-h, F1                          what is known of what stands here
 *   ^L ^C ^D ^Z                      clear screen, line; delete or leave; stop
 *   ^X ^E                            edit in $VISUAL or $EDITOR
 *
 * At the end of the text, right, End, ^E and ^F accept the grey suggestion, M-f
 * a word of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/emacs.h"

#include <string.h>
#include <utf8proc.h>

#include "repl/command.h"
#include "repl/text.h"

static size_t cursor(const td_editor *e) {
  return e->buffer.cursor;
}

/* ---- moving ---- */

static void move_right(td_editor *e) {
  if (!td_edit_command_accept(e, false))
    td_edit_command_move(e, td_edit_buffer_right(&e->buffer, cursor(e)));
}

static void move_left(td_editor *e) {
  td_edit_command_move(e, td_edit_buffer_left(&e->buffer, cursor(e)));
}

static void line_start(td_editor *e) {
  td_edit_command_move(e, td_edit_buffer_line_start(&e->buffer, cursor(e)));
}

static void line_end(td_editor *e) {
  if (!td_edit_command_accept(e, false))
    td_edit_command_move(e, td_edit_buffer_line_end(&e->buffer, cursor(e)));
}

static void word_left(td_editor *e) {
  td_edit_command_move(e, td_edit_buffer_word_left(&e->buffer, cursor(e)));
}

static void word_right(td_editor *e) {
  if (!td_edit_command_accept(e, true))
    td_edit_command_move(e, td_edit_buffer_word_right(&e->buffer, cursor(e)));
}

static void text_start(td_editor *e) {
  td_edit_command_move(e, 0);
}

static void text_end(td_editor *e) {
  td_edit_command_move(e, e->buffer.text.len);
}

/* ---- cutting ---- */

static void delete_left(td_editor *e) {
  td_edit_buffer_remove(&e->buffer, td_edit_buffer_left(&e->buffer, cursor(e)),
                        cursor(e));
}

static void delete_right(td_editor *e) {
  td_edit_buffer_remove(&e->buffer, cursor(e),
                        td_edit_buffer_right(&e->buffer, cursor(e)));
}

static void kill_line(td_editor *e) {
  size_t end = td_edit_buffer_line_end(&e->buffer, cursor(e));
  if (end == cursor(e)) end = td_edit_buffer_right(&e->buffer, end);
  td_edit_command_kill(e, cursor(e), end);
}

static void kill_line_left(td_editor *e) {
  size_t start = td_edit_buffer_line_start(&e->buffer, cursor(e));
  if (start == cursor(e)) start = td_edit_buffer_left(&e->buffer, start);
  td_edit_command_kill(e, start, cursor(e));
}

static bool space_before(const td_editor *e, size_t at) {
  return strchr(" \t\n", e->buffer.text.at[at - 1]) != NULL;
}

/* ^W: back to a space, whatever stands between. */
static void kill_blank_left(td_editor *e) {
  size_t at = cursor(e);
  while (at > 0 && space_before(e, at)) at--;
  while (at > 0 && !space_before(e, at)) at--;
  td_edit_command_kill(e, at, cursor(e));
}

static void kill_word_left(td_editor *e) {
  td_edit_command_kill(e, td_edit_buffer_word_left(&e->buffer, cursor(e)),
                       cursor(e));
}

static void kill_word_right(td_editor *e) {
  td_edit_command_kill(e, cursor(e),
                       td_edit_buffer_word_right(&e->buffer, cursor(e)));
}

/* ---- changing ---- */

/* Swaps text[a, b) and text[c, d); the cursor goes behind both. */
static void swap(td_editor *e, size_t a, size_t b, size_t c, size_t d) {
  const char *t = td_str_c(&e->buffer.text);
  td_str made;
  td_str_init(&made);
  td_str_addn(&made, t + c, d - c);
  td_str_addn(&made, t + b, c - b);
  td_str_addn(&made, t + a, b - a);
  if (!made.failed)
    td_edit_buffer_replace(&e->buffer, a, d, td_str_c(&made), made.len);
  td_str_deinit(&made);
}

/* The two characters around the cursor; at the end of a line the last two. */
static void swap_chars(td_editor *e) {
  const td_edit_buffer *b = &e->buffer;
  size_t at = cursor(e), end = td_edit_buffer_line_end(b, at);
  size_t start = td_edit_buffer_line_start(b, at);
  if (at == end) at = td_edit_buffer_left(b, at);
  size_t before = td_edit_buffer_left(b, at);
  if (at <= start || before < start || at >= end) return;
  swap(e, before, at, at, td_edit_buffer_right(b, at));
}

static void swap_words(td_editor *e) {
  const td_edit_buffer *b = &e->buffer;
  size_t d = td_edit_buffer_word_right(b, cursor(e));
  size_t c = td_edit_buffer_word_left(b, d), a = td_edit_buffer_word_left(b, c);
  size_t w = td_edit_buffer_word_right(b, a);
  if (a < w && w <= c && c < d) swap(e, a, w, c, d);
}

typedef utf8proc_int32_t (*case_fn)(utf8proc_int32_t);

/* The word from the cursor on: its first letter by `first`, others by `rest`.
 */
static void change_case(td_editor *e, case_fn first, case_fn rest) {
  const td_edit_buffer *b = &e->buffer;
  size_t end = td_edit_buffer_word_right(b, cursor(e));
  size_t start = td_edit_buffer_word_left(b, end);
  if (start < cursor(e)) start = cursor(e);
  td_str made;
  td_str_init(&made);
  for (size_t at = start, n; at < end; at += n) {
    utf8proc_int32_t c;
    char bytes[4];
    utf8proc_ssize_t got =
        utf8proc_iterate((const utf8proc_uint8_t *)b->text.at + at,
                         (utf8proc_ssize_t)(end - at), &c);
    n = got > 0 ? (size_t)got : 1;
    c = at == start ? first(c) : rest(c);
    td_str_addn(&made, bytes, td_edit_text_encode((unsigned)c, bytes));
  }
  if (!made.failed)
    td_edit_buffer_replace(&e->buffer, start, end, td_str_c(&made), made.len);
  td_str_deinit(&made);
}

static void upper(td_editor *e) {
  change_case(e, utf8proc_toupper, utf8proc_toupper);
}

static void lower(td_editor *e) {
  change_case(e, utf8proc_tolower, utf8proc_tolower);
}

static void capital(td_editor *e) {
  change_case(e, utf8proc_toupper, utf8proc_tolower);
}

static void undo(td_editor *e) {
  td_edit_buffer_undo(&e->buffer);
}

static void redo(td_editor *e) {
  td_edit_buffer_redo(&e->buffer);
}

static void indent_less(td_editor *e) {
  td_edit_buffer *b = &e->buffer;
  size_t at = cursor(e), start = td_edit_buffer_line_start(b, at);
  size_t n = td_edit_buffer_line_text(b, at) - start;
  if (n > 2) n = 2;
  if (n && td_edit_buffer_remove(b, start, start + n))
    b->cursor = at < start + n ? start : at - n;
}

/* ---- keys ---- */

typedef struct binding {
  char rune;
  void (*command)(td_editor *e);
} binding;

static const binding with_ctrl[] = {{'a', line_start},
                                    {'b', move_left},
                                    {'e', line_end},
                                    {'f', move_right},
                                    {'k', kill_line},
                                    {'n', td_edit_command_down},
                                    {'p', td_edit_command_up},
                                    {'r', td_edit_command_search},
                                    {'s', td_edit_command_search},
                                    {'t', swap_chars},
                                    {'u', kill_line_left},
                                    {'w', kill_blank_left},
                                    {'y', td_edit_command_yank},
                                    {'_', undo},
                                    {'h', delete_left}};

static const binding with_alt[] = {{'b', word_left},
                                   {'f', word_right},
                                   {'d', kill_word_right},
                                   {'y', td_edit_command_yank_pop},
                                   {'u', upper},
                                   {'l', lower},
                                   {'c', capital},
                                   {'t', swap_words},
                                   {'_', redo},
                                   {'<', text_start},
                                   {'>', text_end},
                                   {'p', td_edit_command_older},
                                   {'n', td_edit_command_newer},
                                   {'h', td_edit_command_help}};

static void press(td_editor *e, const binding *b, size_t n, unsigned rune) {
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)b[i].rune == rune) {
      b[i].command(e);
      return;
    }
}

/* Behind ^X. */
static td_edit_outcome after_ctrl_x(td_editor *e, const td_edit_key *key) {
  e->after_ctrl_x = false;
  if (key->code != TD_EDIT_KEY_CHAR || !key->ctrl) return TD_EDIT_GO_ON;
  if (key->rune == 'u') undo(e);
  if (key->rune == 'r') redo(e);
  return key->rune == 'e' ? TD_EDIT_OUTSIDE : TD_EDIT_GO_ON;
}

static td_edit_outcome control(td_editor *e, unsigned rune) {
  switch (rune) {
  case 'c':
    return TD_EDIT_CANCEL;
  case 'l':
    return TD_EDIT_CLEAR;
  case 'z':
    return TD_EDIT_STOP;
  case 'x':
    e->after_ctrl_x = true;
    return TD_EDIT_GO_ON;
  case 'd':
    if (!e->buffer.text.len) return TD_EDIT_END;
    delete_right(e);
    return TD_EDIT_GO_ON;
  }
  press(e, with_ctrl, TD_COUNT(with_ctrl), rune);
  return TD_EDIT_GO_ON;
}

/* Keys beyond characters. */
static void special(td_editor *e, const td_edit_key *key) {
  bool words = key->ctrl || key->alt;
  switch (key->code) {
  case TD_EDIT_KEY_TAB:
    key->shift ? indent_less(e) : td_edit_command_tab(e);
    break;
  case TD_EDIT_KEY_BACKSPACE:
    words ? kill_word_left(e) : delete_left(e);
    break;
  case TD_EDIT_KEY_UP:
    words ? td_edit_command_older(e) : td_edit_command_up(e);
    break;
  case TD_EDIT_KEY_DOWN:
    words ? td_edit_command_newer(e) : td_edit_command_down(e);
    break;
  case TD_EDIT_KEY_LEFT:
    words ? word_left(e) : move_left(e);
    break;
  case TD_EDIT_KEY_RIGHT:
    words ? word_right(e) : move_right(e);
    break;
  case TD_EDIT_KEY_HOME:
    words ? text_start(e) : line_start(e);
    break;
  case TD_EDIT_KEY_END:
    words ? text_end(e) : line_end(e);
    break;
  case TD_EDIT_KEY_DELETE:
    words ? kill_word_right(e) : delete_right(e);
    break;
  case TD_EDIT_KEY_HELP:
    td_edit_command_help(e);
    break;
  case TD_EDIT_KEY_PAGE_UP:
    td_edit_command_older(e);
    break;
  case TD_EDIT_KEY_PAGE_DOWN:
    td_edit_command_newer(e);
    break;
  default:
    break;
  }
}

td_edit_outcome td_edit_emacs_key(td_editor *e, const td_edit_key *key) {
  if (e->after_ctrl_x) return after_ctrl_x(e, key);
  if (key->code == TD_EDIT_KEY_ENTER && !key->alt && !key->shift && !key->ctrl)
    return td_edit_command_enter(e);
  if (key->code == TD_EDIT_KEY_ENTER)
    td_edit_command_newline(e);
  else if (key->code != TD_EDIT_KEY_CHAR)
    special(e, key);
  else if (key->ctrl)
    return control(e, key->rune);
  else if (key->alt)
    press(e, with_alt, TD_COUNT(with_alt), key->rune);
  else
    td_edit_command_type(e, key->rune);
  return TD_EDIT_GO_ON;
}
