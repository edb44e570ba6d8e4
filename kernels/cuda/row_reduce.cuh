/* row_reduce.cuh - row_reduce.h on a card: rows that go to one row of the
 * result are reduced there, in the order of the input.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_ROW_REDUCE_CUH
#define TD_CUDA_ROW_REDUCE_CUH

#include "kernels/cuda/rows.cuh"
#include "kernels/row_reduce.h"

/* What each row of the result is divided by at the end: how many went there, or
 * the square root of that. */
typedef enum td_row_divisor {
  TD_ROW_BY_ONE,
  TD_ROW_BY_COUNT,
  TD_ROW_BY_ROOT
} td_row_divisor;

/* td_row_reduce_run with f->to, from and by, of f->n numbers, in the card's
 * memory; f->over is not looked at. */
extern "C" td_status *td_cuda_row_reduce(td_kernel_ctx *c, int in,
                                         const td_row_reduce *f,
                                         td_row_divisor over,
                                         const td_shape *shape) TD_MUST_USE;
/* (*begin)[row] .. [row + 1]: where those of f->n numbers f->to, sorted, that
 * are `row` stand; items: which they are. The caller owns both, also when it
 * failed. */
extern "C" td_status *td_cuda_row_order(td_kernel_ctx *c, int64_t n,
                                        const int64_t *to, int64_t rows,
                                        td_tensor *items,
                                        td_tensor *begin) TD_MUST_USE;

namespace {

template <class F> __global__ void td_rows_list(int64_t n, F row, int64_t *to) {
  TD_EACH(i, n) to[i] = row(i);
}

/* The same of rows that a function names, as in rows.cuh; -1: left out. */
template <class F>
td_status *td_cuda_reduce_by(td_kernel_ctx *c, int in, F row, td_row_reduce f,
                             td_row_divisor over, const td_shape *shape) {
  td_shape all = td_shape_vector(f.n);
  td_tensor list;
  TD_TRY(td_temp(c, TD_INT64, &all, &list));
  int64_t *to = td_cuda_at<int64_t>(&list);
  td_status *s = nullptr;
  f.to = to;
  if (f.n > 0)
    s = TD_LAUNCH(c, (td_rows_list<F>), td_cuda_grid(c, f.n), TD_CUDA_BLOCK, 0,
                  f.n, row, to);
  if (td_ok(s)) s = td_cuda_row_reduce(c, in, &f, over, shape);
  td_tensor_release(&list);
  return s;
}

} // namespace

#endif
