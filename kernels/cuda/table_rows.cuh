/* table_rows.cuh - rows of a table that indices name, each perhaps several times.
 *
 * A block takes the first index of each row and does the updates of all that
 * name it, in their order: what is left does not depend on how blocks run. It
 * looks through all indices for that, which are few beside the elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_TABLE_ROWS_CUH
#define TD_CUDA_TABLE_ROWS_CUH

#include "kernels/cuda/launch.cuh"

#define TD_ROWS_TEXT "an index is %lld, not in [0, %lld)"

/* The first of a kernel stays. Without a word nobody wants to know. */
TD_DEVICE void td_rows_tell(td_cuda_report told, int64_t value,
                            int64_t limit) {
  if (!told.word) return;
  if (atomicCAS(&told.word->number, 0ull, told.number) != 0) return;
  told.word->value = value;
  told.word->limit = limit;
}

/* Is an index before the i-th of the same row? The whole block asks. */
template <class I>
static __device__ inline bool td_rows_seen(const I *indices, int64_t i,
                                           int64_t row) {
  __shared__ int seen;
  __syncthreads();
  if (threadIdx.x == 0) seen = 0;
  __syncthreads();
  for (int64_t k = threadIdx.x; k < i; k += blockDim.x)
    if (indices[k] == row) atomicExch(&seen, 1);
  __syncthreads();
  return seen != 0;
}

/* f(k, row, j): element j of row `row` by index k, each element's in order, for
 * all of n indices. The whole block calls. */
template <class I, class F>
static __device__ inline void td_rows_each(const I *indices, int64_t n,
                                           int64_t rows, int64_t each,
                                           td_cuda_report told, F f) {
  for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
    int64_t row = indices[i];
    bool bad = row < 0 || row >= rows;
    if (bad && threadIdx.x == 0) td_rows_tell(told, row, rows);
    if (bad || td_rows_seen(indices, i, row)) continue;
    for (int64_t k = i; k < n; k++) {
      if (indices[k] != row) continue;
      for (int64_t j = threadIdx.x; j < each; j += blockDim.x) f(k, row, j);
    }
  }
}

/* A block for each of n indices. */
static inline dim3 td_rows_grid(const td_kernel_ctx *c, int64_t n) {
  return td_cuda_grid(c, n * TD_CUDA_BLOCK);
}

#endif
