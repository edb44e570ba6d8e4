/* emulate.cc - blocks of threads as fibers (emulate.h).
 *
 * A fiber runs threads of its block one after the other; only when one of them
 * has to wait does another fiber begin. A kernel without barriers so costs one
 * switch a block, not one a thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/cuda/emulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define ASAN_BEGIN(keep, to, size) __sanitizer_start_switch_fiber(keep, to, size)
#define ASAN_END(kept, from, size) __sanitizer_finish_switch_fiber(kept, from, size)
#else
#define ASAN_BEGIN(keep, to, size) ((void)0)
#define ASAN_END(kept, from, size) ((void)0)
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define TSAN_NEW() __tsan_create_fiber(0)
#define TSAN_SELF() __tsan_get_current_fiber()
#define TSAN_TO(f) __tsan_switch_to_fiber(f, 0)
#define TSAN_DROP(f) __tsan_destroy_fiber(f)
#else
#define TSAN_NEW() nullptr
#define TSAN_SELF() nullptr
#define TSAN_TO(f) ((void)(f))
#define TSAN_DROP(f) ((void)(f))
#endif

thread_local td_emu_place *td_emu_here;

namespace {

enum { STACK = 256 << 10, WARP = 32 };
enum state { FRESH, RUNNABLE, IN_BLOCK, IN_WARP, OVER };

struct fiber;

/* A thread of the kernel. */
struct lane {
  td_emu_place place;
  state is;
  unsigned mask; /* IN_WARP: who is waited for */
  uint64_t given;
  bool yes;
  fiber *on;
};

struct fiber {
  ucontext_t at;
  char *stack;
  void *asan, *tsan;
  bool free;
};

struct block {
  std::vector<lane> lanes;
  std::vector<unsigned> order;
  std::vector<fiber *> fibers;
  size_t fresh; /* the next of `order` that has not begun */
  lane *now;
  fiber *on;
  ucontext_t home;
  void *home_asan, *home_tsan;
  const void *home_stack;
  size_t home_size;
  void (*body)(void *);
  void *arg;
};

thread_local block *the_block;
thread_local uint64_t seed = 1;

uint64_t draw(uint64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % n;
}

/* ---- switching ----------------------------------------------------------- */

void go_home() {
  block *b = the_block;
  fiber *f = b->on;
  ASAN_BEGIN(&f->asan, b->home_stack, b->home_size);
  TSAN_TO(b->home_tsan);
  swapcontext(&f->at, &b->home);
  ASAN_END(f->asan, &b->home_stack, &b->home_size);
}

void go_to(fiber *f) {
  block *b = the_block;
  b->on = f;
  ASAN_BEGIN(&b->home_asan, f->stack, STACK);
  TSAN_TO(f->tsan);
  swapcontext(&b->home, &f->at);
  ASAN_END(b->home_asan, nullptr, nullptr);
}

/* One thread after the other, until none is left that has not begun. */
void run_fiber() {
  block *b = the_block;
  fiber *f = b->on;
  ASAN_END(nullptr, &b->home_stack, &b->home_size);
  for (;;) {
    while (b->fresh < b->order.size()) {
      lane *l = &b->lanes[b->order[b->fresh++]];
      l->is = RUNNABLE;
      l->on = f;
      b->now = l;
      td_emu_here = &l->place;
      b->body(b->arg);
      l->is = OVER;
    }
    f->free = true;
    go_home();
  }
}

fiber *new_fiber() {
  fiber *f = new fiber{};
  f->stack = (char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (f->stack == MAP_FAILED) {
    perror("no memory for a fiber");
    abort();
  }
  getcontext(&f->at);
  f->at.uc_stack.ss_sp = f->stack;
  f->at.uc_stack.ss_size = STACK;
  f->at.uc_link = nullptr;
  makecontext(&f->at, run_fiber, 0);
  f->tsan = TSAN_NEW();
  return f;
}

/* ---- waiting ------------------------------------------------------------- */

void wait_as(state is, unsigned mask) {
  block *b = the_block;
  lane *l = b->now;
  l->is = is;
  l->mask = mask;
  go_home();
  td_emu_here = &l->place;
}

[[noreturn]] void diverged(const block *b) {
  size_t n[OVER + 1] = {0};
  for (const lane &l : b->lanes) n[l.is]++;
  fprintf(stderr,
          "block (%u,%u,%u): %zu threads wait at __syncthreads, %zu for lanes "
          "of their warp, %zu are over: a barrier is in a branch\n",
          b->lanes[0].place.block_index.x, b->lanes[0].place.block_index.y,
          b->lanes[0].place.block_index.z, n[IN_BLOCK], n[IN_WARP], n[OVER]);
  abort();
}

bool release_block(block *b) {
  for (const lane &l : b->lanes)
    if (l.is != IN_BLOCK && l.is != OVER) return false;
  bool any = false;
  for (lane &l : b->lanes)
    if (l.is == IN_BLOCK) {
      l.is = RUNNABLE;
      any = true;
    }
  return any;
}

/* All that a lane waits for wait, too. */
bool release_warp(block *b, size_t first) {
  size_t end = first + WARP < b->lanes.size() ? first + WARP : b->lanes.size();
  bool any = false;
  for (size_t i = first; i < end; i++) {
    if (b->lanes[i].is != IN_WARP) continue;
    unsigned mask = b->lanes[i].mask;
    bool all = true;
    for (size_t k = first; k < end; k++)
      if (mask >> (k - first) & 1 &&
          (b->lanes[k].is != IN_WARP || b->lanes[k].mask != mask))
        all = false;
    if (!all) continue;
    for (size_t k = first; k < end; k++)
      if (mask >> (k - first) & 1) b->lanes[k].is = RUNNABLE;
    any = true;
  }
  return any;
}

lane *a_runnable(block *b) {
  size_t n = b->lanes.size(), from = draw(n);
  for (size_t i = 0; i < n; i++) {
    lane *l = &b->lanes[(from + i) % n];
    if (l->is == RUNNABLE) return l;
  }
  return nullptr;
}

fiber *a_fiber(block *b) {
  for (fiber *f : b->fibers)
    if (f->free) return f;
  b->fibers.push_back(new_fiber());
  return b->fibers.back();
}

/* ---- a block ------------------------------------------------------------- */

void resume(block *b, lane *l) {
  b->now = l;
  go_to(l->on);
}

void run_block(block *b) {
  for (;;) {
    if (lane *l = a_runnable(b)) {
      resume(b, l);
      continue;
    }
    if (b->fresh < b->order.size()) {
      fiber *f = a_fiber(b);
      f->free = false;
      go_to(f);
      continue;
    }
    bool any = false;
    for (size_t i = 0; i < b->lanes.size(); i += WARP)
      any |= release_warp(b, i);
    if (any || release_block(b)) continue;
    for (const lane &l : b->lanes)
      if (l.is != OVER) diverged(b);
    return;
  }
}

void begin_block(block *b, dim3 grid, dim3 dim, uint3 index, char *shared) {
  size_t n = b->lanes.size();
  for (size_t i = 0; i < n; i++) {
    unsigned k = (unsigned)i;
    b->lanes[i] = lane{};
    b->lanes[i].place = td_emu_place{
        {k % dim.x, k / dim.x % dim.y, k / dim.x / dim.y},
        index, dim, grid, k % WARP, k / WARP, shared};
  }
  for (size_t i = n; i > 1; i--)
    std::swap(b->order[i - 1], b->order[draw(i)]);
  b->fresh = 0;
}

void drop_fibers(block *b) {
  for (fiber *f : b->fibers) {
    TSAN_DROP(f->tsan);
    munmap(f->stack, STACK);
    delete f;
  }
}

} // namespace

void td_emu_sync_block() {
  wait_as(IN_BLOCK, 0);
}

void td_emu_sync_warp(unsigned mask) {
  wait_as(IN_WARP, mask);
}

/* The lanes of the warp that there are. */
static unsigned there(const lane *first) {
  size_t left = the_block->lanes.size() - (size_t)(first - &the_block->lanes[0]);
  return left < WARP ? (1u << left) - 1 : ~0u;
}

void td_emu_exchange(unsigned mask, unsigned from, const void *give, void *get,
                     size_t bytes) {
  lane *l = the_block->now, *first = l - l->place.lane;
  mask &= there(first);
  memcpy(&l->given, give, bytes);
  wait_as(IN_WARP, mask);
  if (from < WARP && mask >> from & 1) memcpy(get, &first[from].given, bytes);
  wait_as(IN_WARP, mask);
}

unsigned td_emu_ballot(unsigned mask, bool yes) {
  lane *l = the_block->now, *first = l - l->place.lane;
  unsigned votes = 0;
  mask &= there(first);
  l->yes = yes;
  wait_as(IN_WARP, mask);
  for (unsigned i = 0; i < WARP; i++)
    if (mask >> i & 1 && first[i].yes) votes |= 1u << i;
  wait_as(IN_WARP, mask);
  return votes;
}

void td_emu_run(dim3 grid, dim3 dim, size_t shared, void (*body)(void *),
                void *arg) {
  static const char *text = getenv("TIDE_EMULATE_SEED");
  block b{};
  std::vector<char> room(shared + 16);
  size_t n = (size_t)dim.x * dim.y * dim.z;
  b.lanes.resize(n);
  b.order.resize(n);
  for (size_t i = 0; i < n; i++) b.order[i] = (unsigned)i;
  b.body = body;
  b.arg = arg;
  b.home_tsan = TSAN_SELF();
  seed = text ? strtoull(text, nullptr, 10) + 1 : 1;
  the_block = &b;
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x; x++) {
        memset(room.data(), 0xa5, room.size());
        begin_block(&b, grid, dim, {x, y, z}, room.data());
        run_block(&b);
      }
  the_block = nullptr;
  drop_fibers(&b);
}
