/* string_base64.c - EncodeBase64, DecodeBase64.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/text.h"

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

/* Up to four letters; padding is gone already. Bits of the last that are of no
 * byte are not looked at. */
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
    for (size_t k = 0; k + 1 < n; k++)
      td_str_addc(out, (char)(v >> (16 - 8 * k)));
  }
  return NULL;
}

static td_status *decode_run(td_kernel_ctx *c) {
  return td_text_map(c, decode, NULL);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "EncodeBase64",
     .sig = "input: string -> output: string; pad: bool = false",
     .shape = td_infer_same,
     .doc = "Each string in base64, the alphabet that is safe in addresses.",
     .example = "td.encode_base64(\"tide\")  --> dGlkZQ",
     .section = "Strings"},
    {.type = "DecodeBase64",
     .sig = "input: string -> output: string",
     .shape = td_infer_same,
     .doc = "What each string is the base64 of, padded or not.",
     .example = "td.decode_base64(\"dGlkZQ\")  --> tide",
     .section = "Strings"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "EncodeBase64", .device = "CPU", .run = encode_run},
    {.op = "DecodeBase64", .device = "CPU", .run = decode_run},
    {0},
};

TD_MODULE(string_base64, ops, kernels)
