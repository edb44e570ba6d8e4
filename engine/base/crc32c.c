/* crc32c.c - CRC-32C: eight bytes at a time, by SSE4.2 or by tables.
 *
 * The polynomial is 0x1EDC6F41; reflected, as bits come lowest first,
 * 0x82F63B78. Table k has the checks of a byte that k zero bytes follow, so
 * that eight bytes are looked up at once and their checks combined. The
 * instruction takes three cycles for eight bytes, but begins one in each: of
 * long pieces three lanes are checked at once. A check is linear: that of two
 * lanes is what zeros in place of the second make of the first's, xor the
 * second's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/crc32c.h"

#include <nmmintrin.h>
#include <pthread.h>
#include <string.h>

#include "engine/base/cpu.h"

/* ---- tables -------------------------------------------------------------- */

static uint32_t table[8][256];

static void make_tables(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; bit++) c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
    table[0][i] = c;
  }
  for (int k = 1; k < 8; k++)
    for (uint32_t i = 0; i < 256; i++)
      table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

static uint32_t by_tables(uint32_t c, const uint8_t *p, size_t n) {
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t v;
    memcpy(&v, p, 8);
    v ^= c;
    c = 0;
    for (int k = 0; k < 8; k++) c ^= table[7 - k][v >> 8 * k & 255];
  }
  while (n--) c = c >> 8 ^ table[0][(c ^ *p++) & 255];
  return c;
}

/* ---- the instruction ----------------------------------------------------- */

enum { LANE = 2048 }; /* bytes */

static uint32_t zeros[4][256]; /* what LANE zero bytes make of each byte */

__attribute__((target("sse4.2"))) static void make_zeros(void) {
  uint32_t bit[32];
  for (int i = 0; i < 32; i++) {
    uint64_t c = (uint64_t)1 << i;
    for (int k = 0; k < LANE; k += 8) c = _mm_crc32_u64(c, 0);
    bit[i] = (uint32_t)c;
  }
  for (int k = 0; k < 4; k++)
    for (int v = 0; v < 256; v++)
      for (int i = 0; i < 8; i++)
        if (v >> i & 1) zeros[k][v] ^= bit[8 * k + i];
}

static uint32_t behind_zeros(uint32_t c) {
  return zeros[0][c & 255] ^ zeros[1][c >> 8 & 255] ^ zeros[2][c >> 16 & 255] ^
         zeros[3][c >> 24];
}

static uint64_t word(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

__attribute__((target("sse4.2"))) static uint32_t
three_lanes(uint32_t c, const uint8_t *p) {
  uint64_t a = c, b = 0, d = 0;
  for (const uint8_t *end = p + LANE; p < end; p += 8) {
    a = _mm_crc32_u64(a, word(p));
    b = _mm_crc32_u64(b, word(p + LANE));
    d = _mm_crc32_u64(d, word(p + 2 * LANE));
  }
  return behind_zeros(behind_zeros((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)d;
}

__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t c, const uint8_t *p, size_t n) {
  for (; n >= 3 * LANE; p += 3 * LANE, n -= 3 * LANE) c = three_lanes(c, p);
  uint64_t wide = c;
  for (; n >= 8; p += 8, n -= 8) wide = _mm_crc32_u64(wide, word(p));
  c = (uint32_t)wide;
  while (n--) c = _mm_crc32_u8(c, *p++);
  return c;
}

/* ---- the choice, once ---------------------------------------------------- */

static uint32_t (*run)(uint32_t c, const uint8_t *p, size_t n);

static void choose(void) {
  bool has = td_cpu_isa() != TD_SCALAR && __builtin_cpu_supports("sse4.2");
  if (has)
    make_zeros();
  else
    make_tables();
  run = has ? by_instruction : by_tables;
}

uint32_t td_crc32c_add(uint32_t crc, const void *bytes, size_t n) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, choose);
  return ~run(~crc, bytes, n);
}
