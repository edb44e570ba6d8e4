/* utf8.c - what is UTF-8 and what is not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/utf8.h"

size_t td_utf8_len(const unsigned char *p, size_t left) {
  size_t n;
  unsigned char low = 0x80, high = 0xBF; /* of the second byte */
  if (p[0] < 0x80) return 1;
  if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
  if (p[0] < 0xE0) {
    n = 2;
  } else if (p[0] < 0xF0) {
    n = 3;
    if (p[0] == 0xE0) low = 0xA0;
    if (p[0] == 0xED) high = 0x9F;
  } else {
    n = 4;
    if (p[0] == 0xF0) low = 0x90;
    if (p[0] == 0xF4) high = 0x8F;
  }
  if (left < n || p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i < n; i++)
    if ((p[i] & 0xC0) != 0x80) return 0;
  return n;
}

bool td_utf8_valid(const char *text, size_t len) {
  const unsigned char *p = (const unsigned char *)text;
  for (size_t i = 0, n; i < len; i += n) {
    n = td_utf8_len(p + i, len - i);
    if (n == 0) return false;
  }
  return true;
}

size_t td_utf8_put(uint32_t c, char to[4]) {
  static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = n - 1; i > 0; i--, c >>= 6) to[i] = (char)(0x80 | (c & 0x3F));
  to[0] = (char)(lead[n] | c);
  return n;
}
