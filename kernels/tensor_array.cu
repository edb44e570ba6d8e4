/* tensor_array.cu - arrays of tensors on a card: what is written, read and
 * joined stays there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/tensor_array.h"

namespace {

template <class T>
__global__ void sum(int64_t n, const T *x, const T *y, T *z) {
  TD_EACH(i, n) {
    typename td_num<T>::in v = td_num<T>::load(x[i]), w = td_num<T>::load(y[i]);
    z[i] = td_num<T>::store((typename td_num<T>::in)(v + w));
  }
}

#define CASE(kind, ...)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    return TD_LAUNCH(c, (sum<td_##kind>), td_cuda_grid(c, n), TD_CUDA_BLOCK,   \
                     0, n, td_cuda_at<const td_##kind>(x),                     \
                     td_cuda_at<const td_##kind>(y), td_cuda_at<td_##kind>(z));

td_status *add(td_kernel_ctx *c, const td_tensor *x, const td_tensor *y,
               td_tensor *z) {
  int64_t n = td_tensor_count(x);
  if (n == 0) return nullptr;
  switch ((int)x->dtype) {
    EACH_NUMBERS(CASE) HALVES_NUMBERS(CASE)
  default:
    return td_error(TD_INVALID_ARGUMENT, "%s cannot be added",
                    td_dtype_name(x->dtype));
  }
}

td_status *write_run(td_kernel_ctx *c) {
  return td_arrays_write(c, add);
}
td_status *scatter_run(td_kernel_ctx *c) {
  return td_arrays_scatter(c, add);
}
td_status *split_run(td_kernel_ctx *c) {
  return td_arrays_split(c, add);
}

#define ROW(op_, of, run_)                                                     \
  {.op = op_, .device = "CUDA", .types = of "=" TD_CUDA_PLAIN, .run = run_}

const td_kernel_def kernels[] = {
    ROW("TensorArrayV3", "dtype", td_arrays_make),
    ROW("TensorArrayReadV3", "dtype", td_arrays_read),
    ROW("TensorArrayGatherV3", "dtype", td_arrays_gather),
    ROW("TensorArrayConcatV3", "dtype", td_arrays_concat),
    ROW("TensorArrayWriteV3", "T", write_run),
    ROW("TensorArrayScatterV3", "T", scatter_run),
    ROW("TensorArraySplitV3", "T", split_run),
    {},
};

} // namespace

TD_CUDA_MODULE(tensor_array, kernels)
