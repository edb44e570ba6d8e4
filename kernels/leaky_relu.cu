/* leaky_relu.cu - LeakyRelu and its gradient on a card.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/leaky_relu.h"

namespace {

/* x where the sign is above 0, else alpha x. */
template <class T>
__global__ void leak(int64_t n, double alpha, const T *x, const T *sign,
                     T *z) {
  typedef typename td_num<T>::in in;
  in slope = (in)alpha;
  TD_EACH(i, n) {
    in v = td_num<T>::load(x[i]);
    z[i] = td_num<T>::store(td_num<T>::load(sign[i]) > 0 ? v : slope * v);
  }
}

template <class T> td_status *run_of(td_kernel_ctx *c, int sign) {
  td_tensor *z, x = *td_in(c, 0), y = *td_in(c, sign);
  double alpha;
  TD_TRY(td_leaky_relu_of(c, sign, &alpha));
  TD_TRY(td_out_forward(c, 0, &x.shape, 0, sign, &z));
  int64_t n = td_tensor_count(z);
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (leak<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, alpha,
                   td_cuda_at<const T>(&x), td_cuda_at<const T>(&y),
                   td_cuda_at<T>(z));
}

td_status *run(td_kernel_ctx *c, int sign) {
  switch ((int)td_in(c, 0)->dtype) {
  case TD_FLOAT16:
    return run_of<td_f16>(c, sign);
  case TD_BFLOAT16:
    return run_of<td_bf16>(c, sign);
  case TD_FLOAT32:
    return run_of<td_f32>(c, sign);
  case TD_FLOAT64:
    return run_of<td_f64>(c, sign);
  default:
    return td_cuda_no_type(c, 0);
  }
}

td_status *run_forward(td_kernel_ctx *c) {
  return run(c, 0);
}
td_status *run_gradient(td_kernel_ctx *c) {
  return run(c, 1);
}

#define ROW(op_, run_)                                                         \
  {.op = op_, .device = "CUDA", .types = TYPES_FLOATS, .run = run_}

const td_kernel_def kernels[] = {
    ROW("LeakyRelu", run_forward),
    ROW("LeakyReluGrad", run_gradient),
    {},
};

} // namespace

TD_CUDA_MODULE(leaky_relu, kernels)
