/* lexer.c - Lua 5.4's words, by its manual, section 3.1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/console/lexer.h"

#include <string.h>

/* The text and how far it was read. */
typedef struct reader {
  const char *text;
  size_t len, at;
} reader;

/* The character `ahead` of the current one; 0 past the end. */
static unsigned char peek(const reader *r, size_t ahead) {
  size_t i = r->at + ahead;
  return i < r->len ? (unsigned char)r->text[i] : 0;
}

static bool is_digit(unsigned char c) {
  return c >= '0' && c <= '9';
}

static bool is_hex(unsigned char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_letter(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_space(unsigned char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* ---- keywords ---- */

static const char *const keywords[] = {
    "and",      "break",  "do",   "else", "elseif", "end",  "false", "for",
    "function", "goto",   "if",   "in",   "local",  "nil",  "not",   "or",
    "repeat",   "return", "then", "true", "until",  "while"};

static bool is_keyword(const char *s, size_t n) {
  for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
    if (*keywords[i] == *s && !strncmp(keywords[i], s, n) && !keywords[i][n])
      return true;
  return false;
}

static td_word_kind name(reader *r) {
  size_t start = r->at;
  while (is_letter(peek(r, 0)) || is_digit(peek(r, 0))) r->at++;
  return is_keyword(r->text + start, r->at - start) ? TD_WORD_KEYWORD
                                                    : TD_WORD_NAME;
}

/* ---- numbers ---- */

/* Takes digits, then letters that do not belong: "3x" is one broken word. */
static td_word_kind number(reader *r) {
  bool hex = peek(r, 0) == '0' && (peek(r, 1) | 32) == 'x';
  bool point = false, digits = false, sound = true;
  unsigned char exponent = hex ? 'p' : 'e';
  if (hex) r->at += 2;
  for (;; r->at++) {
    unsigned char c = peek(r, 0);
    if (exponent && digits && (c | 32) == exponent) {
      exponent = 0, point = true, hex = false;
      if (peek(r, 1) == '+' || peek(r, 1) == '-') r->at++;
      digits = false;
    } else if (hex ? is_hex(c) : is_digit(c)) {
      digits = true;
    } else if (c == '.') {
      sound = sound && !point;
      point = true;
    } else if (is_letter(c) || is_digit(c)) {
      sound = false;
    } else {
      break;
    }
  }
  return sound && digits ? TD_WORD_NUMBER : TD_WORD_BROKEN;
}

/* ---- strings and comments ---- */

/* The level of the long bracket that opens here, or -1. */
static int long_level(const reader *r) {
  int level = 0;
  if (peek(r, 0) != '[') return -1;
  while (peek(r, 1 + (size_t)level) == '=') level++;
  return peek(r, 1 + (size_t)level) == '[' ? level : -1;
}

/* Goes behind the closing bracket; false when there is none. */
static bool long_end(reader *r, int level) {
  for (r->at += 2 + (size_t)level; r->at < r->len; r->at++) {
    if (peek(r, 0) != ']') continue;
    int n = 0;
    while (peek(r, 1 + (size_t)n) == '=') n++;
    if (n != level || peek(r, 1 + (size_t)n) != ']') continue;
    r->at += 2 + (size_t)level;
    return true;
  }
  return false;
}

/* What \z skips, and escaped line ends, belong to the string. */
static void escape(reader *r) {
  r->at++;
  if (peek(r, 0) == 'z') {
    r->at++;
    while (r->at < r->len && is_space(peek(r, 0))) r->at++;
  } else if (peek(r, 0) == '\r' && peek(r, 1) == '\n') {
    r->at += 2;
  } else if (r->at < r->len) {
    r->at++;
  }
}

static td_word_kind quoted(reader *r) {
  char quote = r->text[r->at++];
  while (r->at < r->len) {
    char c = r->text[r->at];
    if (c == '\n' || c == '\r') return TD_WORD_BROKEN;
    if (c == '\\') {
      escape(r);
      continue;
    }
    r->at++;
    if (c == quote) return TD_WORD_STRING;
  }
  return TD_WORD_BROKEN;
}

static td_word_kind comment(reader *r) {
  r->at += 2;
  int level = long_level(r);
  if (level >= 0) return long_end(r, level) ? TD_WORD_COMMENT : TD_WORD_OPEN;
  while (r->at < r->len && peek(r, 0) != '\n') r->at++;
  return TD_WORD_COMMENT;
}

/* ---- symbols ---- */

static td_word_kind symbol(reader *r) {
  static const char *const found[] = {
      "...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>"};
  for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
    size_t n = strlen(found[i]);
    if (*found[i] != r->text[r->at] || r->len - r->at < n ||
        memcmp(found[i], r->text + r->at, n))
      continue;
    r->at += n;
    return TD_WORD_SYMBOL;
  }
  unsigned char c = peek(r, 0);
  r->at++;
  if (c && strchr("+-*/%^#&~|<>=(){}[];:,.", c)) return TD_WORD_SYMBOL;
  while (r->at < r->len && peek(r, 0) >= 0x80) r->at++;
  return TD_WORD_BROKEN;
}

static td_word_kind word(reader *r) {
  unsigned char c = peek(r, 0);
  int level = long_level(r);
  if (level >= 0) return long_end(r, level) ? TD_WORD_STRING : TD_WORD_OPEN;
  if (is_letter(c)) return name(r);
  if (is_digit(c) || (c == '.' && is_digit(peek(r, 1)))) return number(r);
  if (c == '"' || c == '\'') return quoted(r);
  if (c == '-' && peek(r, 1) == '-') return comment(r);
  return symbol(r);
}

td_word td_lexer_next(const char *text, size_t len, size_t at) {
  reader r = {.text = text, .len = len, .at = at};
  while (r.at < len && is_space(peek(&r, 0))) r.at++;
  td_word w = {.start = r.at < len ? r.at : len};
  if (r.at < len) w.kind = word(&r);
  w.len = r.at < len ? r.at - w.start : len - w.start;
  return w;
}

const char *td_lexer_kind_name(td_word_kind kind) {
  static const char *const names[] = {"end",    "name",   "keyword",
                                      "number", "string", "comment",
                                      "symbol", "open",   "broken"};
  return names[kind];
}

int td_lexer_depth(const char *text, td_word w) {
  static const struct {
    const char *word;
    int by;
  } found[] = {{"do", 1},      {"then", 1}, {"function", 1}, {"repeat", 1},
               {"elseif", -1}, {"end", -1}, {"until", -1},   {"(", 1},
               {"[", 1},       {"{", 1},    {")", -1},       {"]", -1},
               {"}", -1}};
  if (w.kind != TD_WORD_KEYWORD && w.kind != TD_WORD_SYMBOL) return 0;
  for (size_t i = 0; i < sizeof found / sizeof *found; i++)
    if (strlen(found[i].word) == w.len &&
        !memcmp(found[i].word, text + w.start, w.len))
      return found[i].by;
  return 0;
}
