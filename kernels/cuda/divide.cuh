/* divide.cuh - division by a number that a whole launch shares.
 *
 * A card takes a hundred instructions, and a call, for a quotient of 64 bits;
 * by a multiplication (Granlund and Montgomery, 1994) it takes ten.
 *
 *   td_divide by = td_divide_by(columns);    // on the host
 *   int64_t column, row = by.split(i, &column);      // in a kernel
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_DIVIDE_CUH
#define TD_CUDA_DIVIDE_CUH

#include <stdint.h>

struct td_divide {
  int64_t by;
  uint64_t times; /* 0: by is 1 */
  uint32_t shift;

  /* i >= 0 */
  __device__ inline int64_t quotient(int64_t i) const {
    if (times == 0) return i;
    return (int64_t)(__umul64hi((unsigned long long)i, times) >> shift);
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
static inline td_divide td_divide_by(int64_t by) {
  td_divide d = {by < 1 ? 1 : by, 0, 0};
  if (by < 2) return d;
  uint32_t bits = 0;
  while (bits < 63 && (uint64_t)1 << bits < (uint64_t)by) bits++;
  unsigned __int128 power = (unsigned __int128)1 << (63 + bits);
  d.times = (uint64_t)((power + (uint64_t)by - 1) / (uint64_t)by);
  d.shift = bits - 1;
  return d;
}

#endif
