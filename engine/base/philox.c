/* philox.c - Philox-4x32-10.
 *
 * Ten rounds of two 32x32 multiplies; the constants are the paper's. Tests hold
 * it to the known answers its authors published.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/philox.h"

#include <string.h>

enum { ROUNDS = 10 };

void td_philox_init(td_philox *p, uint64_t seed, uint64_t seed2) {
  *p = (td_philox){
      .counter = {0, 0, (uint32_t)seed2, (uint32_t)(seed2 >> 32)},
      .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
  };
}

void td_philox_skip(td_philox *p, uint64_t blocks) {
  uint64_t low = (uint64_t)p->counter[1] << 32 | p->counter[0];
  uint64_t high = (uint64_t)p->counter[3] << 32 | p->counter[2];
  low += blocks;
  high += low < blocks;
  p->counter[0] = (uint32_t)low;
  p->counter[1] = (uint32_t)(low >> 32);
  p->counter[2] = (uint32_t)high;
  p->counter[3] = (uint32_t)(high >> 32);
}

void td_philox_next(td_philox *p, uint32_t out[4]) {
  uint32_t c[4], k0 = p->key[0], k1 = p->key[1];
  memcpy(c, p->counter, sizeof c);
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t a = (uint64_t)0xD2511F53u * c[0];
    uint64_t b = (uint64_t)0xCD9E8D57u * c[2];
    c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k0;
    c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k1;
    c[1] = (uint32_t)b;
    c[3] = (uint32_t)a;
    k0 += 0x9E3779B9u; /* golden ratio */
    k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
  }
  memcpy(out, c, sizeof c);
  td_philox_skip(p, 1);
}
