/* divide.cuh - whole division by numbers that a launch knows.
 *
 * An index is taken apart by dividing it by sizes, which costs a card dozens of
 * instructions each time. Below 2^31 a multiplication and a shift do, by
 * numbers that the host computes; above, td_divide_long divides.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_DIVIDE_CUH
#define TD_CUDA_DIVIDE_CUH

#include "kernels/cuda/launch.cuh"

/* Of numbers below 2^31, by one from 1 to there. */
struct td_divide {
  typedef uint32_t index;
  uint32_t by, times, shift;

  static td_divide of(int64_t by) {
    td_divide d = {(uint32_t)by, 0, 0};
    while (((int64_t)1 << d.shift) < by) d.shift++;
    uint64_t over = ((uint64_t)1 << d.shift) - (uint64_t)by;
    d.times = (uint32_t)((over << 32) / (uint64_t)by + 1);
    return d;
  }
  __device__ inline uint32_t operator()(uint32_t n) const {
    return (__umulhi(n, times) + n) >> shift;
  }
};

/* Of any that are not negative. */
struct td_divide_long {
  typedef int64_t index;
  int64_t by;

  static td_divide_long of(int64_t by) {
    return td_divide_long{by};
  }
  __device__ inline int64_t operator()(int64_t n) const {
    return n / by;
  }
};

/* Can all of n pieces of work be divided by td_divide? */
static inline bool td_divide_fits(int64_t n) {
  return n < (int64_t)1 << 31;
}

#endif
