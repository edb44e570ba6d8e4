/* fault.c - counting calls and failing the n-th of them.
 *
 * The count is split over shards by thread: one shared counter would cost more
 * than the call it counts as soon as two threads allocate at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/fault.h"

enum { OPEN, ONCE, FOR_EVER };

static unsigned shard_of_thread(void) {
  static unsigned threads;
  static TD_THREAD_LOCAL unsigned mine; /* shard + 1 */
  if (TD_UNLIKELY(mine == 0))
    mine =
        __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % TD_FAULT_SHARDS + 1;
  return mine - 1;
}

static bool refuse(td_fault *f) {
  int32_t mode = __atomic_load_n(&f->mode, __ATOMIC_ACQUIRE);
  int64_t left = __atomic_sub_fetch(&f->countdown, 1, __ATOMIC_RELAXED);
  if (left > 0) return false;
  if (mode == FOR_EVER) return true;
  if (mode == OPEN || left < 0)
    return false; /* another thread's call was the n-th */
  __atomic_store_n(&f->mode, OPEN, __ATOMIC_RELAXED);
  return true;
}

bool td_fault_try(td_fault *f) {
  __atomic_fetch_add(&f->shards[shard_of_thread()].calls, 1, __ATOMIC_RELAXED);
  int32_t mode = __atomic_load_n(&f->mode, __ATOMIC_RELAXED);
  return TD_LIKELY(mode == OPEN) || !refuse(f);
}

void td_fault_arm(td_fault *f, int64_t nth, bool for_ever) {
  __atomic_store_n(&f->mode, OPEN, __ATOMIC_RELAXED);
  if (nth <= 0) return;
  __atomic_store_n(&f->countdown, nth, __ATOMIC_RELAXED);
  __atomic_store_n(&f->mode, for_ever ? FOR_EVER : ONCE, __ATOMIC_RELEASE);
}

int64_t td_fault_calls(const td_fault *f) {
  int64_t sum = 0;
  for (int i = 0; i < TD_FAULT_SHARDS; i++)
    sum += __atomic_load_n(&f->shards[i].calls, __ATOMIC_RELAXED);
  return sum;
}
