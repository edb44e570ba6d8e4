/* view.c - the editor as rows on the terminal: prompt, text, suggestion, menu.
 *
 * Laid out anew for every key; the screen finds out which rows changed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/view.h"

#include <string.h>

#include "repl/color.h"
#include "repl/term.h"
#include "repl/text.h"

/* Lines after the first begin as far right: "   ...: ". */
static void show_continuation(td_editor *e) {
  static const char dots[] = "...: ";
  int width = td_edit_text_columns(td_str_c(&e->prompt), e->prompt.len);
  int lead = width - (int)strlen(dots);
  for (int i = 0; i < (lead < 0 ? width : lead); i++)
    td_edit_frame_put(&e->frame, TD_EDIT_STYLE_PLAIN, " ", 1, 1);
  if (lead >= 0)
    td_edit_frame_text(&e->frame, TD_EDIT_STYLE_PROMPT, dots, strlen(dots));
}

/* One style a byte in e->styles; false without memory. */
static bool color(td_editor *e, bool final) {
  const td_str *t = &e->buffer.text;
  td_str_clear(&e->styles);
  td_str_addn(&e->styles, td_str_c(t), t->len);
  if (e->styles.failed || !t->len) return !e->styles.failed;
  unsigned char *styles = (unsigned char *)e->styles.at;
  bool plain = final || e->search.active;
  td_edit_color_text(t->at, t->len, plain ? SIZE_MAX : e->buffer.cursor,
                     styles);
  const td_edit_search *s = &e->search;
  if (s->active && s->query.len && s->found + s->query.len <= t->len &&
      !memcmp(t->at + s->found, s->query.at, s->query.len))
    memset(styles + s->found, TD_EDIT_STYLE_MATCH, s->query.len);
  return true;
}

/* The cluster [at, next), with the cursor on it when it is there. */
static void show_cluster(td_editor *e, size_t at, size_t next, bool cursor) {
  const char *s = td_str_c(&e->buffer.text) + at;
  if (*s == '\n') {
    if (cursor) td_edit_frame_cursor(&e->frame, 1);
    td_edit_frame_newline(&e->frame);
    show_continuation(e);
    return;
  }
  td_edit_style style = (td_edit_style)(unsigned char)e->styles.at[at];
  if ((unsigned char)*s < 0x80 && *s >= ' ' && next == at + 1) {
    if (cursor) td_edit_frame_cursor(&e->frame, 1);
    td_edit_frame_put(&e->frame, style, s, 1, 1);
    return;
  }
  td_str shown;
  td_str_init(&shown);
  int width = td_edit_text_show(&shown, s, next - at);
  e->frame.failed = e->frame.failed || shown.failed;
  if (cursor) td_edit_frame_cursor(&e->frame, width);
  td_edit_frame_put(&e->frame, style, td_str_c(&shown), shown.len, width);
  td_str_deinit(&shown);
}

static bool is_simple(char c) {
  return c >= ' ' && c < 0x7f;
}

/* How many letters from `at` on are one each, look the same and fit the row:
 * most of a text is drawn by such runs. A letter before a mark is in none. */
static size_t run_length(const td_editor *e, size_t at, size_t stop) {
  const td_str *t = &e->buffer.text;
  size_t n = 0, room = (size_t)td_edit_frame_room(&e->frame);
  while (n < room && at + n < stop && is_simple(t->at[at + n]) &&
         e->styles.at[at + n] == e->styles.at[at])
    n++;
  if (n && at + n < t->len && (unsigned char)t->at[at + n] >= 0x80) n--;
  return n;
}

static void show_text(td_editor *e) {
  const td_str *t = &e->buffer.text;
  size_t cursor = e->buffer.cursor;
  bool placed = false;
  for (size_t at = 0, next; at < t->len; at = next) {
    bool here = !placed && at >= cursor;
    size_t n = here ? 0 : run_length(e, at, at < cursor ? cursor : t->len);
    next = n ? at + n : td_edit_text_next(t->at, t->len, at);
    if (n)
      td_edit_frame_put(&e->frame, (td_edit_style)e->styles.at[at], t->at + at,
                        n, (int)n);
    else
      show_cluster(e, at, next, here);
    placed = placed || here;
  }
  if (!placed) td_edit_frame_cursor(&e->frame, 1);
}

const char *td_edit_view_suggestion(const td_editor *e) {
  const td_edit_buffer *b = &e->buffer;
  if (e->search.active || e->menu.active || b->cursor < b->text.len ||
      e->history.at < e->history.entries.len || (e->vi.on && e->vi.normal))
    return NULL;
  const char *entry = td_edit_history_suggest(&e->history, &b->text);
  return entry ? entry + b->text.len : NULL;
}

/* Its first line; dots where there are more. */
static void show_suggestion(td_editor *e) {
  const char *rest = td_edit_view_suggestion(e);
  if (!rest) return;
  size_t n = strcspn(rest, "\n");
  td_edit_frame_text(&e->frame, TD_EDIT_STYLE_GREY, rest, n);
  if (rest[n]) td_edit_frame_text(&e->frame, TD_EDIT_STYLE_GREY, "\u2026", 3);
}

static void show_search(td_editor *e) {
  const td_edit_search *s = &e->search;
  static const char found[] = "search: ", not_found[] = "not found: ";
  const char *label = s->failed ? not_found : found;
  td_edit_frame_newline(&e->frame);
  td_edit_frame_text(&e->frame, TD_EDIT_STYLE_PROMPT, label, strlen(label));
  td_edit_frame_text(&e->frame, TD_EDIT_STYLE_PLAIN, td_str_c(&s->query),
                     s->query.len);
  e->frame.bottom = true;
}

/* As many lines as the rows take; dots where there are more. */
static void show_note(td_editor *e, int rows) {
  td_edit_frame *f = &e->frame;
  const char *s = td_str_c(&e->note);
  int most = f->n + rows;
  f->bottom = true;
  while (*s && !f->failed) {
    size_t n = strcspn(s, "\n");
    td_edit_frame_newline(f);
    bool full = f->n >= most && s[n];
    td_edit_frame_cell(f, TD_EDIT_STYLE_MENU, full ? "\u2026" : s, full ? 3 : n,
                       f->columns);
    if (full) return;
    s += s[n] ? n + 1 : n;
  }
}

void td_edit_view_layout(td_editor *e, int columns, int lines, bool final) {
  td_edit_frame_begin(&e->frame, columns, e->colour);
  if (!color(e, final)) e->frame.failed = true;
  if (e->frame.failed) return; /* what is shown stays */
  td_edit_frame_text(&e->frame, TD_EDIT_STYLE_PROMPT, td_str_c(&e->prompt),
                     e->prompt.len);
  show_text(e);
  if (final) return;
  show_suggestion(e);
  if (e->search.active) show_search(e);
  if (e->note.len) show_note(e, lines / 2);
  if (e->menu.active) {
    td_edit_menu_show(&e->menu, &e->frame, lines / 2);
    e->frame.bottom = true;
  }
}

void td_edit_view_draw(td_editor *e) {
  int columns, lines;
  td_edit_term_size(&columns, &lines);
  td_edit_view_layout(e, columns, lines, false);
  td_edit_screen_draw(&e->screen, &e->frame, lines);
}
