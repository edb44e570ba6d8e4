/* divide.cuh - whole division by numbers that a launch knows.
 *
 * An index is taken apart by dividing it by sizes, which costs a card dozens of
 * instructions each time. Below 2^31 a multiplication and a shift do, by numbers
 * that the host computes; above, td_divide_long divides.
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

/* ---- of any, where most are small ------------------------------------------ */

/*   td_divider by = td_divider_by(columns);    // on the host
 *   int64_t row = by.quotient(i), column = i - row * by.by;   // in a kernel */
struct td_divider {
  int64_t by;
  uint32_t times, shift; /* times 0: too large */

  /* i >= 0 */
  __device__ inline int64_t quotient(int64_t i) const {
    if (times == 0 || i >> 31 != 0) return i / by;
    uint32_t n = (uint32_t)i;
    return (int64_t)((uint64_t)n * times >> 32 >> shift);
  }
  __device__ inline int64_t split(int64_t i, int64_t *rest) const {
    int64_t q = quotient(i);
    *rest = i - q * by;
    return q;
  }
};

/* by >= 0; what is divided by 0 is never asked for. `times` is 2^(31 + bits) /
 * by, rounded up, of 32 bits, where 2^bits is the power of two not below by:
 * the quotient is then exact for 31 bits. */
static inline td_divider td_divider_by(int64_t by) {
  td_divider d = {by, 0, 0};
  if (by < 1) d.by = 1;
  if (by < 2 || by >> 31 != 0) return d;
  uint32_t bits = 0;
  while ((int64_t)1 << bits < by) bits++;
  uint64_t power = (uint64_t)1 << (31 + bits);
  d.times = (uint32_t)((power + (uint64_t)by - 1) / (uint64_t)by);
  d.shift = bits - 1;
  return d;
}

#endif
