/* divide.cuh - whole division by numbers that a launch knows.
 *
 * An index is taken apart by dividing it by sizes, which costs a card dozens of
 * instructions each time. A multiplication and a shift do, by numbers that the
 * host computes: of 32 bits in td_divide, below 2^31, of 64 in td_divider. A
 * kernel that is to have both has one of them as a parameter.
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

/* Can all of n pieces of work be divided by td_divide? */
static inline bool td_divide_fits(int64_t n) {
  return n < (int64_t)1 << 31;
}

/* ---- of any, by ten instructions (Granlund and Montgomery, 1994) ----------- */

/*   td_divider by = td_divider_by(columns);         // on the host
 *   int64_t column, row = by.split(i, &column);     // in a kernel */
struct td_divider {
  typedef int64_t index;
  int64_t by;
  uint64_t times; /* 0: by is 1 */
  uint32_t shift;

  static inline td_divider of(int64_t by);
  /* i >= 0 */
  __device__ inline int64_t quotient(int64_t i) const {
    if (times == 0) return i;
    return (int64_t)(__umul64hi((unsigned long long)i, times) >> shift);
  }
  __device__ inline int64_t operator()(int64_t i) const {
    return quotient(i);
  }
  __device__ inline int64_t split(int64_t i, int64_t *rest) const {
    int64_t q = quotient(i);
    *rest = i - q * by;
    return q;
  }
};

/* `times` is 2^(63 + bits) / by, rounded up, which takes 64 bits, where 2^bits
 * is the power of two not below by: the quotient is exact for 63 bits. Nothing
 * is divided by 0, which is as 1. */
static inline td_divider td_divider_by(int64_t by) {
  td_divider d = {by < 1 ? 1 : by, 0, 0};
  if (by < 2) return d;
  uint32_t bits = 0;
  while (bits < 63 && (uint64_t)1 << bits < (uint64_t)by) bits++;
  unsigned __int128 power = (unsigned __int128)1 << (63 + bits);
  d.times = (uint64_t)((power + (uint64_t)by - 1) / (uint64_t)by);
  d.shift = bits - 1;
  return d;
}

inline td_divider td_divider::of(int64_t by) {
  return td_divider_by(by);
}

#endif
