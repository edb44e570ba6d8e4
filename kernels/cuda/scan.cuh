/* scan.cuh - running sums on a card, in a fixed order.
 *
 *   td_cuda_scan(c, n, f, out)
 *
 * has out[i], i from 0 to n, be the sum of f(k) over all k < i: where each of
 * several things begins that are to be laid side by side, and last how many
 * there are. Three kernels: sums of tiles, their running sums by one block, and
 * the tiles once more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_SCAN_CUH
#define TD_CUDA_SCAN_CUH

#include "kernels/cuda/launch.cuh"

namespace {

enum {
  TD_SCAN_EACH = 8, /* items of a thread */
  TD_SCAN_TILE = TD_CUDA_BLOCK * TD_SCAN_EACH,
  TD_SCAN_WARPS = TD_CUDA_BLOCK / 32,
};

/* The sum of the threads before this one of a block of TD_CUDA_BLOCK; *all: of
 * all of them. Every thread of the block calls it. T: a sum of 8 bytes. */
template <class T> __device__ inline T td_block_scan(T v, T *all) {
  __shared__ T part[TD_SCAN_WARPS];
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T sum = v, before = 0, total = 0;
  for (unsigned by = 1; by < 32; by *= 2) {
    T below = __shfl_up_sync(0xffffffffu, sum, by);
    if (lane >= by) sum += below;
  }
  if (lane == 31) part[warp] = sum;
  __syncthreads();
  for (unsigned w = 0; w < TD_SCAN_WARPS; w++) {
    if (w < warp) before += part[w];
    total += part[w];
  }
  __syncthreads();
  *all = total;
  return before + sum - v;
}

template <class F>
__global__ void td_scan_sums(int64_t n, F f, int64_t *sums) {
  int64_t first = (int64_t)blockIdx.x * TD_SCAN_TILE, sum = 0, all;
  for (int k = 0; k < TD_SCAN_EACH; k++) {
    int64_t i = first + k * TD_CUDA_BLOCK + threadIdx.x;
    if (i < n) sum += f(i);
  }
  td_block_scan(sum, &all);
  if (threadIdx.x == 0) sums[blockIdx.x] = all;
}

/* One block: sums become running ones. */
static __global__ void td_scan_tiles(int64_t n, int64_t *sums) {
  int64_t before = 0, all;
  for (int64_t first = 0; first < n; first += TD_CUDA_BLOCK) {
    int64_t i = first + threadIdx.x, v = i < n ? sums[i] : 0;
    int64_t here = td_block_scan(v, &all);
    if (i < n) sums[i] = before + here;
    before += all;
  }
}

template <class F>
__global__ void td_scan_write(int64_t n, F f, const int64_t *sums,
                              int64_t *out) {
  int64_t first = (int64_t)blockIdx.x * TD_SCAN_TILE +
                  (int64_t)threadIdx.x * TD_SCAN_EACH;
  int64_t v[TD_SCAN_EACH], sum = 0, all;
  for (int k = 0; k < TD_SCAN_EACH; k++) {
    v[k] = first + k < n ? f(first + k) : 0;
    sum += v[k];
  }
  int64_t at = sums[blockIdx.x] + td_block_scan(sum, &all);
  for (int k = 0; k < TD_SCAN_EACH; k++) {
    if (first + k <= n) out[first + k] = at;
    at += v[k];
  }
}

/* `out` has n + 1 elements. */
template <class F>
td_status *td_cuda_scan(td_kernel_ctx *c, int64_t n, F f, int64_t *out) {
  int64_t tiles = n / TD_SCAN_TILE + 1; /* one of them has element n */
  td_shape shape = td_shape_vector(tiles);
  td_tensor sums;
  if (tiles > INT32_MAX) return td_oom();
  TD_TRY(td_temp(c, TD_INT64, &shape, &sums));
  int64_t *at = td_cuda_at<int64_t>(&sums);
  td_status *s = TD_LAUNCH(c, (td_scan_sums<F>), dim3((unsigned)tiles),
                           TD_CUDA_BLOCK, 0, n, f, at);
  if (td_ok(s)) s = TD_LAUNCH(c, td_scan_tiles, 1, TD_CUDA_BLOCK, 0, tiles, at);
  if (td_ok(s))
    s = TD_LAUNCH(c, (td_scan_write<F>), dim3((unsigned)tiles), TD_CUDA_BLOCK,
                  0, n, f, at, out);
  td_tensor_release(&sums);
  return s;
}

} // namespace

#endif
