/* string_transform.c - StringLower, StringUpper, StringStrip: one string from
 * another.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>
#include <pthread.h>
#include <string.h>
#include <wctype.h>

#include "kernels/text.h"

/* ---- StringLower, StringUpper -------------------------------------------- */

static locale_t unicode; /* 0: there is none */
static pthread_once_t unicode_once = PTHREAD_ONCE_INIT;

static void unicode_make(void) {
  unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

typedef struct letters {
  bool upper, utf8;
} letters;

static char turn_ascii(char c, bool upper) {
  if (upper) return c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
  return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* The character at s, its bytes in *len; a byte that begins none is itself. */
static uint32_t get_utf8(td_bytes s, size_t *len) {
  unsigned char c = (unsigned char)s.at[0];
  size_t n = c < 0x80       ? 1
             : c >> 5 == 6  ? 2
             : c >> 4 == 14 ? 3
             : c >> 3 == 30 ? 4
                            : 0;
  uint32_t v = n > 1 ? c & (0x7fu >> n) : c;
  *len = 1;
  if (n == 0 || n > s.len) return UINT32_MAX;
  for (size_t i = 1; i < n; i++) {
    if (!td_text_follows(s.at[i])) return UINT32_MAX;
    v = v << 6 | ((unsigned char)s.at[i] & 0x3f);
  }
  *len = n;
  return v;
}

static void put_utf8(uint32_t v, td_str *out) {
  if (v < 0x80) {
    td_str_addc(out, (char)v);
    return;
  }
  int more = v < 0x800 ? 1 : v < 0x10000 ? 2 : 3;
  td_str_addc(out, (char)((0xff00u >> (more + 1) & 0xff) | v >> 6 * more));
  while (more-- > 0) td_str_addc(out, (char)(0x80 | (v >> 6 * more & 0x3f)));
}

static td_status *turn(const void *arg, td_bytes s, td_str *out) {
  const letters *l = arg;
  while (s.len) {
    size_t n = 1;
    uint32_t v = l->utf8 ? get_utf8(s, &n) : UINT32_MAX;
    if (n > 1)
      put_utf8(l->upper ? towupper_l(v, unicode) : towlower_l(v, unicode), out);
    else
      td_str_addc(out, turn_ascii(s.at[0], l->upper));
    s.at += n;
    s.len -= n;
  }
  return NULL;
}

static td_status *turn_run(td_kernel_ctx *c, bool upper) {
  const char *encoding = td_node_string(td_ctx_node(c), "encoding");
  letters l = {upper, strcmp(encoding, "utf-8") == 0};
  if (encoding[0] && !l.utf8)
    return td_error(TD_INVALID_ARGUMENT,
                    "encoding must be \"\" or \"utf-8\", not \"%.60s\"",
                    encoding);
  if (l.utf8) pthread_once(&unicode_once, unicode_make);
  if (l.utf8 && !unicode)
    return td_error(TD_FAILED_PRECONDITION,
                    "encoding \"utf-8\" needs the locale C.UTF-8, which this "
                    "system lacks");
  return td_text_map(c, turn, &l);
}

static td_status *lower_run(td_kernel_ctx *c) {
  return turn_run(c, false);
}

static td_status *upper_run(td_kernel_ctx *c) {
  return turn_run(c, true);
}

/* ---- StringStrip --------------------------------------------------------- */

static td_status *strip(const void *arg, td_bytes in, td_str *out) {
  (void)arg;
  td_bytes s = td_text_strip(in);
  td_str_addn(out, s.at, s.len);
  return NULL;
}

static td_status *strip_run(td_kernel_ctx *c) {
  return td_text_map(c, strip, NULL);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "StringLower",
     .sig = "input: string -> output: string; encoding: string = \"\"",
     .shape = td_infer_same,
     .doc = "Small letters instead of capital ones: of ASCII, or with encoding "
            "\"utf-8\" of Unicode, letter by letter.",
     .lua = "string_lower",
     .example = "td.string_lower(\"Tide\")  --> tide",
     .section = "Strings"},
    {.type = "StringUpper",
     .sig = "input: string -> output: string; encoding: string = \"\"",
     .shape = td_infer_same,
     .doc = "Capital letters instead of small ones: of ASCII, or with encoding "
            "\"utf-8\" of Unicode, letter by letter.",
     .lua = "string_upper",
     .example = "td.string_upper(\"Tide\")  --> TIDE",
     .section = "Strings"},
    {.type = "StringStrip",
     .sig = "input: string -> output: string",
     .shape = td_infer_same,
     .doc = "Each string without white space at its ends.",
     .example = "td.string_strip(\" tide \")  --> tide",
     .section = "Strings"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "StringLower", .device = "CPU", .run = lower_run},
    {.op = "StringUpper", .device = "CPU", .run = upper_run},
    {.op = "StringStrip", .device = "CPU", .run = strip_run},
    {0},
};

TD_MODULE(string_transform, ops, kernels)
