/* entropy.c - engine/base/entropy.h, simulated: by the seed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/entropy.h"

#include "tests/sim/base/sim.h"

uint64_t td_entropy(void) {
  return sim_draw(UINT64_MAX);
}
