/* bytes.h - numbers in bytes that are read again by another process.
 *
 * Lowest byte first, on any machine. What is read may be hostile: a reader says
 * how much it takes and hears whether so much was there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BYTES_H
#define TD_BYTES_H

#include "engine/base/str.h"

TD_BEGIN

/* Appends the `n` lowest bytes of `v`. */
static inline void td_bytes_put(td_str *out, uint64_t v, int n) {
  for (int i = 0; i < n; i++) td_str_addc(out, (char)(v >> 8 * i & 0xff));
}

/* Takes the first `n` bytes off *from; false when there are fewer. */
static inline bool td_bytes_take(td_bytes *from, size_t n, td_bytes *out) {
  if (n > from->len) return false;
  out->at = from->at;
  out->len = n;
  from->at += n;
  from->len -= n;
  return true;
}

/* The same as a number of n <= 8 bytes. */
static inline bool td_bytes_get(td_bytes *from, int n, uint64_t *v) {
  td_bytes b;
  if (!td_bytes_take(from, (size_t)n, &b)) return false;
  *v = 0;
  for (int i = 0; i < n; i++) *v |= (uint64_t)(uint8_t)b.at[i] << 8 * i;
  return true;
}

/* Numbers of 7 bits a byte, the lowest first; all but the last byte have the
 * highest bit set. */
static inline void td_varint_put(td_str *out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) td_str_addc(out, (char)(v | 0x80));
  td_str_addc(out, (char)v);
}
static inline bool td_varint_take(td_bytes *from, uint64_t *v) {
  uint64_t b = 0x80;
  *v = 0;
  for (int bits = 0; bits < 64 && b >= 0x80; bits += 7) {
    if (!td_bytes_get(from, 1, &b)) return false;
    *v |= (b & 0x7f) << bits;
  }
  return b < 0x80;
}

TD_END
#endif
