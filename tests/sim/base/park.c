/* park.c - engine/base/park.h, simulated: who would sleep runs the next event.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/park.h"

#include "tests/sim/base/sim.h"

void td_park(const int32_t *word, int32_t seen, int64_t until_ns) {
  if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == seen) sim_step(until_ns);
}

void td_unpark(const int32_t *word) {
  (void)word;
}
