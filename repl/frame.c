/* frame.c - rows of text with their colours, laid out for a width.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/frame.h"

#include <string.h>

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
