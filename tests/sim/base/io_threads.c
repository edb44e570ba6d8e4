/* io_threads.c - engine/base/io_threads.h, simulated: tasks are events, late
 * ones where the disk is slow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/io_threads.h"

#include "tests/sim/base/sim.h"

bool td_io_submit(td_task *task) {
  sim_push_io(task);
  return true;
}

void td_io_step_aside(void) {}

void td_io_step_back(void) {}

int td_io_threads(void) {
  return 0;
}
