/* rows.cuh - rows copied by number on a card: each row of the result is the one
 * of the input that a function names, or zeros.
 *
 *   struct backwards {
 *     int64_t n;
 *     __device__ int64_t operator()(int64_t i) const { return n - 1 - i; }
 *   };
 *   td_cuda_rows(c, backwards{n}, n, bytes of a row, from, to)
 *
 * It is called for a row by every thread that copies a part of it; -1: zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_ROWS_CUH
#define TD_CUDA_ROWS_CUH

#include "kernels/cuda/divide.cuh"

namespace {

struct alignas(16) td_wide {
  uint64_t at[2];
};

/* `each`: elements of a row. */
template <class E, class D, class F>
__global__ void td_rows_copy(int64_t n, D each, F row, const E *x, E *y) {
  TD_EACH(i, n) {
    typename D::index at = (typename D::index)i, r = each(at);
    int64_t from = row((int64_t)r);
    E none = {};
    y[i] = from < 0 ? none : x[from * each.by + (at - r * each.by)];
  }
}

template <class E, class F>
td_status *td_rows_launch(const td_kernel_ctx *c, F row, int64_t rows,
                          int64_t bytes, const void *from, void *to) {
  int64_t each = bytes / (int64_t)sizeof(E), n = rows * each;
  const E *x = static_cast<const E *>(from);
  E *y = static_cast<E *>(to);
  if (td_divide_fits(n))
    return TD_LAUNCH(c, (td_rows_copy<E, td_divide, F>), td_cuda_grid(c, n),
                     TD_CUDA_BLOCK, 0, n, td_divide::of(each), row, x, y);
  return TD_LAUNCH(c, (td_rows_copy<E, td_divider, F>), td_cuda_grid(c, n),
                   TD_CUDA_BLOCK, 0, n, td_divider::of(each), row, x, y);
}

/* Nothing at all is fine. */
template <class F>
td_status *td_cuda_rows(const td_kernel_ctx *c, F row, int64_t rows,
                        int64_t bytes, const void *from, void *to) {
  uintptr_t all = reinterpret_cast<uintptr_t>(from) |
                  reinterpret_cast<uintptr_t>(to) | (uintptr_t)bytes;
  if (rows == 0 || bytes == 0) return nullptr;
  if (all % 16 == 0)
    return td_rows_launch<td_wide>(c, row, rows, bytes, from, to);
  if (all % 8 == 0)
    return td_rows_launch<uint64_t>(c, row, rows, bytes, from, to);
  if (all % 4 == 0)
    return td_rows_launch<uint32_t>(c, row, rows, bytes, from, to);
  if (all % 2 == 0)
    return td_rows_launch<uint16_t>(c, row, rows, bytes, from, to);
  return td_rows_launch<uint8_t>(c, row, rows, bytes, from, to);
}

} // namespace

#endif
