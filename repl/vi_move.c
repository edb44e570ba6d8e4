/* vi_move.c - where vi's motions lead, and what its text objects are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/vi_move.h"

#include <string.h>

#include "repl/color.h"
#include "repl/text.h"

/* ---- words ---- */

/* Spaces are 0, letters with digits and _ are 1, other marks 2. `big`: all but
 * spaces is 1. */
static int class_of(const td_edit_buffer *b, size_t at, bool big) {
  unsigned char c = (unsigned char)b->text.at[at];
  if (strchr(" \t\n", (char)c)) return 0;
  bool name = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
              c == '_' || c >= 0x80;
  return big || name ? 1 : 2;
}

static size_t next_word(const td_edit_buffer *b, size_t at, bool big) {
  size_t len = b->text.len;
  int class = at < len ? class_of(b, at, big) : 0;
  while (class && at < len && class_of(b, at, big) == class)
    at = td_edit_buffer_right(b, at);
  while (at < len && !class_of(b, at, big)) at = td_edit_buffer_right(b, at);
  return at;
}

static size_t word_end(const td_edit_buffer *b, size_t at, bool big) {
  size_t len = b->text.len, next = td_edit_buffer_right(b, at);
  while (next < len && !class_of(b, next, big))
    next = td_edit_buffer_right(b, next);
  if (next >= len) return len ? td_edit_buffer_left(b, len) : 0;
  for (at = next; (next = td_edit_buffer_right(b, at)) < len; at = next)
    if (class_of(b, next, big) != class_of(b, at, big)) break;
  return at;
}

static size_t word_start(const td_edit_buffer *b, size_t at, bool big) {
  while (at > 0 && !class_of(b, td_edit_buffer_left(b, at), big))
    at = td_edit_buffer_left(b, at);
  if (!at) return 0;
  int class = class_of(b, td_edit_buffer_left(b, at), big);
  while (at > 0 && class_of(b, td_edit_buffer_left(b, at), big) == class)
    at = td_edit_buffer_left(b, at);
  return at;
}

bool td_edit_vi_move_find(const td_editor *e, char how, unsigned rune,
                          td_edit_vi_motion *m) {
  const td_edit_buffer *b = &e->buffer;
  bool forward = how == 'f' || how == 't';
  size_t at = b->cursor, start = td_edit_buffer_line_start(b, at);
  size_t end = td_edit_buffer_line_end(b, at), before = at;
  char want[4];
  size_t n = td_edit_text_encode(rune, want);
  for (;;) {
    before = at;
    at = forward ? td_edit_buffer_right(b, at) : td_edit_buffer_left(b, at);
    if (at == before || at < start || at >= end) return false;
    if (n && end - at >= n && !memcmp(b->text.at + at, want, n)) break;
    if (!forward && at == start) return false;
  }
  m->to = how == 'f' || how == 'F' ? at : before;
  m->inclusive = forward;
  return true;
}

static bool again(const td_editor *e, bool other_way, td_edit_vi_motion *m) {
  static const char ways[] = "fFtT", back[] = "FfTt";
  const char *way = e->vi.find ? strchr(ways, e->vi.find) : NULL;
  if (!way) return false;
  return td_edit_vi_move_find(e, other_way ? back[way - ways] : *way,
                              e->vi.found, m);
}

size_t td_edit_vi_move_line(const td_edit_buffer *b, size_t at, int n) {
  for (; n > 0 && td_edit_buffer_line_end(b, at) < b->text.len; n--)
    at = td_edit_buffer_line_end(b, at) + 1;
  for (; n < 0 && td_edit_buffer_line_start(b, at) > 0; n++)
    at = td_edit_buffer_line_start(b, at) - 1;
  return td_edit_buffer_line_start(b, at);
}

static bool move_lines(td_editor *e, int n, td_edit_vi_motion *m) {
  const td_edit_buffer *b = &e->buffer;
  size_t line = td_edit_vi_move_line(b, b->cursor, n);
  m->lines = true;
  if (line == td_edit_buffer_line_start(b, b->cursor)) return false;
  m->to =
      td_edit_buffer_at_column(b, line, td_edit_buffer_column(b, b->cursor));
  return true;
}

/* One step of a motion that is counted by repeating it. */
static size_t step(const td_edit_buffer *b, unsigned rune, size_t at) {
  size_t to = at;
  switch (rune) {
  case 'h':
    to = td_edit_buffer_left(b, at);
    break;
  case 'l':
  case ' ':
    to = td_edit_buffer_right(b, at);
    break;
  case 'w':
  case 'W':
    return next_word(b, at, rune == 'W');
  case 'b':
  case 'B':
    return word_start(b, at, rune == 'B');
  case 'e':
  case 'E':
    return word_end(b, at, rune == 'E');
  }
  bool inside = to >= td_edit_buffer_line_start(b, at) &&
                to <= td_edit_buffer_line_end(b, at);
  return inside ? to : at;
}

static bool pair(const td_edit_buffer *b, td_edit_vi_motion *m) {
  size_t end = td_edit_buffer_line_end(b, b->cursor), at = b->cursor;
  const char *t = td_str_c(&b->text);
  while (at < end && !strchr("()[]{}", t[at])) at++;
  m->to = at < end ? td_edit_color_pair(t, b->text.len, at) : SIZE_MAX;
  m->inclusive = true;
  return m->to != SIZE_MAX;
}

bool td_edit_vi_move(td_editor *e, unsigned rune, int n, td_edit_vi_motion *m) {
  const td_edit_buffer *b = &e->buffer;
  *m = (td_edit_vi_motion){.to = b->cursor};
  switch (rune) {
  case '0':
    m->to = td_edit_buffer_line_start(b, b->cursor);
    return true;
  case '^':
    m->to = td_edit_buffer_line_text(b, b->cursor);
    return true;
  case '$':
    m->to =
        td_edit_buffer_line_end(b, td_edit_vi_move_line(b, b->cursor, n - 1));
    return true;
  case 'j':
    return move_lines(e, n, m);
  case 'k':
    return move_lines(e, -n, m);
  case 'G':
    m->to = td_edit_buffer_line_start(b, b->text.len);
    m->lines = true;
    return true;
  case '%':
    return pair(b, m);
  case ';':
  case ',':
    return again(e, rune == ',', m);
  }
  if (!rune || rune > 'z' || !strchr("hl wWbBeE", (char)rune)) return false;
  for (int i = 0; i < n && i < TD_EDIT_BUFFER_MOST; i++) {
    size_t to = step(b, rune, m->to);
    if (to == m->to) break;
    m->to = to;
  }
  m->inclusive = rune == 'e' || rune == 'E';
  return true;
}

bool td_edit_vi_move_rest_of_word(const td_editor *e, bool big, int n,
                                  td_edit_vi_motion *m) {
  const td_edit_buffer *b = &e->buffer;
  size_t len = b->text.len, at = b->cursor;
  if (at >= len || !class_of(b, at, big)) return false;
  for (; n > 1 && at < len; n--) at = next_word(b, at, big);
  int class = at < len ? class_of(b, at, big) : 0;
  while (class && at < len && class_of(b, at, big) == class)
    at = td_edit_buffer_right(b, at);
  *m = (td_edit_vi_motion){.to = at};
  return true;
}

/* ---- text objects ---- */

/* The run of one class around the cursor, with the spaces behind it. */
static bool word_object(const td_edit_buffer *b, bool around, bool big,
                        td_edit_vi_motion *m) {
  size_t start = td_edit_buffer_line_start(b, b->cursor);
  size_t end = td_edit_buffer_line_end(b, b->cursor), at = b->cursor;
  if (at >= end) return false;
  int class = class_of(b, at, big);
  m->from = m->to = at;
  while (m->from > start &&
         class_of(b, td_edit_buffer_left(b, m->from), big) == class)
    m->from = td_edit_buffer_left(b, m->from);
  while (m->to < end && class_of(b, m->to, big) == class)
    m->to = td_edit_buffer_right(b, m->to);
  while (around && m->to < end && !class_of(b, m->to, big))
    m->to = td_edit_buffer_right(b, m->to);
  return true;
}

/* Between two quotes of the line, the cursor among them or before them. */
static bool quote_object(const td_edit_buffer *b, bool around, char quote,
                         td_edit_vi_motion *m) {
  size_t end = td_edit_buffer_line_end(b, b->cursor);
  size_t at = td_edit_buffer_line_start(b, b->cursor);
  for (; at < end; at++) {
    if (b->text.at[at] != quote) continue;
    size_t close = at + 1;
    while (close < end && b->text.at[close] != quote) close++;
    if (close >= end) return false;
    if (close >= b->cursor) {
      m->from = around ? at : at + 1;
      m->to = around ? close + 1 : close;
      return true;
    }
    at = close;
  }
  return false;
}

/* Between the innermost brackets around the cursor. */
static bool bracket_object(const td_edit_buffer *b, bool around, char open,
                           td_edit_vi_motion *m) {
  const char *t = td_str_c(&b->text);
  for (size_t at = b->cursor + 1; at-- > 0;) {
    if (at >= b->text.len || t[at] != open) continue;
    size_t close = td_edit_color_pair(t, b->text.len, at);
    if (close == SIZE_MAX || close < b->cursor) continue;
    m->from = around ? at : at + 1;
    m->to = around ? close + 1 : close;
    return true;
  }
  return false;
}

bool td_edit_vi_move_object(const td_editor *e, bool around, unsigned rune,
                            td_edit_vi_motion *m) {
  static const char names[] = "()b[]{}B", opens[] = "((([[{{{";
  const td_edit_buffer *b = &e->buffer;
  *m = (td_edit_vi_motion){.object = true};
  if (!rune || rune >= 0x80) return false;
  const char *bracket = strchr(names, (char)rune);
  if (rune == 'w' || rune == 'W') return word_object(b, around, rune == 'W', m);
  if (rune == '"' || rune == '\'')
    return quote_object(b, around, (char)rune, m);
  return bracket && bracket_object(b, around, opens[bracket - names], m);
}
