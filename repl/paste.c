/* paste.c - pasted text without the prompts it was copied with.
 *
 * A transcript has lines that were typed, each with a prompt, and what was
 * printed between, without one. Only a text whose first line has a prompt is
 * one; `> ` begins no Lua line, so that code is never taken for a transcript.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/paste.h"

#include <string.h>

static size_t spaces(const char *s, size_t n) {
  size_t i = 0;
  while (i < n && s[i] == ' ') i++;
  return i;
}

static bool starts(const char *s, size_t n, const char *word) {
  size_t k = strlen(word);
  return n >= k && !memcmp(s, word, k);
}

/* The length of a prompt of arrows or dots: the mark, alone in its line or
 * before a space. */
static size_t marked(const char *s, size_t n, const char *mark) {
  size_t k = strlen(mark);
  if (!starts(s, n, mark)) return 0;
  if (n == k) return k;
  return s[k] == ' ' ? k + 1 : 0;
}

/* "In [12]: " */
static size_t numbered(const char *s, size_t n) {
  size_t i = 4;
  if (!starts(s, n, "In [")) return 0;
  while (i < n && s[i] >= '0' && s[i] <= '9') i++;
  if (i == 4 || !starts(s + i, n - i, "]:")) return 0;
  i += 2;
  return i < n && s[i] == ' ' ? i + 1 : i;
}

typedef enum prompt_kind { NONE, FIRST, NEXT } prompt_kind;

/* What kind of prompt the line has, and its bytes in *n. A prompt's indentation
 * belongs to it, as in "   ...: ". */
static prompt_kind prompt_of(const char *s, size_t len, size_t *n) {
  static const char *const next[] = {"...:", "....:", "...", ">>"};
  size_t lead = spaces(s, len);
  const char *at = s + lead;
  size_t left = len - lead;
  *n = lead;
  size_t k = numbered(at, left);
  if (!k) k = marked(at, left, ">>>");
  if (!k) k = marked(at, left, ">");
  *n += k;
  if (k) return FIRST;
  for (size_t i = 0; i < TD_COUNT(next) && !k; i++)
    k = marked(at, left, next[i]);
  *n += k;
  return k ? NEXT : NONE;
}

static size_t line_length(const char *s, size_t n) {
  const char *end = memchr(s, '\n', n);
  return end ? (size_t)(end - s) : n;
}

/* The first line that is not blank. */
static size_t first_line(const char *s, size_t len) {
  size_t at = 0;
  while (at < len && (s[at] == ' ' || s[at] == '\n' || s[at] == '\t')) at++;
  while (at > 0 && s[at - 1] != '\n') at--;
  return at;
}

void td_edit_paste_clean(td_str *out, const char *text, size_t len) {
  size_t n, at = first_line(text, len);
  bool any = false;
  if (prompt_of(text + at, line_length(text + at, len - at), &n) == NONE) {
    td_str_addn(out, text, len);
    return;
  }
  while (at < len) {
    size_t line = line_length(text + at, len - at);
    if (prompt_of(text + at, line, &n) != NONE) {
      if (any) td_str_addc(out, '\n');
      td_str_addn(out, text + at + n, line - n);
      any = true;
    }
    at += line + 1;
  }
}
