/* screen.c - what stands on the terminal, and how little must be written.
 *
 * Only moves relative to our part's first row are used, so that it needs no
 * knowledge of where on the terminal that is. A row that is full is never
 * followed by "erase to the end of line": the cursor still stands on its last
 * cell then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/screen.h"

#include <string.h>

#include "engine/base/mem.h"
#include "repl/term.h"
#include "repl/text.h"

/* Colours of the terminal's own 16, which its user has made readable. */
static const char *const sgr[TD_EDIT_STYLE_COUNT] = {
    [TD_EDIT_STYLE_KEYWORD] = "\033[35m", [TD_EDIT_STYLE_NUMBER] = "\033[36m",
    [TD_EDIT_STYLE_STRING] = "\033[33m",  [TD_EDIT_STYLE_COMMENT] = "\033[2;3m",
    [TD_EDIT_STYLE_BROKEN] = "\033[31m",  [TD_EDIT_STYLE_COMMAND] = "\033[34m",
    [TD_EDIT_STYLE_MATCH] = "\033[1;4m",  [TD_EDIT_STYLE_PROMPT] = "\033[32m",
    [TD_EDIT_STYLE_GREY] = "\033[90m",    [TD_EDIT_STYLE_MENU] = "\033[2m",
    [TD_EDIT_STYLE_CHOSEN] = "\033[7m"};
/* Without colours these still look different. */
static const char *const plain_sgr[TD_EDIT_STYLE_COUNT] = {
    [TD_EDIT_STYLE_MATCH] = "\033[1;4m",
    [TD_EDIT_STYLE_GREY] = "\033[2m",
    [TD_EDIT_STYLE_CHOSEN] = "\033[7m"};

/* ---- frames ---- */

void td_edit_frame_init(td_edit_frame *f) {
  *f = (td_edit_frame){0};
}

void td_edit_frame_deinit(td_edit_frame *f) {
  for (size_t i = 0; i < f->rows.len; i++) td_str_deinit(&f->rows.at[i].bytes);
  td_vec_free(&f->rows);
}

static td_edit_row *last_row(td_edit_frame *f) {
  return &f->rows.at[f->n - 1];
}

/* Rows are kept with their memory from frame to frame. */
static void add_row(td_edit_frame *f) {
  if ((size_t)f->n == f->rows.len) {
    td_edit_row fresh = {0};
    if (!td_vec_push(&f->rows, fresh)) {
      f->failed = true;
      return;
    }
  }
  f->n++;
  td_str_clear(&last_row(f)->bytes);
  last_row(f)->width = 0;
}

void td_edit_frame_begin(td_edit_frame *f, int columns, bool colour) {
  f->n = 0;
  f->columns = columns > 2 ? columns : 2;
  f->colour = colour;
  f->style = TD_EDIT_STYLE_PLAIN;
  f->cursor_row = f->cursor_column = 0;
  f->failed = f->bottom = false;
  add_row(f);
}

static void set_style(td_edit_frame *f, td_edit_style style) {
  const char *const *codes = f->colour ? sgr : plain_sgr;
  if (f->style == style) return;
  if (codes[f->style]) td_str_add(&last_row(f)->bytes, "\033[0m");
  if (codes[style]) td_str_add(&last_row(f)->bytes, codes[style]);
  f->style = style;
}

void td_edit_frame_newline(td_edit_frame *f) {
  if (f->failed) return;
  set_style(f, TD_EDIT_STYLE_PLAIN);
  f->failed = last_row(f)->bytes.failed;
  if (!f->failed) add_row(f);
}

void td_edit_frame_end(td_edit_frame *f) {
  if (f->failed) return;
  set_style(f, TD_EDIT_STYLE_PLAIN);
  f->failed = last_row(f)->bytes.failed;
}

int td_edit_frame_room(const td_edit_frame *f) {
  int used = f->n ? f->rows.at[f->n - 1].width : 0;
  return used < f->columns ? f->columns - used : 0;
}

void td_edit_frame_put(td_edit_frame *f, td_edit_style style, const char *bytes,
                       size_t len, int width) {
  if (f->failed) return;
  if (last_row(f)->width + width > f->columns && last_row(f)->width > 0)
    td_edit_frame_newline(f);
  if (f->failed) return;
  set_style(f, style);
  td_str_addn(&last_row(f)->bytes, bytes, len);
  last_row(f)->width += width;
}

void td_edit_frame_text(td_edit_frame *f, td_edit_style style, const char *text,
                        size_t len) {
  for (size_t at = 0, next; at < len; at = next) {
    next = td_edit_text_next(text, len, at);
    td_str shown;
    td_str_init(&shown);
    int width = td_edit_text_show(&shown, text + at, next - at);
    f->failed = f->failed || shown.failed;
    td_edit_frame_put(f, style, td_str_c(&shown), shown.len, width);
    td_str_deinit(&shown);
  }
}

void td_edit_frame_cell(td_edit_frame *f, td_edit_style style, const char *text,
                        size_t len, int width) {
  size_t at = 0, next;
  int used = 0;
  for (; at < len; at = next) {
    next = td_edit_text_next(text, len, at);
    int more = td_edit_text_width(text + at, next - at);
    bool all = next == len;
    if (used + more > width - (all ? 0 : 1)) break;
    used += more;
  }
  td_edit_frame_text(f, style, text, at);
  if (at < len && used < width) {
    td_edit_frame_put(f, style, "\u2026", strlen("\u2026"), 1);
    used++;
  }
  for (; used < width; used++) td_edit_frame_put(f, style, " ", 1, 1);
}

void td_edit_frame_cursor(td_edit_frame *f, int width) {
  if (f->failed) return;
  if (last_row(f)->width + (width > 0 ? width : 1) > f->columns)
    td_edit_frame_newline(f);
  if (f->failed) return;
  f->cursor_row = f->n - 1;
  f->cursor_column = last_row(f)->width;
}

/* ---- the screen ---- */

void td_edit_screen_init(td_edit_screen *s) {
  *s = (td_edit_screen){0};
  td_edit_frame_init(&s->shown);
  td_str_init(&s->out);
}

void td_edit_screen_deinit(td_edit_screen *s) {
  td_edit_frame_deinit(&s->shown);
  td_str_deinit(&s->out);
}

void td_edit_screen_fresh(td_edit_screen *s) {
  s->shown.n = 0;
  s->first = s->row = s->column = 0;
  s->height = 1;
}

/* Lines feeds make rows that are not there yet. */
static void go_to(td_edit_screen *s, int row, int column) {
  if (row < s->row) td_str_addf(&s->out, "\033[%dA", s->row - row);
  int below = row < s->height ? row : s->height - 1;
  if (below > s->row) td_str_addf(&s->out, "\033[%dB", below - s->row);
  if (below > s->row) s->row = below;
  for (int r = s->row; r < row; r++) td_str_addc(&s->out, '\n');
  if (row >= s->height) s->height = row + 1;
  td_str_addc(&s->out, '\r');
  if (column > 0) td_str_addf(&s->out, "\033[%dC", column);
  s->row = row;
  s->column = column;
}

static void write_row(td_edit_screen *s, const td_edit_frame *f, int from,
                      int row) {
  const td_edit_row *r = &f->rows.at[from];
  go_to(s, row, 0);
  td_str_addn(&s->out, td_str_c(&r->bytes), r->bytes.len);
  if (r->width < f->columns) td_str_add(&s->out, "\033[K");
  s->column = r->width;
}

static bool same_row(const td_edit_row *a, const td_edit_row *b) {
  return a->bytes.len == b->bytes.len &&
         !memcmp(td_str_c(&a->bytes), td_str_c(&b->bytes), a->bytes.len);
}

static void erase_below(td_edit_screen *s, int rows) {
  if (rows >= s->height) return;
  go_to(s, rows, 0);
  td_str_add(&s->out, "\033[J");
}

static void flush(td_edit_screen *s) {
  if (s->out.len) td_edit_term_write(s->out.at, s->out.len);
  td_str_clear(&s->out);
}

/* The window's first row: it moves as little as shows the cursor. */
static int window(const td_edit_frame *f, int first, int rows) {
  if (f->bottom || first > f->n - rows) first = f->n - rows;
  if (f->cursor_row < first) first = f->cursor_row;
  if (f->cursor_row >= first + rows) first = f->cursor_row - rows + 1;
  return first > 0 ? first : 0;
}

void td_edit_screen_draw(td_edit_screen *s, td_edit_frame *f, int lines) {
  td_edit_frame_end(f);
  if (f->failed) return;
  int rows = f->n < lines ? f->n : lines, was = s->first;
  int old = s->shown.n - was < s->height ? s->shown.n - was : s->height;
  s->first = window(f, was, rows);
  for (int i = 0; i < rows; i++)
    if (i >= old ||
        !same_row(&f->rows.at[s->first + i], &s->shown.rows.at[was + i]))
      write_row(s, f, s->first + i, i);
  erase_below(s, rows);
  s->height = rows;
  go_to(s, f->cursor_row - s->first, f->cursor_column);
  flush(s);
  td_edit_frame kept = s->shown;
  s->shown = *f;
  *f = kept;
}

void td_edit_screen_leave(td_edit_screen *s, td_edit_frame *f) {
  td_edit_frame_end(f);
  if (!f->failed) {
    bool whole = s->first == 0 && f->n <= s->height;
    for (int i = 0; i < f->n; i++)
      if (!whole || i >= s->shown.n ||
          !same_row(&f->rows.at[i], &s->shown.rows.at[i]))
        write_row(s, f, i, i);
    erase_below(s, f->n);
    go_to(s, f->n - 1, 0);
  }
  td_str_add(&s->out, "\r\n");
  flush(s);
  td_edit_screen_fresh(s);
}

void td_edit_screen_wrapped(td_edit_screen *s, int columns) {
  int row = s->column / columns;
  for (int i = 0; i < s->row && s->first + i < s->shown.n; i++) {
    int width = s->shown.rows.at[s->first + i].width;
    row += width > columns ? (width + columns - 1) / columns : 1;
  }
  s->row = row;
  if (s->height <= row) s->height = row + 1;
}

void td_edit_screen_wipe(td_edit_screen *s) {
  go_to(s, 0, 0);
  td_str_add(&s->out, "\033[J");
  flush(s);
  td_edit_screen_fresh(s);
}
