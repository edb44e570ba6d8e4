/* add_n.cu - the sum of many tensors of one shape, on a card: one pass over
 * memory for up to MOST of them, in their order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

namespace {

enum { MOST = 128 };

template <class T> struct operands {
  int n;
  const T *at[MOST];
};

/* y may be one of the operands. */
template <class T> __global__ void add(int64_t n, operands<T> x, T *y) {
  TD_EACH(i, n) {
    typename td_num<T>::in sum = td_num<T>::load(x.at[0][i]);
    for (int k = 1; k < x.n; k++) sum += td_num<T>::load(x.at[k][i]);
    y[i] = td_num<T>::store(sum);
  }
}

template <class T> td_status *launch(td_kernel_ctx *c) {
  td_tensor *y;
  operands<T> x;
  int at = 0;
  TD_TRY(td_out_forward(c, 0, &td_in(c, 0)->shape, 0, -1, &y));
  T *to = td_cuda_at<T>(y);
  int64_t n = td_tensor_count(y);
  if (n == 0) return nullptr;
  x.n = 0;
  while (at < c->n_in) {
    while (x.n < MOST && at < c->n_in)
      x.at[x.n++] = td_cuda_at<const T>(td_in(c, at++));
    TD_TRY(TD_LAUNCH(c, (add<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, x,
                     to));
    x.n = 1;
    x.at[0] = to;
  }
  return nullptr;
}

#define CASE(kind, ...)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    return launch<td_##kind>(c);
td_status *run(td_kernel_ctx *c) {
  TD_TRY(td_add_n_check(c));
  if (c->n_in == 1) {
    td_out_pass(c, 0, 0);
    return nullptr;
  }
  switch ((int)td_in(c, 0)->dtype) {
    EACH_NUMBERS(CASE, )
    HALVES(CASE, )
  default:
    return td_cuda_no_type(c, 0);
  }
}

const td_kernel_def kernels[] = {
    {.op = "AddN", .device = "CUDA", .types = TYPES_NUMBERS, .run = run},
    {.op = "AccumulateNV2",
     .device = "CUDA",
     .types = TYPES_NUMBERS,
     .run = run},
    {},
};

} // namespace

TD_CUDA_MODULE(add_n, kernels)
