/* philox.h - Philox-4x32-10, TensorFlow's generator.
 *
 * Counter-based: block i of a stream is a function of (key, counter + i), so a
 * kernel may fill any part on any thread. Key = (seed low, seed high), counter
 * words 2, 3 = (seed2 low, high).
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PHILOX_H
#define TD_PHILOX_H

#include "engine/base/base.h"

TD_BEGIN

typedef struct td_philox {
  uint32_t counter[4];
  uint32_t key[2];
} td_philox;

void td_philox_init(td_philox *p, uint64_t seed, uint64_t seed2);
void td_philox_skip(td_philox *p, uint64_t blocks); /* 128-bit counter add */
/* The next four words; advances by one block. */
void td_philox_next(td_philox *p, uint32_t out[4]);

TD_END
#endif
