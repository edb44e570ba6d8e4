/* upload.cuh - a short list of the host's, brought to a card as arguments of
 * kernels: nobody has to wait, and nothing has to be held until it is there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_UPLOAD_CUH
#define TD_CUDA_UPLOAD_CUH

#include "kernels/cuda/launch.cuh"

namespace {

enum { TD_UPLOAD_EACH = 256 };

struct td_uploaded {
  int64_t at[TD_UPLOAD_EACH];
};

static __global__ void td_upload_some(int n, td_uploaded from, int64_t *to) {
  if ((int)threadIdx.x < n) to[threadIdx.x] = from.at[threadIdx.x];
}

/* *out holds n numbers, get(i) of the host each; the caller owns it, also when
 * it failed. */
template <class F>
td_status *td_cuda_upload(td_kernel_ctx *c, int64_t n, F get, td_tensor *out) {
  td_shape all = td_shape_vector(n);
  TD_TRY(td_temp(c, TD_INT64, &all, out));
  for (int64_t first = 0; first < n; first += TD_UPLOAD_EACH) {
    int64_t left = n - first;
    int some = left < TD_UPLOAD_EACH ? (int)left : (int)TD_UPLOAD_EACH;
    td_uploaded from = {};
    for (int i = 0; i < some; i++) from.at[i] = get(first + i);
    TD_TRY(TD_LAUNCH(c, td_upload_some, 1, TD_UPLOAD_EACH, 0, some, from,
                     td_cuda_at<int64_t>(out) + first));
  }
  return nullptr;
}

} // namespace

#endif
