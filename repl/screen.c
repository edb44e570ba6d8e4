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

#include "repl/term.h"

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
