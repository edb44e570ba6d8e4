/* table_rows.cuh - rows of a table that indices name, each perhaps several
 * times.
 *
 *   td_cuda_each_row(c, indices, rows, each, told, f)
 *
 * calls f.ready()(k, row, j), on the card, for element j of the row that index
 * k names: those of one element in the order of the indices, all else at once.
 * So what is left does not depend on how blocks run. Among a few indices a
 * block looks for the others of its row itself; many are sorted by row first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_TABLE_ROWS_CUH
#define TD_CUDA_TABLE_ROWS_CUH

#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/sort.cuh"

#define TD_ROWS_TEXT "an index is %lld, not in [0, %lld)"

namespace {

enum { TD_ROWS_FEW = 1024 };

/* The first of a kernel stays. Without a word nobody wants to know. */
__device__ inline void td_rows_tell(td_cuda_report told, int64_t value,
                                    int64_t limit) {
  if (told.word) td_cuda_tell(told, value, limit);
}

/* An index that names no row is told, and is as `rows`. */
template <class I>
__global__ void td_rows_keys(int64_t n, const I *indices, int64_t rows,
                             uint64_t *keys, int64_t *items,
                             td_cuda_report told) {
  TD_EACH(i, n) {
    int64_t row = (int64_t)indices[i];
    bool bad = row < 0 || row >= rows;
    if (bad) td_rows_tell(told, row, rows);
    keys[i] = (uint64_t)(bad ? rows : row);
    items[i] = i;
  }
}

/* ---- a few --------------------------------------------------------------- */

/* Is a key before the i-th the same? The whole block asks. */
__device__ inline bool td_rows_seen(const uint64_t *keys, int64_t i) {
  __shared__ int seen;
  uint64_t key = keys[i];
  __syncthreads();
  if (threadIdx.x == 0) seen = 0;
  __syncthreads();
  for (int64_t k = threadIdx.x; k < i; k += blockDim.x)
    if (keys[k] == key) atomicExch(&seen, 1);
  __syncthreads();
  return seen != 0;
}

/* A block takes the first key of each row, and does all that are the same. */
template <class F>
__global__ void td_rows_few(int64_t n, int64_t each, uint64_t rows,
                            const uint64_t *keys, F f) {
  auto ready = f.ready();
  for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
    uint64_t row = keys[i];
    if (row == rows || td_rows_seen(keys, i)) continue;
    for (int64_t k = i; k < n; k++) {
      if (keys[k] != row) continue;
      for (int64_t j = threadIdx.x; j < each; j += blockDim.x)
        ready(k, (int64_t)row, j);
    }
  }
}

/* ---- many ---------------------------------------------------------------- */

/* A thread takes an element of the first key of a row. */
template <class F>
__global__ void td_rows_many(int64_t n, td_divider each, uint64_t rows,
                             const uint64_t *keys, const int64_t *items, F f) {
  auto ready = f.ready();
  TD_EACH(i, n * each.by) {
    int64_t j, first = each.split(i, &j);
    uint64_t row = keys[first];
    if (row == rows || (first > 0 && keys[first - 1] == row)) continue;
    for (int64_t k = first; k < n && keys[k] == row; k++)
      ready(items[k], (int64_t)row, j);
  }
}

/* ---- launches ------------------------------------------------------------ */

template <class I>
td_status *td_rows_fill(td_kernel_ctx *c, const td_tensor *indices,
                        int64_t rows, td_cuda_report told,
                        td_cuda_sorting *by) {
  return TD_LAUNCH(c, (td_rows_keys<I>), td_cuda_grid(c, by->n), TD_CUDA_BLOCK,
                   0, by->n, td_cuda_at<const I>(indices), rows, by->keys,
                   by->items, told);
}

template <class F>
td_status *td_rows_launch_on(td_kernel_ctx *c, int64_t rows, int64_t each,
                             td_cuda_sorting *by, const F &f) {
  int64_t n = by->n;
  if (n <= TD_ROWS_FEW)
    return TD_LAUNCH(c, (td_rows_few<F>), td_cuda_grid(c, n * TD_CUDA_BLOCK),
                     TD_CUDA_BLOCK, 0, n, each, (uint64_t)rows, by->keys, f);
  TD_TRY(td_cuda_sort(c, by));
  return TD_LAUNCH(c, (td_rows_many<F>), td_cuda_grid(c, n * each),
                   TD_CUDA_BLOCK, 0, n, td_divider_by(each), (uint64_t)rows,
                   by->keys, by->items, f);
}

/* Of `rows` rows of `each` elements; indices: int32 or int64. */
template <class F>
td_status *td_cuda_each_row(td_kernel_ctx *c, const td_tensor *indices,
                            int64_t rows, int64_t each, td_cuda_report told,
                            const F &f) {
  int64_t n = td_tensor_count(indices);
  td_cuda_sorting by = {};
  if (n == 0 || each == 0) return nullptr;
  td_status *s = td_cuda_sort_new(c, n, td_cuda_bits((uint64_t)rows), &by);
  if (td_ok(s))
    s = indices->dtype == TD_INT32
            ? td_rows_fill<int32_t>(c, indices, rows, told, &by)
            : td_rows_fill<int64_t>(c, indices, rows, told, &by);
  if (td_ok(s)) s = td_rows_launch_on(c, rows, each, &by, f);
  td_cuda_sort_drop(&by);
  return s;
}

} // namespace

#endif
