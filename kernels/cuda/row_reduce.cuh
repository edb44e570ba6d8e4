/* row_reduce.cuh - row_reduce.h on a card: rows that go to one row of the
 * result are reduced there, in the order of the input.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_ROW_REDUCE_CUH
#define TD_CUDA_ROW_REDUCE_CUH

#include "kernels/cuda/rows.cuh"
#include "kernels/row_reduce.h"

/* td_row_reduce_run with f->to, of f->n numbers, in the card's memory; f->from,
 * by and over are not looked at. `mean`: each row of the result is divided by
 * how many went there. */
extern "C" td_status *td_cuda_row_reduce(td_kernel_ctx *c, int in,
                                         const td_row_reduce *f, bool mean,
                                         const td_shape *shape) TD_MUST_USE;

namespace {

template <class F> __global__ void td_rows_list(int64_t n, F row, int64_t *to) {
  TD_EACH(i, n) to[i] = row(i);
}

/* The same of rows that a function names, as in rows.cuh; -1: left out. */
template <class F>
td_status *td_cuda_reduce_by(td_kernel_ctx *c, int in, F row, td_row_reduce f,
                             bool mean, const td_shape *shape) {
  td_shape all = td_shape_vector(f.n);
  td_tensor list;
  TD_TRY(td_temp(c, TD_INT64, &all, &list));
  int64_t *to = td_cuda_at<int64_t>(&list);
  td_status *s = nullptr;
  f.to = to;
  if (f.n > 0)
    s = TD_LAUNCH(c, (td_rows_list<F>), td_cuda_grid(c, f.n), TD_CUDA_BLOCK, 0,
                  f.n, row, to);
  if (td_ok(s)) s = td_cuda_row_reduce(c, in, &f, mean, shape);
  td_tensor_release(&list);
  return s;
}

} // namespace

#endif
