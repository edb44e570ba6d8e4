/* pooling_avg.cu - the mean of each window and its gradient on a card.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/pooling.cuh"

namespace {

template <class T>
__global__ void mean(int64_t n, pool_sizes s, const T *x, T *y) {
  typedef typename td_num<T>::in in;
  TD_EACH(i, n) {
    pool_at a = pool_where(s.out, s.inner, i);
    pool_window w = pool_window_of(s, a.at);
    in sum = 0;
    pool_cells(s, a, w,
               [&](int32_t, int64_t k) { sum += td_num<T>::load(x[k]); });
    y[i] = td_num<T>::store(sum /
                            (in)(w.count[0] * w.count[1] * w.count[2]));
  }
}

template <class T>
__global__ void spread(int64_t n, pool_sizes s, const T *dy, T *dx) {
  typedef typename td_num<T>::in in;
  TD_EACH(i, n) {
    in sum = 0;
    pool_windows(s, pool_where(s.in, s.inner, i),
                 [&](int64_t k, const pool_window &w) {
                   int64_t cells = w.count[0] * w.count[1] * w.count[2];
                   sum += td_num<T>::load(dy[k]) * (1 / (in)cells);
                 });
    dx[i] = td_num<T>::store(sum);
  }
}

template <class T>
td_status *mean_of(td_kernel_ctx *c, const td_pooling *p, td_tensor *y) {
  int64_t n = td_tensor_count(y);
  return TD_LAUNCH(c, (mean<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   pool_sizes_of(p), td_cuda_at<const T>(td_in(c, 0)),
                   td_cuda_at<T>(y));
}

template <class T>
td_status *spread_of(td_kernel_ctx *c, const td_pooling *p, td_tensor *dx) {
  int64_t n = td_tensor_count(dx);
  return TD_LAUNCH(c, (spread<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   pool_sizes_of(p), td_cuda_at<const T>(td_in(c, 1)),
                   td_cuda_at<T>(dx));
}

td_status *run(td_kernel_ctx *c, int rank) {
  td_pooling p;
  td_tensor *y;
  TD_TRY(td_pooling_avg_of(c, rank, &p));
  TD_TRY(td_out(c, 0, &p.out, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  POOL_FLOATS(y->dtype, mean_of, c, &p, y)
}

td_status *run_grad(td_kernel_ctx *c, int rank) {
  td_pooling p;
  td_tensor *dx;
  bool nothing;
  TD_TRY(td_pooling_avg_grad_of(c, rank, &p, &nothing));
  TD_TRY(td_out(c, 0, &p.in, &dx));
  if (td_tensor_count(dx) == 0) return nullptr;
  if (nothing)
    return td_cuda_ok(cudaMemsetAsync(dx->data, 0, td_tensor_bytes(dx),
                                      td_cuda_stream(c)),
                      "zeros");
  POOL_FLOATS(dx->dtype, spread_of, c, &p, dx)
}

td_status *run_image(td_kernel_ctx *c) {
  return run(c, 4);
}
td_status *run_volume(td_kernel_ctx *c) {
  return run(c, 5);
}
td_status *run_image_grad(td_kernel_ctx *c) {
  return run_grad(c, 4);
}
td_status *run_volume_grad(td_kernel_ctx *c) {
  return run_grad(c, 5);
}

#define ROW(op_, run_)                                                         \
  {.op = op_, .device = "CUDA", .types = TYPES_FLOATS, .run = run_}

const td_kernel_def kernels[] = {
    ROW("AvgPool", run_image),
    ROW("AvgPoolGrad", run_image_grad),
    ROW("AvgPool3D", run_volume),
    ROW("AvgPool3DGrad", run_volume_grad),
    {},
};

} // namespace

TD_CUDA_MODULE(pooling_avg, kernels)
