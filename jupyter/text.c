/* text.c - pieces of text as a notebook should get them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/text.h"

#include <string.h>

/* ---- characters ---- */

static size_t length_of(unsigned char lead) {
  if (lead >= 0xf0 && lead < 0xf8) return 4;
  if (lead >= 0xe0) return lead < 0xf0 ? 3 : 1;
  return lead >= 0xc0 ? 2 : 1;
}

size_t td_jupyter_text_partial(const char *text, size_t len) {
  for (size_t back = 1; back <= 3 && back <= len; back++) {
    unsigned char c = (unsigned char)text[len - back];
    if ((c & 0xc0) == 0x80) continue;
    return length_of(c) > back ? back : 0;
  }
  return 0;
}

/* ---- lines written over ---- */

static size_t count_characters(const char *text, size_t len) {
  size_t n = 0;
  for (size_t i = 0; i < len; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
  return n;
}

/* Where the n-th character begins; at most `len`. */
static size_t skip_characters(const char *text, size_t len, size_t n) {
  size_t i = 0;
  for (; i < len && n; n--) do
      i++;
    while (i < len && ((unsigned char)text[i] & 0xc0) == 0x80);
  return i;
}

static bool is_plain(const char *text, size_t len) {
  return !memchr(text, '\033', len) && !memchr(text, '\b', len);
}

/* Writes over the line that begins at `start` of `out`. What is under a shorter
 * text stays to be seen; under colours it cannot be told. */
static void overwrite(td_str *out, size_t start, const char *text, size_t len) {
  size_t under = out->len - start;
  const char *was = td_str_c(out) + start;
  size_t n = count_characters(text, len);
  if (!len) return;
  if (n >= count_characters(was, under)) {
    out->len = start;
    td_str_addn(out, text, len);
  } else if (is_plain(text, len) && is_plain(was, under)) {
    size_t rest = skip_characters(was, under, n);
    td_str whole;
    td_str_init(&whole);
    td_str_addn(&whole, text, len);
    td_str_addn(&whole, was + rest, under - rest);
    out->len = start;
    td_str_addn(out, td_str_c(&whole), whole.len);
    td_str_deinit(&whole);
  } else {
    td_str_addc(out, '\r');
    td_str_addn(out, text, len);
  }
}

/* One line without its end. What stands before its first \r may go on from text
 * sent before: that \r is kept where the line is not known from its start. */
static void collapse_line(td_str *out, const char *text, size_t len,
                          bool from_start) {
  const char *r = memchr(text, '\r', len);
  size_t start = out->len;
  if (!r) {
    td_str_addn(out, text, len);
    return;
  }
  if (from_start)
    td_str_addn(out, text, (size_t)(r - text));
  else
    td_str_addn(out, text, (size_t)(r - text) + 1), start = out->len;
  while (r) {
    const char *at = r + 1;
    size_t left = (size_t)(text + len - at);
    r = memchr(at, '\r', left);
    overwrite(out, start, at, r ? (size_t)(r - at) : left);
  }
  if (text[len - 1] == '\r') td_str_addc(out, '\r');
}

void td_jupyter_text_collapse(td_str *out, const char *text, size_t len) {
  bool from_start = false;
  while (len) {
    const char *end = memchr(text, '\n', len);
    size_t n = end ? (size_t)(end - text) : len;
    size_t own = end && n && text[n - 1] == '\r' ? n - 1 : n;
    collapse_line(out, text, own, from_start);
    if (end) td_str_addc(out, '\n');
    from_start = true;
    text += n + (end != NULL);
    len -= n + (end != NULL);
  }
}
