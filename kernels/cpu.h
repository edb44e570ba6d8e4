/* cpu.h - what CPU kernels share: how large a piece of work is, walks over
 * broadcast operands, half-precision blocks, instruction sets.
 *
 * Determinism: pieces depend on sizes only, never on the number of threads.
 * A piece is cut so small that threads are worth waking and a cancelled step
 * stops soon, and so large that a small tensor is one piece, run at once on
 * the calling thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_H
#define TD_KERNELS_CPU_H

#include "engine/base/cpu.h"
#include "engine/device/kernel.h"
#include "kernels/broadcast.h"
#include "kernels/simd/half.h"

enum {
  TD_GRAIN = 32768,       /* elements of a cheap loop (an add, a copy) */
  TD_GRAIN_COSTLY = 4096, /* of one that calls libm or divides integers */
};

/* Grain over items (rows, outputs) of `each` elements, >= 1. */
static inline int64_t td_grain_of(int64_t each) {
  const int64_t grain = TD_GRAIN;
  return each >= grain ? 1 : each <= 1 ? grain : grain / each;
}

#endif
