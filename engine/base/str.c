/* str.c - a growable string, JSON quoting, and how far two words are apart.
 *
 * Invariant: `at` is NULL or holds cap >= len + 1 bytes with a NUL at len. Once
 * an append found no memory every later one is dropped too, so that the text
 * never has a hole in the middle.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/str.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/utf8.h"

void td_str_init(td_str *s) {
  *s = (td_str){0};
}

void td_str_deinit(td_str *s) {
  td_free(s->at);
  *s = (td_str){0};
}

/* Room for `more` bytes and the NUL. */
static bool reserve(td_str *s, size_t more) {
  size_t need;
  if (s->failed) return false;
  if (!td_add(s->len, more, &need) || !td_add(need, 1, &need)) {
    s->failed = true;
    return false;
  }
  if (need <= s->cap) return true;
  size_t cap = s->cap ? s->cap : 32;
  while (cap < need) cap = cap > SIZE_MAX / 2 ? need : cap * 2;
  char *at = td_realloc(s->at, cap);
  if (!at) {
    s->failed = true;
    return false;
  }
  s->at = at;
  s->cap = cap;
  return true;
}

void td_str_addn(td_str *s, const char *bytes, size_t len) {
  if (!reserve(s, len)) return;
  if (len) memcpy(s->at + s->len, bytes, len);
  s->len += len;
  s->at[s->len] = '\0';
}

void td_str_add(td_str *s, const char *text) {
  td_str_addn(s, text, strlen(text));
}

void td_str_addc(td_str *s, char c) {
  td_str_addn(s, &c, 1);
}

void td_str_addv(td_str *s, const char *fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  if (n < 0) {
    s->failed = true;
  } else if (reserve(s, (size_t)n)) {
    vsnprintf(s->at + s->len, (size_t)n + 1, fmt, again);
    s->len += (size_t)n;
  }
  va_end(again);
}

void td_str_addf(td_str *s, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  td_str_addv(s, fmt, args);
  va_end(args);
}

const char *td_str_c(const td_str *s) {
  return s->at ? s->at : "";
}

char *td_str_take(td_str *s) {
  char *at = NULL;
  if (s->failed)
    td_free(s->at);
  else
    at = s->at ? s->at : td_strdup("");
  *s = (td_str){0};
  return at;
}

void td_str_clear(td_str *s) {
  s->len = 0;
  s->failed = false;
  if (s->at) s->at[0] = '\0';
}

char *td_strndup(const char *s, size_t len) {
  size_t bytes;
  char *p = td_add(len, 1, &bytes) ? td_malloc(bytes) : NULL;
  if (!p) return NULL;
  if (len) memcpy(p, s, len);
  p[len] = '\0';
  return p;
}

char *td_strdup(const char *s) {
  return td_strndup(s, strlen(s));
}

/* What a JSON string writes for an ASCII byte that may not stand bare. */
static void add_escape(td_str *s, unsigned char c) {
  static const char short_of[] = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (const char *p = short_of; *p; p += 2)
    if ((unsigned char)*p == c) {
      td_str_addc(s, '\\');
      td_str_addc(s, p[1]);
      return;
    }
  td_str_addf(s, "\\u%04x", c);
}

void td_str_json(td_str *s, const char *text, size_t len) {
  const unsigned char *p = (const unsigned char *)text;
  size_t plain = 0; /* start of the run not yet written */
  td_str_addc(s, '"');
  for (size_t i = 0; i < len;) {
    size_t n = td_utf8_len(p + i, len - i);
    bool bare = n > 1 || (n == 1 && p[i] >= 0x20 && p[i] != '"' &&
                          p[i] != '\\' && p[i] != 0x7F);
    if (bare) {
      i += n;
      continue;
    }
    td_str_addn(s, text + plain, i - plain);
    if (n == 0)
      td_str_add(s, "\xEF\xBF\xBD"); /* U+FFFD */
    else
      add_escape(s, p[i]);
    plain = ++i;
  }
  td_str_addn(s, text + plain, len - plain);
  td_str_addc(s, '"');
}
