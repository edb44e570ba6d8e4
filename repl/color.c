/* color.c - the colours, brackets and indentation of Lua source being typed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/color.h"

#include <string.h>

#include "lua/console/lexer.h"

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/* ---- styles ---- */

/* True for a line that is no Lua but a command: %time, !ls, ?name. */
static bool is_command(const char *text, size_t len) {
  size_t at = 0;
  while (at < len && is_blank(text[at])) at++;
  return at < len && strchr("%!?", text[at]) && text[at];
}

static td_edit_style style_of(td_word_kind kind) {
  switch (kind) {
  case TD_WORD_KEYWORD:
    return TD_EDIT_STYLE_KEYWORD;
  case TD_WORD_NUMBER:
    return TD_EDIT_STYLE_NUMBER;
  case TD_WORD_STRING:
  case TD_WORD_OPEN:
    return TD_EDIT_STYLE_STRING;
  case TD_WORD_COMMENT:
    return TD_EDIT_STYLE_COMMENT;
  case TD_WORD_BROKEN:
    return TD_EDIT_STYLE_BROKEN;
  case TD_WORD_NAME:
  case TD_WORD_SYMBOL:
  case TD_WORD_END:
    break;
  }
  return TD_EDIT_STYLE_PLAIN;
}

/* A string without its closing quote counts as broken for the lexer; here it is
 * still being typed. */
static td_edit_style style_here(const char *text, td_word w) {
  char c = text[w.start];
  if (w.kind == TD_WORD_BROKEN && (c == '"' || c == '\''))
    return TD_EDIT_STYLE_STRING;
  if (w.kind == TD_WORD_OPEN && c == '-') return TD_EDIT_STYLE_COMMENT;
  return style_of(w.kind);
}

/* The command's name, and how far it reaches. */
static size_t color_command(const char *text, size_t len,
                            unsigned char *styles) {
  size_t at = 0;
  while (at < len && is_blank(text[at])) at++;
  bool whole = at < len && text[at] != '%';
  for (; at < len && (whole ? text[at] != '\n' : !strchr(" \t\n", text[at]));
       at++)
    styles[at] = TD_EDIT_STYLE_COMMAND;
  return at;
}

static void color_pair(const char *text, size_t len, size_t at,
                       unsigned char *styles) {
  size_t other = td_edit_color_pair(text, len, at);
  styles[at] = other == SIZE_MAX ? TD_EDIT_STYLE_BROKEN : TD_EDIT_STYLE_MATCH;
  if (other != SIZE_MAX) styles[other] = TD_EDIT_STYLE_MATCH;
}

static bool is_bracket(const char *text, size_t len, size_t at) {
  return at < len && text[at] && strchr("()[]{}", text[at]);
}

/* A bracket that stands for itself, not in a string or a comment. */
static bool bare_bracket(const char *text, size_t len, size_t at,
                         const unsigned char *styles) {
  return is_bracket(text, len, at) && styles[at] == TD_EDIT_STYLE_PLAIN;
}

void td_edit_color_text(const char *text, size_t len, size_t cursor,
                        unsigned char *styles) {
  size_t at = 0;
  memset(styles, TD_EDIT_STYLE_PLAIN, len);
  if (is_command(text, len)) at = color_command(text, len, styles);
  while (at < len) {
    td_word w = td_lexer_next(text, len, at);
    if (w.kind == TD_WORD_END) break;
    memset(styles + w.start, style_here(text, w), w.len);
    at = w.start + w.len;
  }
  if (cursor == SIZE_MAX) return;
  if (bare_bracket(text, len, cursor, styles))
    color_pair(text, len, cursor, styles);
  else if (cursor > 0 && bare_bracket(text, len, cursor - 1, styles))
    color_pair(text, len, cursor - 1, styles);
}

/* ---- brackets ---- */

/* The open brackets are kept on a stack, from the text's start on. When the one
 * at `at` closes the top of it, or is the top when that is closed, both halves
 * are known. Below this depth none is found. */
enum { DEEPEST = 512 };

size_t td_edit_color_pair(const char *text, size_t len, size_t at) {
  static const char open[] = "([{", close[] = ")]}";
  size_t stack[DEEPEST];
  size_t depth = 0;
  for (size_t i = 0; i < len && depth < DEEPEST;) {
    td_word w = td_lexer_next(text, len, i);
    if (w.kind == TD_WORD_END) break;
    i = w.start + w.len;
    if (w.kind != TD_WORD_SYMBOL || w.len != 1) continue;
    const char *c = strchr(close, text[w.start]);
    if (strchr(open, text[w.start])) stack[depth++] = w.start;
    if (!c) continue;
    bool fits = depth && text[stack[depth - 1]] == open[c - close];
    if (w.start == at) return fits ? stack[depth - 1] : SIZE_MAX;
    if (fits && stack[--depth] == at) return w.start;
  }
  return SIZE_MAX;
}

/* ---- indentation ---- */

enum { STEP = 2 };

static size_t line_start(const char *text, size_t at) {
  while (at > 0 && text[at - 1] != '\n') at--;
  return at;
}

static size_t spaces_at(const char *text, size_t len, size_t start) {
  size_t n = 0;
  for (; start + n < len && is_blank(text[start + n]); n++) continue;
  return n;
}

static bool is_word(const char *text, td_word w, const char *word) {
  return w.len == strlen(word) && !memcmp(text + w.start, word, w.len);
}

/* As far as the line that ends at `at`, and a step more when it opened what it
 * did not close: after "if x then" and "f({", not after "end)". */
size_t td_edit_color_indent(const char *text, size_t at) {
  size_t start = line_start(text, at);
  int depth = 0, lowest = 0;
  for (size_t i = start; i < at;) {
    td_word w = td_lexer_next(text, at, i);
    if (w.kind == TD_WORD_END) break;
    i = w.start + w.len;
    depth += td_lexer_depth(text, w);
    if (depth < lowest) lowest = depth;
    if (is_word(text, w, "else")) lowest = depth - 1;
  }
  return spaces_at(text, at, start) + (depth > lowest ? STEP : 0);
}

static bool closes(const char *text, td_word w) {
  return td_lexer_depth(text, w) < 0 || is_word(text, w, "else");
}

/* The indentation of the line with the innermost thing open at `start`. */
static size_t opener_indent(const char *text, size_t start) {
  size_t stack[DEEPEST], depth = 0;
  for (size_t i = 0; i < start && depth < DEEPEST;) {
    td_word w = td_lexer_next(text, start, i);
    if (w.kind == TD_WORD_END) break;
    i = w.start + w.len;
    int by = td_lexer_depth(text, w);
    size_t line = line_start(text, w.start);
    if (by > 0) stack[depth++] = spaces_at(text, start, line);
    if (by < 0 && depth) depth--;
  }
  return depth ? stack[depth - 1] : SIZE_MAX;
}

size_t td_edit_color_dedent(const char *text, size_t start, size_t end) {
  td_word w = td_lexer_next(text, end, start);
  if (w.kind == TD_WORD_END || w.start + w.len != end) return SIZE_MAX;
  return closes(text, w) ? opener_indent(text, start) : SIZE_MAX;
}
