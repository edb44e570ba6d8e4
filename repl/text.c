/* text.c - clusters and widths, by utf8proc.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/text.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* The code point at `at` < len, and its bytes in *n. Never 0 bytes. */
static utf8proc_int32_t point_at(const char *s, size_t len, size_t at,
                                 size_t *n) {
  utf8proc_int32_t c;
  utf8proc_ssize_t got = utf8proc_iterate((const utf8proc_uint8_t *)s + at,
                                          (utf8proc_ssize_t)(len - at), &c);
  *n = got > 0 ? (size_t)got : 1;
  return got > 0 ? c : 0xFFFD;
}

static bool is_ascii(char c) {
  return (unsigned char)c < 0x80;
}

size_t td_edit_text_next(const char *s, size_t len, size_t at) {
  if (at >= len) return len;
  if (is_ascii(s[at]) && (at + 1 == len || is_ascii(s[at + 1]))) return at + 1;
  size_t n;
  utf8proc_int32_t state = 0, c = point_at(s, len, at, &n);
  for (at += n; at < len; at += n) {
    utf8proc_int32_t after = point_at(s, len, at, &n);
    if (utf8proc_grapheme_break_stateful(c, after, &state)) break;
    c = after;
  }
  return at;
}

/* Whether a cluster ends is only known from its start: from the nearest plain
 * character before, with which none goes on. */
size_t td_edit_text_prev(const char *s, size_t len, size_t at) {
  if (at > len) at = len;
  if (at == 0) return 0;
  if (is_ascii(s[at - 1])) return at - 1;
  size_t start = at - 1;
  while (start > 0 && !is_ascii(s[start])) start--;
  for (;;) {
    size_t next = td_edit_text_next(s, len, start);
    if (next >= at) return start;
    start = next;
  }
}

static int points_width(const char *s, size_t len) {
  int width = 0;
  for (size_t at = 0, n; at < len; at += n)
    width += utf8proc_charwidth(point_at(s, len, at, &n));
  return width;
}

/* Room for "<10ffff>". */
static int number_of(const char *s, size_t len, char out[16]) {
  size_t n;
  return snprintf(out, 16, "<%04x>", (unsigned)point_at(s, len, 0, &n));
}

int td_edit_text_width(const char *s, size_t len) {
  char number[16];
  if (len == 1 && *s >= ' ' && *s < 0x7f) return 1;
  if (len == 1 && *s == '\t') return 2;
  int width = points_width(s, len);
  return width > 0 ? width : number_of(s, len, number);
}

int td_edit_text_show(td_str *out, const char *s, size_t len) {
  char number[16];
  int width = len == 1 && *s == '\t' ? 0 : points_width(s, len);
  if (width > 0) {
    td_str_addn(out, s, len);
    return width;
  }
  if (*s == '\t') {
    td_str_add(out, "  ");
    return 2;
  }
  width = number_of(s, len, number);
  td_str_add(out, number);
  return width;
}

int td_edit_text_columns(const char *s, size_t len) {
  int width = 0;
  for (size_t at = 0, next; at < len; at = next) {
    next = td_edit_text_next(s, len, at);
    width += td_edit_text_width(s + at, next - at);
  }
  return width;
}

/* ---- cleaning ---- */

static bool is_control(utf8proc_int32_t c) {
  return (c >= 0 && c < ' ') || (c >= 0x7f && c < 0xa0);
}

void td_edit_text_clean(td_str *out, const char *bytes, size_t len) {
  for (size_t at = 0, n; at < len; at += n) {
    utf8proc_int32_t c = point_at(bytes, len, at, &n);
    if (c == '\r') {
      if (at + 1 >= len || bytes[at + 1] != '\n') td_str_addc(out, '\n');
    } else if (c == '\n' || c == '\t') {
      td_str_addc(out, (char)c);
    } else if (c == 0xFFFD) {
      td_str_add(out, "\xEF\xBF\xBD");
    } else if (!is_control(c)) {
      td_str_addn(out, bytes + at, n);
    }
  }
}

size_t td_edit_text_encode(unsigned rune, char out[4]) {
  if (is_control((utf8proc_int32_t)rune)) return 0;
  if (rune > 0x10FFFF || (rune >= 0xD800 && rune < 0xE000)) rune = 0xFFFD;
  return (size_t)utf8proc_encode_char((utf8proc_int32_t)rune,
                                      (utf8proc_uint8_t *)out);
}

/* ---- code points ---- */

size_t td_edit_text_points(const char *s, size_t len) {
  size_t points = 0;
  for (size_t i = 0; i < len; i++)
    points += ((unsigned char)s[i] & 0xC0) != 0x80;
  return points;
}

size_t td_edit_text_offset(const char *s, size_t len, size_t points) {
  size_t at = 0;
  for (; at < len; at++) {
    if (((unsigned char)s[at] & 0xC0) == 0x80) continue;
    if (points-- == 0) break;
  }
  return at;
}
