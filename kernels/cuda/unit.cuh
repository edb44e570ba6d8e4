/* unit.cuh - elements that are moved as they are: by size, not by dtype.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_UNIT_CUH
#define TD_CUDA_UNIT_CUH

#include "kernels/cuda/launch.cuh"

struct alignas(16) td_unit16 {
  uint64_t low, high;
};

/* return fn<unit>(...) for elements of `size` bytes. */
#define TD_CUDA_BY_SIZE(size, fn, ...)                                         \
  switch (size) {                                                              \
  case 1:                                                                      \
    return fn<uint8_t>(__VA_ARGS__);                                           \
  case 2:                                                                      \
    return fn<uint16_t>(__VA_ARGS__);                                          \
  case 4:                                                                      \
    return fn<uint32_t>(__VA_ARGS__);                                          \
  case 8:                                                                      \
    return fn<uint64_t>(__VA_ARGS__);                                          \
  default:                                                                     \
    return fn<td_unit16>(__VA_ARGS__);                                         \
  }

#endif
