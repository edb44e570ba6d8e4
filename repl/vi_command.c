/* vi_command.c - vi's operators, and its commands that are no motions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/vi_command.h"

#include <string.h>

#include "repl/command.h"
#include "repl/text.h"

/* ---- operators ---- */

static void insert_mode(td_editor *e) {
  e->vi.normal = false;
  td_edit_buffer_seal(&e->buffer);
}

static void indent_lines(td_editor *e, size_t from, size_t to, bool more) {
  td_edit_buffer *b = &e->buffer;
  td_edit_buffer_begin(b);
  size_t at = td_edit_buffer_line_start(b, to);
  for (;;) {
    size_t spaces = td_edit_buffer_line_text(b, at) - at;
    bool blank =
        td_edit_buffer_line_text(b, at) == td_edit_buffer_line_end(b, at);
    if (more && !blank) td_edit_buffer_replace(b, at, at, "  ", 2);
    if (!more) td_edit_buffer_remove(b, at, at + (spaces < 2 ? spaces : 2));
    if (at <= from || at == 0) break;
    at = td_edit_buffer_line_start(b, at - 1);
  }
  td_edit_buffer_end(b);
  b->cursor = td_edit_buffer_line_text(b, at);
}

/* Whole lines are cut with one of the newlines around them. */
static void cut_lines(td_editor *e, size_t from, size_t to, bool change) {
  td_edit_buffer *b = &e->buffer;
  from = td_edit_buffer_line_start(b, from);
  to = td_edit_buffer_line_end(b, to);
  td_edit_kill_add(&e->kill, b->text.at + from, to - from, TD_EDIT_KILL_NEW);
  if (change) {
    from = td_edit_buffer_line_text(b, from);
  } else if (to < b->text.len) {
    to++;
  } else if (from > 0) {
    from--;
  }
  td_edit_buffer_remove(b, from, to);
  if (!change) b->cursor = td_edit_buffer_line_text(b, b->cursor);
}

static void copy(td_editor *e, size_t from, size_t to, bool lines) {
  td_edit_buffer *b = &e->buffer;
  if (lines) {
    from = td_edit_buffer_line_start(b, from);
    to = td_edit_buffer_line_end(b, to);
  }
  td_edit_kill_add(&e->kill, b->text.at + from, to - from, TD_EDIT_KILL_NEW);
  if (!lines) b->cursor = from;
}

/* Applies d, c, y, > or < from the cursor to where the motion leads. */
void td_edit_vi_command_operate(td_editor *e, char op,
                                const td_edit_vi_motion *m) {
  td_edit_buffer *b = &e->buffer;
  size_t here = m->object ? m->from : b->cursor;
  size_t from = here < m->to ? here : m->to, to = here < m->to ? m->to : here;
  if (m->inclusive && to < b->text.len) to = td_edit_buffer_right(b, to);
  if (op == '>' || op == '<') {
    indent_lines(e, from, to, op == '>');
    return;
  }
  e->vi.lines = m->lines;
  if (op == 'y')
    copy(e, from, to, m->lines);
  else if (m->lines)
    cut_lines(e, from, to, op == 'c');
  else
    td_edit_command_kill(e, from, to);
  if (op == 'c') insert_mode(e);
}

void td_edit_vi_command_lines(td_editor *e, char op, int n) {
  td_edit_vi_motion m = {
      .to = td_edit_vi_move_line(&e->buffer, e->buffer.cursor, n - 1),
      .lines = true};
  td_edit_vi_command_operate(e, op, &m);
}

/* ---- commands ---- */

static void put(td_editor *e, bool behind) {
  td_edit_buffer *b = &e->buffer;
  td_bytes cut = td_edit_kill_yank(&e->kill);
  if (!cut.at) return;
  td_edit_buffer_begin(b);
  if (!e->vi.lines) {
    if (behind && b->cursor < td_edit_buffer_line_end(b, b->cursor))
      b->cursor = td_edit_buffer_right(b, b->cursor);
    if (td_edit_buffer_insert(b, cut.at, cut.len))
      b->cursor = td_edit_buffer_left(b, b->cursor);
  } else {
    size_t at = behind ? td_edit_buffer_line_end(b, b->cursor)
                       : td_edit_buffer_line_start(b, b->cursor);
    td_edit_buffer_replace(b, at, at, "\n", 1);
    size_t line = behind ? at + 1 : at;
    td_edit_buffer_replace(b, line, line, cut.at, cut.len);
    b->cursor = td_edit_buffer_line_text(b, line);
  }
  td_edit_buffer_end(b);
}

static void open_line(td_editor *e, bool below) {
  td_edit_buffer *b = &e->buffer;
  insert_mode(e);
  if (below) {
    b->cursor = td_edit_buffer_line_end(b, b->cursor);
    td_edit_command_newline(e);
    return;
  }
  size_t start = td_edit_buffer_line_start(b, b->cursor);
  size_t spaces = td_edit_buffer_line_text(b, start) - start;
  td_str line;
  td_str_init(&line);
  td_str_addn(&line, td_str_c(&b->text) + start, spaces);
  td_str_addc(&line, '\n');
  if (td_edit_buffer_replace(b, start, start, td_str_c(&line), line.len))
    b->cursor = start + spaces;
  td_str_deinit(&line);
}

void td_edit_vi_command_replace(td_editor *e, unsigned rune) {
  td_edit_buffer *b = &e->buffer;
  char bytes[4];
  size_t n = td_edit_text_encode(rune, bytes), at = b->cursor;
  if (!n || at >= td_edit_buffer_line_end(b, at)) return;
  if (td_edit_buffer_replace(b, at, td_edit_buffer_right(b, at), bytes, n))
    b->cursor = at;
}

static void flip_case(td_editor *e, int n) {
  td_edit_buffer *b = &e->buffer;
  td_edit_buffer_begin(b);
  for (; n > 0 && b->cursor < td_edit_buffer_line_end(b, b->cursor); n--) {
    size_t at = b->cursor, next = td_edit_buffer_right(b, at);
    char c = b->text.at[at];
    bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
    char other = (char)(c ^ 32);
    if (letter) td_edit_buffer_replace(b, at, at + 1, &other, 1);
    b->cursor = next;
  }
  td_edit_buffer_end(b);
}

static void join_lines(td_editor *e) {
  td_edit_buffer *b = &e->buffer;
  size_t end = td_edit_buffer_line_end(b, b->cursor);
  if (end == b->text.len) return;
  if (td_edit_buffer_replace(b, end, td_edit_buffer_line_text(b, end + 1), " ",
                             1))
    b->cursor = end;
}

/* Commands that are short for an operator and a motion. */
static bool short_form(td_editor *e, unsigned rune, int n) {
  static const struct {
    char rune, op, motion;
  } forms[] = {{'D', 'd', '$'},
               {'C', 'c', '$'},
               {'x', 'd', 'l'},
               {'X', 'd', 'h'},
               {'s', 'c', 'l'}};
  td_edit_vi_motion m;
  for (size_t i = 0; i < TD_COUNT(forms); i++) {
    if ((unsigned char)forms[i].rune != rune) continue;
    if (td_edit_vi_move(e, (unsigned char)forms[i].motion, n, &m))
      td_edit_vi_command_operate(e, forms[i].op, &m);
    return true;
  }
  if (rune == 'S' || rune == 'Y')
    td_edit_vi_command_lines(e, rune == 'S' ? 'c' : 'y', n);
  return rune == 'S' || rune == 'Y';
}

static bool start_insert(td_editor *e, unsigned rune) {
  td_edit_buffer *b = &e->buffer;
  size_t at = b->cursor;
  switch (rune) {
  case 'i':
    break;
  case 'a':
    if (at < td_edit_buffer_line_end(b, at)) at = td_edit_buffer_right(b, at);
    break;
  case 'I':
    at = td_edit_buffer_line_text(b, at);
    break;
  case 'A':
    at = td_edit_buffer_line_end(b, at);
    break;
  case 'o':
    open_line(e, true);
    return true;
  case 'O':
    open_line(e, false);
    return true;
  default:
    return false;
  }
  b->cursor = at;
  insert_mode(e);
  return true;
}

td_edit_outcome td_edit_vi_command(td_editor *e, unsigned rune, int n) {
  if (start_insert(e, rune) || short_form(e, rune, n)) return TD_EDIT_GO_ON;
  switch (rune) {
  case 'p':
    put(e, true);
    break;
  case 'P':
    put(e, false);
    break;
  case '~':
    flip_case(e, n);
    break;
  case 'J':
    join_lines(e);
    break;
  case 'u':
    td_edit_buffer_undo(&e->buffer);
    break;
  case 'K':
    td_edit_command_help(e);
    break;
  case 'v':
    return TD_EDIT_OUTSIDE;
  case '/':
  case '?':
    td_edit_command_search(e);
    break;
  }
  return TD_EDIT_GO_ON;
}
