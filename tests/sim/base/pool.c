/* pool.c - engine/base/pool.h, simulated: tasks are events, loops run in any
 * order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/base/sim.h"

enum { THREADS = 4 }; /* as far as anybody can tell */

static td_pool_stats stats;

int td_pool_size(void) {
  return THREADS;
}

void td_pool_submit(td_task *task) {
  stats.tasks++;
  sim_push(task);
  sim_preempt();
}

bool td_pool_wanted(void) {
  return sim_waiting();
}

bool td_pool_inside(void) {
  return sim_inside();
}

static int64_t divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* The i-th to run of n pieces is i * step + first, where step and n have no
 * divisor in common. */
void td_parallel_for(int threads, int64_t n, int64_t grain,
                     void (*fn)(void *arg, int64_t begin, int64_t end),
                     void *arg, const int *stop) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  int64_t pieces = n / grain + (n % grain != 0), step = 1, first = 0;
  if (threads > 1 && pieces > 1) {
    do step = 1 + (int64_t)sim_draw((uint64_t)pieces);
    while (divisor(step, pieces) != 1);
    first = (int64_t)sim_draw((uint64_t)pieces);
    sim_note(SIM_PIECE, (uint64_t)step);
  }
  int64_t piece = first;
  for (int64_t i = 0; i < pieces; i++, piece = (piece + step) % pieces) {
    if (stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE)) return;
    int64_t begin = piece * grain;
    fn(arg, begin, piece + 1 == pieces ? n : begin + grain);
  }
}

void td_pool_each(void (*fn)(void *arg), void *arg) {
  fn(arg);
}

td_pool_stats td_pool_read_stats(void) {
  return stats;
}
