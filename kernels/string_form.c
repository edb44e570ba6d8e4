/* string_form.c - one string from another: StringLength, Substr, StringLower,
 * StringUpper, StringStrip, EncodeBase64, DecodeBase64.
 *
 * Characters of UTF-8 begin with a byte that is not 10xxxxxx; what is not UTF-8
 * is counted so too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>
#include <pthread.h>
#include <string.h>
#include <wctype.h>

#include "kernels/array.h"
#include "kernels/cpu.h"
#include "kernels/text.h"

static bool by_character(const td_node *n) {
  return strcmp(td_node_string(n, "unit"), "UTF8_CHAR") == 0;
}

static int64_t characters(td_bytes s) {
  int64_t n = 0;
  for (size_t i = 0; i < s.len; i++) n += !td_text_follows(s.at[i]);
  return n;
}

/* ---- StringLength -------------------------------------------------------- */

static td_status *length_run(td_kernel_ctx *c) {
  bool utf8 = by_character(td_ctx_node(c));
  const td_tensor *x = td_in(c, 0);
  td_tensor *y;
  TD_TRY(td_out(c, 0, &x->shape, &y));
  int64_t n = td_tensor_count(x);
  for (int64_t i = 0; i < n; i++) {
    td_bytes s = td_text_at(x, i);
    TD_TRY(td_array_put(y, i, utf8 ? characters(s) : (int64_t)s.len,
                        "the length"));
  }
  return NULL;
}

/* ---- Substr -------------------------------------------------------------- */

/* Byte at which character n begins. */
static size_t find_character(td_bytes s, int64_t n) {
  size_t i = 0;
  while (i < s.len && (n > 0 || td_text_follows(s.at[i]))) {
    i++;
    if (i == s.len || !td_text_follows(s.at[i])) n--;
  }
  return i;
}

static td_status *cut(td_bytes s, int64_t at, int64_t pos, int64_t len,
                      bool utf8, td_str *out) {
  int64_t size = utf8 ? characters(s) : (int64_t)s.len;
  int64_t from = pos < 0 ? pos + size : pos;
  if (from < 0 || from > size)
    return td_error(TD_OUT_OF_RANGE,
                    "pos %lld is outside of string %lld, \"%.*s\"",
                    (long long)pos, (long long)at, td_text_shown(s), s.at);
  if (len < 0) len = 0;
  int64_t to = len > size - from ? size : from + len;
  size_t begin = utf8 ? find_character(s, from) : (size_t)from;
  size_t end = utf8 ? find_character(s, to) : (size_t)to;
  if (end > begin) td_str_addn(out, s.at + begin, end - begin);
  return NULL;
}

static td_status *substr_shape(const td_shape *x, const td_shape *pos,
                               const td_shape *len, td_shape *out) {
  td_shape_text a, b;
  td_shape both;
  if (!td_shape_merge(pos, len, &both))
    return td_error(TD_INVALID_ARGUMENT,
                    "pos and len must be of one shape, not %s and %s",
                    td_shape_str(pos, &a), td_shape_str(len, &b));
  if (td_shape_broadcast(x, &both, out)) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "input %s and pos %s do not broadcast",
                  td_shape_str(x, &a), td_shape_str(&both, &b));
}

static td_status *substr_infer(td_infer *c) {
  td_shape out;
  TD_TRY(substr_shape(td_infer_in(c, 0), td_infer_in(c, 1), td_infer_in(c, 2),
                      &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *cut_all(td_kernel_ctx *c, const td_broadcast *plan,
                          td_text *t) {
  bool utf8 = by_character(td_ctx_node(c));
  if (!td_text_reserve(t, plan->count)) return td_oom();
  for (int64_t i = 0; i < plan->count; i++) {
    int64_t from = td_broadcast_index(plan, 0, i);
    int64_t k = td_broadcast_index(plan, 1, i);
    TD_TRY(cut(td_text_at(td_in(c, 0), from), from,
               td_tensor_get_i(td_in(c, 1), k), td_tensor_get_i(td_in(c, 2), k),
               utf8, &t->all));
    td_text_end(t);
  }
  return NULL;
}

static td_status *substr_run(td_kernel_ctx *c) {
  const td_shape *shapes[2] = {&td_in(c, 0)->shape, &td_in(c, 1)->shape};
  td_broadcast plan;
  td_text t = {0};
  td_shape out;
  TD_TRY(substr_shape(shapes[0], shapes[1], &td_in(c, 2)->shape, &out));
  TD_TRY(td_broadcast_plan(&plan, 2, shapes, &out));
  td_status *s = cut_all(c, &plan, &t);
  if (td_ok(s)) s = td_text_out(c, 0, &out, &t);
  td_text_drop(&t);
  return s;
}

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

/* ---- base64 -------------------------------------------------------------- */

/* The alphabet that is safe in addresses. */
static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static td_status *encode(const void *arg, td_bytes s, td_str *out) {
  const bool *pad = arg;
  for (size_t i = 0; i < s.len; i += 3) {
    size_t n = s.len - i < 3 ? s.len - i : 3;
    uint32_t v = 0;
    for (size_t k = 0; k < 3; k++)
      v = v << 8 | (k < n ? (unsigned char)s.at[i + k] : 0);
    for (size_t k = 0; k <= n; k++)
      td_str_addc(out, alphabet[v >> (18 - 6 * k) & 63]);
    for (size_t k = n; *pad && k < 3; k++) td_str_addc(out, '=');
  }
  return NULL;
}

static td_status *encode_run(td_kernel_ctx *c) {
  bool pad = td_node_bool(td_ctx_node(c), "pad");
  return td_text_map(c, encode, &pad);
}

static td_status *not_base64(td_bytes s) {
  return td_error(TD_INVALID_ARGUMENT,
                  "\"%.*s\" is not base64 in the alphabet safe in addresses",
                  td_text_shown(s), s.at);
}

/* Up to four letters; padding is gone already. */
static td_status *decode(const void *arg, td_bytes in, td_str *out) {
  td_bytes s = in;
  (void)arg;
  if (s.len % 4 == 0)
    for (int k = 0; k < 2 && s.len && s.at[s.len - 1] == '='; k++) s.len--;
  if (s.len % 4 == 1) return not_base64(in);
  for (size_t i = 0; i < s.len; i += 4) {
    size_t n = s.len - i < 4 ? s.len - i : 4;
    uint32_t v = 0;
    for (size_t k = 0; k < 4; k++) {
      const char *at =
          k < n && s.at[i + k] ? strchr(alphabet, s.at[i + k]) : alphabet;
      if (!at || (k < n && !s.at[i + k])) return not_base64(in);
      v = v << 6 | (uint32_t)(at - alphabet);
    }
    if (n < 4 && v & (n == 2 ? 0xffff : 0xff)) return not_base64(in);
    for (size_t k = 0; k + 1 < n; k++)
      td_str_addc(out, (char)(v >> (16 - 8 * k)));
  }
  return NULL;
}

static td_status *decode_run(td_kernel_ctx *c) {
  return td_text_map(c, decode, NULL);
}

/* ---- tables -------------------------------------------------------------- */

#define UNIT "unit: {\"BYTE\", \"UTF8_CHAR\"} = \"BYTE\""

static const td_op_def ops[] = {
    {.type = "StringLength",
     .sig = "input: string -> output: int32; " UNIT,
     .shape = td_shape_same,
     .doc = "The length of each string.",
     .example = "td.string_length(td.tensor{\"moon\", \"\"})  --> 4 0",
     .section = "Strings"},
    {.type = "Substr",
     .sig = "input: string, pos: T, len: T -> output: string; "
            "T: {int32, int64}; " UNIT,
     .shape = substr_infer,
     .doc = "Of each string, `len` bytes or characters from `pos` on, which "
            "counts from the end when negative.",
     .example = "td.substr(td.tensor \"moonlight\", 4, 5)  --> light",
     .section = "Strings"},
    {.type = "StringLower",
     .sig = "input: string -> output: string; encoding: string = \"\"",
     .shape = td_shape_same,
     .doc = "Small letters instead of capital ones: of ASCII, or with encoding "
            "\"utf-8\" of Unicode, letter by letter.",
     .lua = "string_lower",
     .example = "td.string_lower(\"Tide\")  --> tide",
     .section = "Beyond"},
    {.type = "StringUpper",
     .sig = "input: string -> output: string; encoding: string = \"\"",
     .shape = td_shape_same,
     .doc = "Capital letters instead of small ones: of ASCII, or with encoding "
            "\"utf-8\" of Unicode, letter by letter.",
     .lua = "string_upper",
     .example = "td.string_upper(\"Tide\")  --> TIDE",
     .section = "Beyond"},
    {.type = "StringStrip",
     .sig = "input: string -> output: string",
     .shape = td_shape_same,
     .doc = "Each string without white space at its ends.",
     .example = "td.string_strip(\" tide \")  --> tide",
     .section = "Strings"},
    {.type = "EncodeBase64",
     .sig = "input: string -> output: string; pad: bool = false",
     .shape = td_shape_same,
     .doc = "Each string in base64, the alphabet that is safe in addresses.",
     .example = "td.encode_base64(\"tide\")  --> dGlkZQ",
     .section = "Strings"},
    {.type = "DecodeBase64",
     .sig = "input: string -> output: string",
     .shape = td_shape_same,
     .doc = "What each string is the base64 of, padded or not.",
     .example = "td.decode_base64(\"dGlkZQ\")  --> tide",
     .section = "Strings"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "StringLength", .device = "CPU", .run = length_run},
    {.op = "Substr", .device = "CPU", .run = substr_run},
    {.op = "StringLower", .device = "CPU", .run = lower_run},
    {.op = "StringUpper", .device = "CPU", .run = upper_run},
    {.op = "StringStrip", .device = "CPU", .run = strip_run},
    {.op = "EncodeBase64", .device = "CPU", .run = encode_run},
    {.op = "DecodeBase64", .device = "CPU", .run = decode_run},
    {0},
};

TD_MODULE(string_form, ops, kernels)
