/* buffer.c - the text being edited: cursor, motions, undo.
 *
 * Invariant: text = what the edits [0, done) make of the empty text since the
 * last reset. An edit that finds no memory for its record is not made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/buffer.h"

#include <string.h>

#include "engine/base/mem.h"
#include "repl/text.h"

void td_edit_buffer_init(td_edit_buffer *b) {
  *b = (td_edit_buffer){0};
  td_str_init(&b->text);
}

static void forget_from(td_edit_buffer *b, size_t first) {
  for (size_t i = first; i < b->edits.len; i++) {
    td_free(b->edits.at[i].removed);
    td_free(b->edits.at[i].added);
  }
  b->edits.len = first;
}

void td_edit_buffer_deinit(td_edit_buffer *b) {
  forget_from(b, 0);
  td_vec_free(&b->edits);
  td_str_deinit(&b->text);
}

void td_edit_buffer_reset(td_edit_buffer *b) {
  forget_from(b, 0);
  td_str_clear(&b->text);
  b->cursor = b->done = 0;
  b->typing = false;
  b->nested = 0;
  b->version++;
}

/* ---- changes ---- */

/* Makes the change; false when there is no memory. */
static bool splice(td_edit_buffer *b, size_t from, size_t to, const char *s,
                   size_t n) {
  td_str *t = &b->text;
  size_t tail = t->len - to, len = from + n + tail;
  if (len > t->len) { /* room first: the text is whole until then */
    size_t old = t->len;
    char *more = td_calloc(1, len - old + 1);
    if (!more) return false;
    td_str_addn(t, more, len - old);
    td_free(more);
    bool failed = t->failed;
    t->failed = false;
    if (failed) return false;
  }
  if (t->at) {
    memmove(t->at + from + n, t->at + to, tail);
    if (n) memcpy(t->at + from, s, n);
    t->len = len;
    t->at[len] = '\0';
  }
  b->version++;
  return true;
}

/* Typing goes on where the last edit added, until a word begins. */
static bool joins(const td_edit_buffer *b, size_t from, size_t to,
                  const char *s, size_t n) {
  if (!b->typing || !b->done || from != to || !n || b->nested) return false;
  const td_edit_buffer_change *e = &b->edits.at[b->done - 1];
  if (e->n_removed || e->at + e->n_added != from || *s == '\n') return false;
  return *s == ' ' || !e->n_added || e->added[e->n_added - 1] != ' ';
}

static bool join(td_edit_buffer *b, const char *s, size_t n) {
  td_edit_buffer_change *e = &b->edits.at[b->done - 1];
  char *more = td_realloc(e->added, e->n_added + n + 1);
  if (!more) return false;
  e->added = more;
  if (!splice(b, e->at + e->n_added, e->at + e->n_added, s, n)) return false;
  memcpy(e->added + e->n_added, s, n);
  e->n_added += n;
  return true;
}

static bool record(td_edit_buffer *b, size_t from, size_t to, const char *s,
                   size_t n) {
  if (!td_vec_reserve(&b->edits, 1)) return false;
  td_edit_buffer_change *e = &b->edits.at[b->edits.len];
  *e =
      (td_edit_buffer_change){.at = from, .n_removed = to - from, .n_added = n};
  e->before = b->cursor;
  e->removed = td_strndup(td_str_c(&b->text) + from, to - from);
  e->added = td_strndup(s, n);
  if (!e->removed || !e->added || !splice(b, from, to, s, n)) {
    td_free(e->removed);
    td_free(e->added);
    return false;
  }
  if (!b->nested) b->step++;
  e->step = b->step;
  b->edits.len++;
  b->done = b->edits.len;
  return true;
}

bool td_edit_buffer_replace(td_edit_buffer *b, size_t from, size_t to,
                            const char *text, size_t len) {
  if (from == to && !len) return true;
  if (len > TD_EDIT_BUFFER_MOST - (b->text.len - (to - from))) return false;
  forget_from(b, b->done);
  bool single = joins(b, from, to, text, len);
  if (single ? !join(b, text, len) : !record(b, from, to, text, len))
    return false;
  b->cursor = from + len;
  b->typing = from == to && !b->nested && *text != '\n';
  return true;
}

bool td_edit_buffer_insert(td_edit_buffer *b, const char *text, size_t len) {
  return td_edit_buffer_replace(b, b->cursor, b->cursor, text, len);
}

bool td_edit_buffer_remove(td_edit_buffer *b, size_t from, size_t to) {
  return td_edit_buffer_replace(b, from, to, "", 0);
}

void td_edit_buffer_seal(td_edit_buffer *b) {
  b->typing = false;
}

void td_edit_buffer_begin(td_edit_buffer *b) {
  td_edit_buffer_seal(b);
  if (b->nested++ == 0) b->step++;
}

void td_edit_buffer_end(td_edit_buffer *b) {
  b->nested--;
  td_edit_buffer_seal(b);
}

/* ---- undo ---- */

bool td_edit_buffer_undo(td_edit_buffer *b) {
  td_edit_buffer_seal(b);
  if (!b->done) return false;
  for (int step = b->edits.at[b->done - 1].step;
       b->done && b->edits.at[b->done - 1].step == step; b->done--) {
    const td_edit_buffer_change *e = &b->edits.at[b->done - 1];
    if (!splice(b, e->at, e->at + e->n_added, e->removed, e->n_removed))
      return false;
    b->cursor = e->before;
  }
  return true;
}

bool td_edit_buffer_redo(td_edit_buffer *b) {
  td_edit_buffer_seal(b);
  if (b->done == b->edits.len) return false;
  for (int step = b->edits.at[b->done].step;
       b->done < b->edits.len && b->edits.at[b->done].step == step; b->done++) {
    const td_edit_buffer_change *e = &b->edits.at[b->done];
    if (!splice(b, e->at, e->at + e->n_removed, e->added, e->n_added))
      return false;
    b->cursor = e->at + e->n_added;
  }
  return true;
}

/* ---- motions ---- */

size_t td_edit_buffer_left(const td_edit_buffer *b, size_t at) {
  return td_edit_text_prev(td_str_c(&b->text), b->text.len, at);
}

size_t td_edit_buffer_right(const td_edit_buffer *b, size_t at) {
  return td_edit_text_next(td_str_c(&b->text), b->text.len, at);
}

size_t td_edit_buffer_line_start(const td_edit_buffer *b, size_t at) {
  while (at > 0 && b->text.at[at - 1] != '\n') at--;
  return at;
}

size_t td_edit_buffer_line_end(const td_edit_buffer *b, size_t at) {
  while (at < b->text.len && b->text.at[at] != '\n') at++;
  return at;
}

size_t td_edit_buffer_line_text(const td_edit_buffer *b, size_t at) {
  at = td_edit_buffer_line_start(b, at);
  while (at < b->text.len && (b->text.at[at] == ' ' || b->text.at[at] == '\t'))
    at++;
  return at;
}

static bool in_word(const td_edit_buffer *b, size_t at) {
  unsigned char c = (unsigned char)b->text.at[at];
  return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
         c >= 0x80;
}

size_t td_edit_buffer_word_left(const td_edit_buffer *b, size_t at) {
  while (at > 0 && !in_word(b, td_edit_buffer_left(b, at)))
    at = td_edit_buffer_left(b, at);
  while (at > 0 && in_word(b, td_edit_buffer_left(b, at)))
    at = td_edit_buffer_left(b, at);
  return at;
}

size_t td_edit_buffer_word_right(const td_edit_buffer *b, size_t at) {
  while (at < b->text.len && !in_word(b, at)) at = td_edit_buffer_right(b, at);
  while (at < b->text.len && in_word(b, at)) at = td_edit_buffer_right(b, at);
  return at;
}

int td_edit_buffer_column(const td_edit_buffer *b, size_t at) {
  size_t start = td_edit_buffer_line_start(b, at);
  return td_edit_text_columns(td_str_c(&b->text) + start, at - start);
}

size_t td_edit_buffer_at_column(const td_edit_buffer *b, size_t at, int goal) {
  size_t end = td_edit_buffer_line_end(b, at);
  at = td_edit_buffer_line_start(b, at);
  for (int column = 0; at < end;) {
    size_t next = td_edit_buffer_right(b, at);
    column += td_edit_text_width(b->text.at + at, next - at);
    if (column > goal) break;
    at = next;
  }
  return at;
}
