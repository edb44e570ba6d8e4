/* bias.cu - a vector added along the channels, and its gradient, on a card.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/bias.h"
#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/element.cuh"

namespace {

td_channels view_of(const td_bias *b) {
  return channels_of(b->outer, b->channels, b->inner);
}

/* ---- BiasAdd ------------------------------------------------------------- */

template <class T>
__global__ void add(int64_t n, td_channels v, const T *x, const T *bias,
                    T *y) {
  typedef typename td_num<T>::in in;
  TD_EACH(i, n) {
    in sum = (in)(td_num<T>::load(x[i]) + td_num<T>::load(bias[v.of(i)]));
    y[i] = td_num<T>::store(sum);
  }
}

template <class T> td_status *run_add_of(td_kernel_ctx *c) {
  td_tensor *y, x = *td_in(c, 0); /* the buffer may become the output's */
  td_bias b;
  TD_TRY(td_bias_add_of(c, &b));
  TD_TRY(td_out_forward(c, 0, &x.shape, 0, -1, &y));
  int64_t n = td_tensor_count(y);
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (add<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   view_of(&b), td_cuda_at<const T>(&x),
                   td_cuda_at<const T>(td_in(c, 1)), td_cuda_at<T>(y));
}

/* ---- BiasAddGrad --------------------------------------------------------- */

template <class T> struct total {
  typedef typename td_num<T>::in sum;
  static constexpr int sums = 1;
  const T *dy;
  T *to;

  __device__ inline void add(int64_t at, int64_t, sum *s) const {
    s[0] = (sum)(s[0] + td_num<T>::load(dy[at]));
  }
  __device__ inline void end(int64_t channel, const sum *s) const {
    to[channel] = td_num<T>::store(s[0]);
  }
};

template <class T> td_status *run_grad_of(td_kernel_ctx *c) {
  td_tensor *db;
  td_bias b;
  TD_TRY(td_bias_grad_of(c, &b));
  td_shape shape = td_shape_vector(b.channels);
  TD_TRY(td_out(c, 0, &shape, &db));
  total<T> f = {td_cuda_at<const T>(td_in(c, 0)), td_cuda_at<T>(db)};
  return channels_run(c, view_of(&b), f);
}

/* ---- rows ---------------------------------------------------------------- */

#define CASE(kind, run)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    return run<td_##kind>(c);

td_status *run_add(td_kernel_ctx *c) {
  switch ((int)td_in(c, 0)->dtype) {
    EACH_NUMBERS(CASE, run_add_of)
    HALVES_NUMBERS(CASE, run_add_of)
  default:
    return td_cuda_no_type(c, 0);
  }
}

td_status *run_grad(td_kernel_ctx *c) {
  switch ((int)td_in(c, 0)->dtype) {
    EACH_NUMBERS(CASE, run_grad_of)
    HALVES_NUMBERS(CASE, run_grad_of)
  default:
    return td_cuda_no_type(c, 0);
  }
}

#define ROW(op_, run_)                                                         \
  {.op = op_, .device = "CUDA", .types = TYPES_NUMBERS, .run = run_}

const td_kernel_def kernels[] = {
    ROW("BiasAdd", run_add),
    ROW("BiasAddV1", run_add),
    ROW("BiasAddGrad", run_grad),
    {},
};

} // namespace

TD_CUDA_MODULE(bias, kernels)
