/* clock.c - engine/base/clock.h, simulated: virtual time, timers are events.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"

#include "tests/sim/base/sim.h"

int64_t td_clock_now(void) {
  return sim_now();
}

int64_t td_clock_wall_us(void) {
  return sim_now() / 1000;
}

int64_t td_clock_alarm(int64_t at_ns) {
  return at_ns;
}

uint64_t td_timer_start(int64_t at_ns, void (*fire)(void *arg), void *arg) {
  return sim_timer(at_ns, fire, arg);
}

void td_timer_cancel(uint64_t id) {
  sim_timer_cancel(id);
}
