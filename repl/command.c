/* command.c - what an editor can do, by whichever key it is asked for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/command.h"

#include <string.h>

#include "engine/base/mem.h"
#include "repl/ask.h"
#include "repl/color.h"
#include "repl/paste.h"
#include "repl/term.h"
#include "repl/text.h"
#include "repl/view.h"

void td_edit_command_set(td_editor *e, const char *text, size_t len,
                         size_t cursor) {
  td_edit_buffer *b = &e->buffer;
  td_edit_buffer_seal(b);
  if (td_edit_buffer_replace(b, 0, b->text.len, text, len))
    b->cursor = cursor < len ? cursor : len;
  td_edit_buffer_seal(b);
}

void td_edit_command_move(td_editor *e, size_t to) {
  e->buffer.cursor = to;
}

/* ---- lines ---- */

static void insert_line(td_editor *e, const char *indent, size_t len) {
  td_str line;
  td_str_init(&line);
  td_str_addc(&line, '\n');
  td_str_addn(&line, indent, len);
  if (!line.failed) td_edit_buffer_insert(&e->buffer, line.at, line.len);
  td_str_deinit(&line);
}

void td_edit_command_newline(td_editor *e) {
  static const char spaces[] = "                                        ";
  const td_edit_buffer *b = &e->buffer;
  size_t n = td_edit_color_indent(td_str_c(&b->text), b->cursor);
  insert_line(e, spaces, n < sizeof spaces ? n : sizeof spaces - 1);
}

static bool blank(const char *s, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (!strchr(" \t\n", s[i]) || !s[i]) return false;
  return true;
}

static td_ask_state is_complete(td_editor *e, char **indent) {
  const td_str *t = &e->buffer.text;
  if (!e->line) return TD_ASK_COMPLETE;
  td_edit_term_interruptible(true);
  td_ask_state state = td_ask_is_complete(e->line, t->at, t->len, indent);
  td_edit_term_interruptible(false);
  return state;
}

/* On the last line Enter runs what is complete; above it, it is a newline. */
td_edit_outcome td_edit_command_enter(td_editor *e) {
  td_edit_buffer *b = &e->buffer;
  const char *text = td_str_c(&b->text);
  size_t end = td_edit_buffer_line_end(b, b->cursor);
  char *indent = NULL;
  if (blank(text, b->text.len)) return TD_EDIT_ACCEPT;
  if (!blank(text + end, b->text.len - end)) {
    td_edit_command_newline(e);
    return TD_EDIT_GO_ON;
  }
  td_ask_state state = is_complete(e, &indent);
  if (state == TD_ASK_COMPLETE)
    b->cursor = b->text.len;
  else if (indent && *indent &&
           blank(text + b->cursor, b->text.len - b->cursor))
    insert_line(e, indent, strlen(indent));
  else
    td_edit_command_newline(e);
  td_free(indent);
  return state == TD_ASK_COMPLETE ? TD_EDIT_ACCEPT : TD_EDIT_GO_ON;
}

/* ---- typing ---- */

/* A line that has become `end` or the like moves below what it closes. */
static void dedent(td_editor *e) {
  td_edit_buffer *b = &e->buffer;
  size_t cursor = b->cursor, start = td_edit_buffer_line_start(b, cursor);
  if (!start || td_edit_buffer_line_end(b, cursor) != cursor) return;
  size_t want = td_edit_color_dedent(td_str_c(&b->text), start, cursor);
  size_t have = td_edit_buffer_line_text(b, start) - start;
  if (want == SIZE_MAX || have <= want) return;
  td_edit_buffer_seal(b);
  if (td_edit_buffer_remove(b, start + want, start + have))
    b->cursor = cursor - (have - want);
}

void td_edit_command_type(td_editor *e, unsigned rune) {
  char bytes[4];
  size_t n = td_edit_text_encode(rune, bytes);
  if (n && td_edit_buffer_insert(&e->buffer, bytes, n)) dedent(e);
}

void td_edit_command_paste(td_editor *e, const char *text, size_t len) {
  td_str clean;
  td_str_init(&clean);
  td_edit_paste_clean(&clean, text, len);
  while (clean.len && clean.at[clean.len - 1] == '\n') clean.len--;
  td_edit_buffer_seal(&e->buffer);
  if (!clean.failed)
    td_edit_buffer_insert(&e->buffer, td_str_c(&clean), clean.len);
  td_edit_buffer_seal(&e->buffer);
  td_str_deinit(&clean);
}

/* ---- completion ---- */

static void take_item(td_editor *e, const char *text, size_t len) {
  td_edit_menu *m = &e->menu;
  if (!td_edit_buffer_replace(&e->buffer, m->start, m->end, text, len)) return;
  m->end = m->start + len;
}

void td_edit_command_complete(td_editor *e) {
  const td_str *t = &e->buffer.text;
  td_edit_menu_clear(&e->menu);
  if (!e->line) return;
  td_edit_term_interruptible(true);
  td_ask_complete(e->line, td_str_c(t), t->len, e->buffer.cursor, &e->menu);
  td_edit_term_interruptible(false);
}

/* Before the line's text it indents; behind it, it completes. */
void td_edit_command_tab(td_editor *e) {
  td_edit_buffer *b = &e->buffer;
  td_edit_menu *m = &e->menu;
  td_edit_buffer_seal(b);
  if (td_edit_buffer_line_text(b, b->cursor) >= b->cursor) {
    int odd = td_edit_buffer_column(b, b->cursor) % 2;
    td_edit_buffer_insert(b, "  ", odd ? 1 : 2);
    return;
  }
  td_edit_command_complete(e);
  if (!m->items.len) return;
  size_t common = td_edit_menu_common(m);
  if (m->items.len == 1 || common > m->end - m->start)
    take_item(e, m->items.at[0].text, common);
  if (m->items.len == 1)
    td_edit_menu_clear(m);
  else
    m->active = true;
}

void td_edit_command_help(td_editor *e) {
  const td_str *t = &e->buffer.text;
  if (!e->line) return;
  td_edit_term_interruptible(true);
  td_ask_inspect(e->line, td_str_c(t), t->len, e->buffer.cursor, &e->note);
  td_edit_term_interruptible(false);
}

bool td_edit_command_accept(td_editor *e, bool word) {
  td_edit_buffer *b = &e->buffer;
  const char *rest = td_edit_view_suggestion(e);
  if (!rest) return false;
  size_t before = b->cursor;
  td_edit_buffer_seal(b);
  if (!td_edit_buffer_insert(b, rest, strlen(rest))) return false;
  if (word) {
    size_t end = td_edit_buffer_word_right(b, before);
    td_edit_buffer_undo(b);
    td_edit_buffer_insert(b, rest, end - before);
  }
  return true;
}

/* ---- history ---- */

/* A walk ends when what it showed has been edited. */
static void check_walk(td_editor *e) {
  if (e->walked != e->buffer.version) td_edit_history_leave(&e->history);
}

void td_edit_command_older(td_editor *e) {
  const td_edit_buffer *b = &e->buffer;
  check_walk(e);
  const char *entry;
  do entry = td_edit_history_older(&e->history, &b->text, b->cursor);
  while (!entry && td_ask_history(e->line, &e->history));
  if (entry) td_edit_command_set(e, entry, strlen(entry), SIZE_MAX);
  e->walked = b->version;
}

void td_edit_command_newer(td_editor *e) {
  const td_edit_buffer *b = &e->buffer;
  size_t cursor;
  check_walk(e);
  const char *entry = td_edit_history_newer(&e->history, &b->text, &cursor);
  if (entry) td_edit_command_set(e, entry, strlen(entry), cursor);
  e->walked = b->version;
}

static int goal_column(td_editor *e) {
  if (e->last != TD_EDIT_LAST_VERTICAL)
    e->goal = td_edit_buffer_column(&e->buffer, e->buffer.cursor);
  e->now = TD_EDIT_LAST_VERTICAL;
  return e->goal;
}

void td_edit_command_up(td_editor *e) {
  td_edit_buffer *b = &e->buffer;
  size_t start = td_edit_buffer_line_start(b, b->cursor);
  if (start == 0) {
    td_edit_command_older(e);
    return;
  }
  b->cursor = td_edit_buffer_at_column(b, start - 1, goal_column(e));
}

void td_edit_command_down(td_editor *e) {
  td_edit_buffer *b = &e->buffer;
  size_t end = td_edit_buffer_line_end(b, b->cursor);
  if (end == b->text.len) {
    td_edit_command_newer(e);
    return;
  }
  b->cursor = td_edit_buffer_at_column(b, end + 1, goal_column(e));
}

void td_edit_command_search(td_editor *e) {
  const td_edit_buffer *b = &e->buffer;
  td_edit_history_leave(&e->history);
  td_str_clear(&e->before_search);
  td_str_addn(&e->before_search, td_str_c(&b->text), b->text.len);
  e->cursor_before_search = b->cursor;
  while (td_ask_history(e->line, &e->history)) {
  }
  if (!e->before_search.failed) td_edit_search_begin(&e->search, &e->history);
}

/* ---- killing ---- */

void td_edit_command_kill(td_editor *e, size_t from, size_t to) {
  td_edit_buffer *b = &e->buffer;
  if (from >= to) return;
  bool back = from < b->cursor, goes_on = e->last == TD_EDIT_LAST_KILL;
  td_edit_kill_add(&e->kill, b->text.at + from, to - from,
                   !goes_on ? TD_EDIT_KILL_NEW
                   : back   ? TD_EDIT_KILL_PREPEND
                            : TD_EDIT_KILL_APPEND);
  td_edit_buffer_remove(b, from, to);
  e->now = TD_EDIT_LAST_KILL;
}

void td_edit_command_yank(td_editor *e) {
  td_bytes cut = td_edit_kill_yank(&e->kill);
  if (!cut.at) return;
  e->yank_from = e->buffer.cursor;
  if (td_edit_buffer_insert(&e->buffer, cut.at, cut.len))
    e->now = TD_EDIT_LAST_YANK;
}

void td_edit_command_yank_pop(td_editor *e) {
  if (e->last != TD_EDIT_LAST_YANK) return;
  td_bytes cut = td_edit_kill_pop(&e->kill);
  if (td_edit_buffer_replace(&e->buffer, e->yank_from, e->buffer.cursor, cut.at,
                             cut.len))
    e->now = TD_EDIT_LAST_YANK;
}
