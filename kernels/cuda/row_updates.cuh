/* row_updates.cuh - what updates of rows do to an element, and their kernel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_ROW_UPDATES_CUH
#define TD_CUDA_ROW_UPDATES_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/table_rows.cuh"

namespace {

#define TD_ROWS_OPERATION(name, expression)                                    \
  struct td_rows_##name {                                                      \
    template <class T> static __device__ inline T of(T x, T y) {               \
      (void)x;                                                                 \
      return (T)(expression);                                                  \
    }                                                                          \
  };
TD_ROWS_OPERATION(sum, x + y)
TD_ROWS_OPERATION(difference, x - y)
TD_ROWS_OPERATION(product, x *y)
TD_ROWS_OPERATION(quotient, td_num_div(x, y))
TD_ROWS_OPERATION(smaller, td_num_min(x, y))
TD_ROWS_OPERATION(larger, td_num_max(x, y))
TD_ROWS_OPERATION(new, y)

struct td_row_updates {
  void *x; /* {rows, each} */
  const void *updates;
  int64_t rows, each;
  int64_t step; /* elements from one row of updates to the next; 0: a scalar */
  td_cuda_report told;
};

template <class F, class S> struct td_row_update {
  S *x;
  const S *updates;
  int64_t each, step;

  __device__ td_row_update ready() const { return *this; }
  __device__ void operator()(int64_t k, int64_t row, int64_t j) const {
    S *to = x + row * each + j;
    S by = updates[step ? k * step + j : 0];
    *to = td_num<S>::store(F::of(td_num<S>::load(*to), td_num<S>::load(by)));
  }
};

template <class F, class S>
td_status *td_row_updates_of(td_kernel_ctx *c, const td_tensor *indices,
                             const td_row_updates &u) {
  td_row_update<F, S> f = {static_cast<S *>(u.x),
                           static_cast<const S *>(u.updates), u.each, u.step};
  return td_cuda_each_row(c, indices, u.rows, u.each, u.told, f);
}

#define TD_ROWS_CASE(kind, F)                                                  \
  case TD_ELEMENT_##kind:                                                      \
    return td_row_updates_of<F, td_##kind>(c, indices, u);

template <class F>
td_status *td_row_updates_launch(td_kernel_ctx *c, td_dtype dtype,
                                 const td_tensor *indices,
                                 const td_row_updates &u) {
  switch ((int)dtype) {
    EACH_REALS(TD_ROWS_CASE, F) HALVES(TD_ROWS_CASE, F) default
        : return td_cuda_no_type(c, 2);
  }
}

} // namespace

#endif
