/* l2_loss.cu - half the sum of squares, on a card.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/element.cuh"

namespace {

/* Of a tensor as one channel. */
template <class T> struct squares {
  typedef typename td_num<T>::in sum;
  static constexpr int sums = 1;
  const T *x;
  T *to;

  __device__ inline void add(int64_t at, int64_t, sum *s) const {
    sum v = td_num<T>::load(x[at]);
    s[0] += v * v;
  }
  __device__ inline void end(int64_t, const sum *s) const {
    *to = td_num<T>::store(s[0] / 2);
  }
};

template <class T> td_status *run_of(td_kernel_ctx *c) {
  td_shape scalar = td_shape_scalar();
  td_tensor *y;
  TD_TRY(td_out(c, 0, &scalar, &y));
  squares<T> f = {td_cuda_at<const T>(td_in(c, 0)), td_cuda_at<T>(y)};
  return channels_run(c, channels_of(1, 1, td_tensor_count(td_in(c, 0))), f);
}

td_status *run(td_kernel_ctx *c) {
  switch ((int)td_in(c, 0)->dtype) {
  case TD_FLOAT16:
    return run_of<td_f16>(c);
  case TD_BFLOAT16:
    return run_of<td_bf16>(c);
  case TD_FLOAT32:
    return run_of<td_f32>(c);
  case TD_FLOAT64:
    return run_of<td_f64>(c);
  default:
    return td_cuda_no_type(c, 0);
  }
}

const td_kernel_def kernels[] = {
    {.op = "L2Loss", .device = "CUDA", .run = run},
    {},
};

} // namespace

TD_CUDA_MODULE(l2_loss, kernels)
