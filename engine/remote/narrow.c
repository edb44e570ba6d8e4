/* narrow.c - float32 to bfloat16 and back, in blocks that become vectors.
 *
 * Integer arithmetic only, so that no mode of the processor (flush to zero)
 * changes a bit. The blocks have a fixed length: the compiler makes straight
 * vector code of them at any level. The rest of a block goes the same way, by
 * a copy.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/narrow.h"

#include <string.h>

enum { BLOCK = 64 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "bytes go as they lie");

/* Quiet NaN keep their sign and upper bits; others are made quiet, since these
 * bits may be all that says NaN. */
static inline uint16_t narrow(uint32_t u) {
  uint32_t near = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  uint32_t nan = u >> 16 | 0x40;
  return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : near);
}

static void pack_block(const float *from, char *to) {
  uint32_t u[BLOCK];
  uint16_t h[BLOCK];
  memcpy(u, from, sizeof u);
  for (int i = 0; i < BLOCK; i++) h[i] = narrow(u[i]);
  memcpy(to, h, sizeof h);
}

static void unpack_block(const char *from, float *to) {
  uint32_t u[BLOCK];
  uint16_t h[BLOCK];
  memcpy(h, from, sizeof h);
  for (int i = 0; i < BLOCK; i++) u[i] = (uint32_t)h[i] << 16;
  memcpy(to, u, sizeof u);
}

void td_narrow_pack(const float *from, size_t n, void *to) {
  char *out = to;
  for (; n >= BLOCK; n -= BLOCK, from += BLOCK, out += 2 * BLOCK)
    pack_block(from, out);
  float rest[BLOCK] = {0};
  char bytes[2 * BLOCK];
  if (!n) return;
  memcpy(rest, from, n * sizeof *from);
  pack_block(rest, bytes);
  memcpy(out, bytes, 2 * n);
}

void td_narrow_unpack(const void *from, size_t n, float *to) {
  const char *in = from;
  for (; n >= BLOCK; n -= BLOCK, in += 2 * BLOCK, to += BLOCK)
    unpack_block(in, to);
  float rest[BLOCK];
  char bytes[2 * BLOCK] = {0};
  if (!n) return;
  memcpy(bytes, in, 2 * n);
  unpack_block(bytes, rest);
  memcpy(to, rest, n * sizeof *to);
}
