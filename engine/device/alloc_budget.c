/* alloc_budget.c - how much several allocators may use together.
 *
 * Two counters and a limit, all atomic. A heap charges its budget where it
 * counts for itself, under its own lock: what threads hand out of their lists
 * comes here with the heap's drift, never by itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/device/alloc_heap.h"

td_status *td_alloc_budget_new(size_t limit, td_alloc_budget **out) {
  td_alloc_budget *b = td_calloc(1, sizeof *b);
  if (!b) return td_oom();
  b->refs = 1;
  td_alloc_budget_set_limit(b, limit);
  *out = b;
  return NULL;
}

td_alloc_budget *td_alloc_budget_process(void) {
  static td_alloc_budget process = {.refs = 1, .follows = true};
  return &process;
}

td_alloc_budget *td_alloc_budget_retain(td_alloc_budget *b) {
  if (b) __atomic_fetch_add(&b->refs, 1, __ATOMIC_RELAXED);
  return b;
}

void td_alloc_budget_release(td_alloc_budget *b) {
  if (b && __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) == 0) td_free(b);
}

void td_alloc_budget_join(td_alloc_budget *b) {
  /* Before the count says that there is a limit. */
  if (b->follows && __atomic_load_n(&b->heaps, __ATOMIC_ACQUIRE) == 0)
    td_alloc_budget_set_limit(b, 0);
  __atomic_fetch_add(&b->heaps, 1, __ATOMIC_ACQ_REL);
  td_alloc_budget_retain(b);
}

void td_alloc_budget_leave(td_alloc_budget *b) {
  __atomic_sub_fetch(&b->heaps, 1, __ATOMIC_ACQ_REL);
  td_alloc_budget_release(b);
}

void td_alloc_budget_set_limit(td_alloc_budget *b, size_t limit) {
  if (limit == 0) limit = td_alloc_default_limit();
  if (limit > PTRDIFF_MAX) limit = PTRDIFF_MAX; /* sums of sizes are signed */
  __atomic_store_n(&b->limit, limit, __ATOMIC_RELAXED);
}

static bool fits(const td_alloc_budget *b, int64_t in_use, size_t size) {
  size_t limit = td_alloc_budget_limit(b);
  return size > 0 && size <= limit && in_use <= (int64_t)(limit - size);
}

bool td_alloc_budget_allows(const td_alloc_budget *b, size_t size) {
  return fits(b, __atomic_load_n(&b->in_use, __ATOMIC_RELAXED), size);
}

bool td_alloc_budget_take(td_alloc_budget *b, size_t size) {
  int64_t was = __atomic_load_n(&b->in_use, __ATOMIC_RELAXED);
  do
    if (!fits(b, was, size)) return false;
  while (!__atomic_compare_exchange_n(&b->in_use, &was, was + (int64_t)size,
                                      true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED));
  return true;
}
