/* emulate.h - CUDA's kernels on a processor: what a .cu says, in plain C++.
 *
 * g++ includes this before the file. A block is a set of fibers, one a thread
 * of the kernel, run in an order drawn by a seed; one that waits for others
 * (__syncthreads, a shuffle) lets them run. So indices, tails and broadcasting
 * are seen by the sanitizers, a barrier that is missing shows in the results,
 * and one that not all reach is told. Not seen: the rounding of fast
 * intrinsics, races that no order shows, occupancy, tensor cores.
 *
 * Pointers of the fake runtime's memory (fake.h) carry a tag which the
 * arguments of a launch lose: host code that follows one faults.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CUDA_EMULATE_H
#define TEST_CUDA_EMULATE_H

#include <cuda_runtime_api.h>
#include <math.h>
#include <string.h>

#include <tuple>
#include <type_traits>

#include "tests/cuda/fake/fake.h"

#undef __shared__
#define __shared__ static thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)

/* ---- where a thread is --------------------------------------------------- */

struct td_emu_place {
  uint3 thread, block_index;
  dim3 block, grid;
  unsigned lane, warp;
  char *shared; /* dynamic */
};
extern thread_local td_emu_place *td_emu_here;

#define threadIdx (td_emu_here->thread)
#define blockIdx (td_emu_here->block_index)
#define blockDim (td_emu_here->block)
#define gridDim (td_emu_here->grid)
#define warpSize 32
/* `T *name`, of as many bytes as the launch says. */
#define TD_SHARED(T, name) T *name = (T *)(void *)td_emu_here->shared

/* ---- waiting for others -------------------------------------------------- */

void td_emu_sync_block();
void td_emu_sync_warp(unsigned mask);
/* Each of the lanes gives `bytes` (8 at most) and gets what lane `from` gave;
 * its own where that one does not take part. */
void td_emu_exchange(unsigned mask, unsigned from, const void *give, void *get,
                     size_t bytes);
unsigned td_emu_ballot(unsigned mask, bool yes);

static inline void __syncthreads() {
  td_emu_sync_block();
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
  td_emu_sync_warp(mask);
}
static inline void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_block() {
  __threadfence();
}
static inline unsigned __ballot_sync(unsigned mask, bool yes) {
  return td_emu_ballot(mask, yes);
}
static inline bool __any_sync(unsigned mask, bool yes) {
  return td_emu_ballot(mask, yes) != 0;
}
static inline bool __all_sync(unsigned mask, bool yes) {
  return td_emu_ballot(mask, yes) == mask;
}

template <class T>
static inline T td_emu_shuffle(unsigned mask, T v, unsigned from) {
  static_assert(sizeof(T) <= 8, "shuffles are of 8 bytes at most");
  T got = v;
  td_emu_exchange(mask, from, &v, &got, sizeof v);
  return got;
}
/* `width` is a power of two: the lanes of each group are among themselves. */
template <class T>
static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
  unsigned lane = td_emu_here->lane, base = lane / (unsigned)width * width;
  return td_emu_shuffle(mask, v, base + (unsigned)from % (unsigned)width);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T v, unsigned by,
                                 int width = 32) {
  unsigned lane = td_emu_here->lane, end = (lane / width + 1) * width;
  return td_emu_shuffle(mask, v, lane + by < end ? lane + by : lane);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T v, unsigned by,
                               int width = 32) {
  unsigned lane = td_emu_here->lane, base = lane / width * width;
  return td_emu_shuffle(mask, v, lane >= base + by ? lane - by : lane);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T v, unsigned with,
                                int width = 32) {
  unsigned lane = td_emu_here->lane, to = lane ^ with;
  return td_emu_shuffle(mask, v, to / width == lane / width ? to : lane);
}

/* ---- atomics: blocks of other streams run beside this one ---------------- */

template <class T, class F> static inline T td_emu_atomic(T *p, F change) {
  T was, now;
  __atomic_load(p, &was, __ATOMIC_RELAXED);
  do
    now = change(was);
  while (!__atomic_compare_exchange(p, &was, &now, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED));
  return was;
}
template <class T> static inline T atomicAdd(T *p, T v) {
  return td_emu_atomic(p, [v](T was) { return (T)(was + v); });
}
template <class T> static inline T atomicMax(T *p, T v) {
  return td_emu_atomic(p, [v](T was) { return was > v ? was : v; });
}
template <class T> static inline T atomicMin(T *p, T v) {
  return td_emu_atomic(p, [v](T was) { return was < v ? was : v; });
}
template <class T> static inline T atomicOr(T *p, T v) {
  return td_emu_atomic(p, [v](T was) { return (T)(was | v); });
}
template <class T> static inline T atomicExch(T *p, T v) {
  return td_emu_atomic(p, [v](T) { return v; });
}
template <class T> static inline T atomicCAS(T *p, T old, T v) {
  return td_emu_atomic(p, [old, v](T was) { return was == old ? v : was; });
}

/* ---- intrinsics ---------------------------------------------------------- */

template <class T> static inline T __ldg(const T *p) {
  return *p;
}
static inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
static inline int __clz(int x) {
  return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __ffs(int x) {
  return __builtin_ffs(x);
}
static inline unsigned __umulhi(unsigned x, unsigned y) {
  return (unsigned)((uint64_t)x * y >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long x,
                                            unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}
static inline unsigned __float_as_uint(float x) {
  unsigned u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static inline float __uint_as_float(unsigned u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}
static inline long long __double_as_longlong(double x) {
  long long u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static inline double __longlong_as_double(long long u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}
static inline float __fmul_rn(float x, float y) {
  return x * y;
}
static inline double __dmul_rn(double x, double y) {
  return x * y;
}
static inline float rsqrtf(float x) {
  return 1 / sqrtf(x);
}
static inline double rsqrt(double x) {
  return 1 / sqrt(x);
}

/* ---- launches ------------------------------------------------------------ */

/* Runs body(arg) for each thread of each block, on the calling thread. */
void td_emu_run(dim3 grid, dim3 block, size_t shared, void (*body)(void *arg),
                void *arg);

template <class... P> struct td_emu_call {
  void (*kernel)(P...);
  std::tuple<P...> args;
  dim3 grid, block;
  size_t shared;

  static void thread(void *arg) {
    td_emu_call *c = (td_emu_call *)arg;
    std::apply(c->kernel, c->args);
  }
  static void run(void *arg) {
    td_emu_call *c = (td_emu_call *)arg;
    td_emu_run(c->grid, c->block, c->shared, thread, c);
    delete c;
  }
  static void drop(void *arg) {
    delete (td_emu_call *)arg;
  }
};

/* An argument without the tags of the pointers in it. */
template <class T> static inline T td_emu_untagged(T value) {
  static_assert(std::is_trivially_copyable<T>::value,
                "arguments of kernels are copied byte by byte");
  if constexpr (sizeof(T) >= sizeof(void *))
    td_fake_untag_words(&value, sizeof value);
  return value;
}

template <class... P, class... A>
static inline cudaError_t td_emu_launch(void (*kernel)(P...), dim3 grid,
                                        dim3 block, size_t shared,
                                        cudaStream_t stream, A... args) {
  cudaError_t e = td_fake_check_launch(grid, block, shared);
  if (e != cudaSuccess) return e;
  auto *c = new td_emu_call<P...>{
      kernel,
      std::tuple<P...>(td_emu_untagged<P>(static_cast<P>(args))...),
      grid, block, shared};
  return td_fake_enqueue(stream, td_emu_call<P...>::run,
                         td_emu_call<P...>::drop, c);
}

#endif
