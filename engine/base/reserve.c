/* reserve.c - a mapping that nobody uses.
 *
 * It counts against the limit of address space (`ulimit -v`) and takes no
 * memory. The door to malloc lets it go when something is refused; whoever takes
 * much then stops (Lua's allocator, tensors), so that what is left serves to
 * unwind and to tell.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/reserve.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { BYTES = 48 << 20 };

enum { NEVER, HELD, SPENT, CHANGING };

static int state;  /* atomic */
static void *kept; /* of who made `state` CHANGING */

static bool change(int from) {
  return __atomic_compare_exchange_n(&state, &from, CHANGING, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* glibc gives each thread an arena with 64 MB of address space, used or not: a
 * few threads would take all that a limit leaves. Under one, all share one. */
static void share_arena(void) {
  struct rlimit l;
  if (!getrlimit(RLIMIT_AS, &l) && l.rlim_cur != RLIM_INFINITY)
    mallopt(M_ARENA_MAX, 1);
}

bool td_reserve_take(void) {
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == NEVER) share_arena();
  if (!change(NEVER) && !change(SPENT)) return !td_reserve_spent();
  void *p = mmap(NULL, BYTES, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  bool held = p != MAP_FAILED;
  kept = held ? p : NULL;
  __atomic_store_n(&state, held ? HELD : SPENT, __ATOMIC_RELEASE);
  return held;
}

bool td_reserve_spend(void) {
  if (!change(HELD)) return false;
  munmap(kept, BYTES);
  kept = NULL;
  __atomic_store_n(&state, SPENT, __ATOMIC_RELEASE);
  return true;
}

bool td_reserve_spent(void) {
  return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == SPENT;
}
