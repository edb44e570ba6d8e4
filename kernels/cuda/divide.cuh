/* divide.cuh - division by a number that a whole launch shares.
 *
 * A card takes a hundred instructions for a quotient of 64 bits and two for one
 * by a multiplication, which is right below 2^31 (Granlund and Montgomery,
 * 1994): what is larger takes the long way.
 *
 *   td_divide by = td_divide_by(columns);    // on the host
 *   int64_t row = by.quotient(i), column = i - row * by.by;   // in a kernel
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_DIVIDE_CUH
#define TD_CUDA_DIVIDE_CUH

#include <stdint.h>

struct td_divide {
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
static inline td_divide td_divide_by(int64_t by) {
  td_divide d = {by, 0, 0};
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
