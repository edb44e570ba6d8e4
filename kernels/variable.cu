/* variable.cu - variables on a card: read and assigned by copies inside it,
 * added to in place.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/variable.h"

namespace {

template <bool minus, class S>
__global__ void change(int64_t n, S *x, const S *y) {
  TD_EACH(i, n) {
    auto a = td_num<S>::load(x[i]), b = td_num<S>::load(y[i]);
    x[i] = td_num<S>::store((decltype(a))(minus ? a - b : a + b));
  }
}

template <bool minus, class S>
td_status *launch(td_kernel_ctx *c, const td_tensor *x) {
  int64_t n = td_tensor_count(x);
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (change<minus, S>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                   n, td_cuda_at<S>(x), td_cuda_at<const S>(td_in(c, 1)));
}

#define CASE(kind, minus)                                                      \
  case TD_ELEMENT_##kind:                                                      \
    return launch<minus, td_##kind>(c, x);

template <bool minus> td_status *run(td_kernel_ctx *c) {
  td_tensor *x;
  TD_TRY(td_assign_change(c, &x));
  switch ((int)x->dtype) {
    EACH_REALS(CASE, minus) HALVES(CASE, minus) default
        : return td_cuda_no_type(c, 1);
  }
}

#define TYPES                                                                  \
  "dtype=half|bfloat16|float|double|int8|int16|int32|int64|"                   \
  "uint8|uint16|uint32|uint64"
/* All but strings and handles, which are never on a card. */
#define PLAIN TYPES "|bool|complex64|complex128"

const td_kernel_def kernels[] = {
    {.op = "ReadVariableOp",
     .device = "CUDA",
     .types = PLAIN,
     .run = td_assign_read_run,
     .shared = "resource"},
    {.op = "AssignVariableOp",
     .device = "CUDA",
     .types = PLAIN,
     .run = td_assign_run,
     .exclusive = "resource"},
    {.op = "AssignAddVariableOp",
     .device = "CUDA",
     .types = TYPES,
     .run = run<false>,
     .exclusive = "resource"},
    {.op = "AssignSubVariableOp",
     .device = "CUDA",
     .types = TYPES,
     .run = run<true>,
     .exclusive = "resource"},
    {},
};

} // namespace

TD_CUDA_MODULE(variable, kernels)
