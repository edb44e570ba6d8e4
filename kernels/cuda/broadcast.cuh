/* broadcast.cuh - the plans of broadcast.h as a card walks them.
 *
 * Each element of the result finds those of its operands by division along the
 * axes. Below 2^31 elements a division is a multiplication and a shift.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_BROADCAST_CUH
#define TD_CUDA_BROADCAST_CUH

#include "kernels/broadcast.h"
#include "kernels/cuda/launch.cuh"

/* Division of numbers below 2^31 by the same one (Granlund, Montgomery 1994):
 * of 64 bits the product with the rounded reciprocal loses nothing. */
struct td_cuda_divide {
  uint32_t by, times, shift;
};

static inline td_cuda_divide td_cuda_divide_by(int64_t by) {
  td_cuda_divide d = {(uint32_t)by, 0, 0};
  while (1ll << d.shift < by) d.shift++;
  d.times = (uint32_t)(((1ull << 32) * ((1ull << d.shift) - (uint64_t)by)) /
                           (uint64_t)by +
                       1);
  return d;
}
TD_DEVICE uint32_t td_cuda_divided(uint32_t n, td_cuda_divide d) {
  return (__umulhi(n, d.times) + n) >> d.shift;
}

/* By value in the parameters of a kernel of N operands. */
template <int N> struct td_cuda_walk {
  int rank;
  bool small; /* all below 2^31 */
  int64_t size[TD_MAX_RANK], step[N][TD_MAX_RANK];
  td_cuda_divide divide[TD_MAX_RANK];
};

template <int N>
static inline td_cuda_walk<N> td_cuda_walk_of(const td_broadcast *b) {
  td_cuda_walk<N> w = {};
  w.rank = b->rank;
  w.small = b->count < INT32_MAX;
  for (int axis = 0; axis < b->rank; axis++) {
    w.size[axis] = b->size[axis];
    if (w.small && b->size[axis] > 0)
      w.divide[axis] = td_cuda_divide_by(b->size[axis]);
    for (int k = 0; k < N; k++) w.step[k][axis] = b->step[k][axis];
  }
  return w;
}

/* The elements of the operands that result i is made from. */
template <int N>
TD_DEVICE void td_cuda_walk_to(const td_cuda_walk<N> &w, int64_t i,
                               int64_t *at) {
  for (int k = 0; k < N; k++) at[k] = 0;
  if (w.small) {
    uint32_t rest = (uint32_t)i;
    for (int axis = w.rank - 1; axis > 0; axis--) {
      uint32_t next = td_cuda_divided(rest, w.divide[axis]);
      uint32_t own = rest - next * w.divide[axis].by;
      for (int k = 0; k < N; k++) at[k] += own * w.step[k][axis];
      rest = next;
    }
    for (int k = 0; k < N; k++) at[k] += rest * w.step[k][0];
    return;
  }
  for (int axis = w.rank - 1; axis > 0; axis--) {
    int64_t next = i / w.size[axis], own = i - next * w.size[axis];
    for (int k = 0; k < N; k++) at[k] += own * w.step[k][axis];
    i = next;
  }
  for (int k = 0; k < N; k++) at[k] += i * w.step[k][0];
}

#endif
