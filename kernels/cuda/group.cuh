/* group.cuh - what the threads of a warp or a block make together of a value
 * of each, in an order that is always the same. All of them call, and all have
 * the result.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_GROUP_CUH
#define TD_CUDA_GROUP_CUH

#include "kernels/cuda/launch.cuh"

namespace {

struct group_add {
  template <class T> static __device__ inline T join(T a, T b) { return a + b; }
};
/* The larger; a NaN never is. */
struct group_larger {
  template <class T> static __device__ inline T join(T a, T b) {
    return b > a ? b : a;
  }
};

/* Among W threads that follow each other in a block: 32, or all 256 of it. */
template <class F, int W, class T> __device__ inline T group_join(T v) {
  static_assert(W == 32 || W == 256, "a warp or a block");
  for (int by = 16; by > 0; by /= 2)
    v = F::join(v, __shfl_xor_sync(0xffffffffu, v, by));
  if constexpr (W == 256) {
    __shared__ T of[8];
    if (threadIdx.x % 32 == 0) of[threadIdx.x / 32] = v;
    __syncthreads();
    v = of[0];
    for (int i = 1; i < 8; i++) v = F::join(v, of[i]);
    __syncthreads();
  }
  return v;
}

} // namespace

#endif
