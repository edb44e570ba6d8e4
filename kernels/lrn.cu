/* lrn.cu - local response normalisation over neighbouring channels on a card.
 *
 * A thread makes an element. The gradient takes n of every channel twice, of
 * its own window and for those it is in: these are kept from a first kernel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/lrn.h"

namespace {

struct sizes {
  td_divider depth;
  int64_t radius;
  float bias, alpha, beta;
};

/* The sum of f(element) over the channels at most radius away from that of
 * element i. */
template <class F>
__device__ inline float window(const sizes &s, int64_t i, F f) {
  int64_t k;
  s.depth.split(i, &k);
  int64_t from = k < s.radius ? 0 : k - s.radius, to = k + s.radius;
  float sum = 0;
  int64_t first = i - k;
  if (to > s.depth.by - 1) to = s.depth.by - 1;
  for (int64_t j = from; j <= to; j++) sum += f(first + j);
  return sum;
}

/* n^-beta */
__device__ inline float power(const sizes &s, float n) {
  if (s.beta == 0.5f) return 1 / sqrtf(n);
  return s.beta == 1.0f ? 1 / n : powf(n, -s.beta);
}

template <class T>
__device__ inline float norm(const sizes &s, const T *x, int64_t i) {
  return s.bias + s.alpha * window(s, i, [=](int64_t k) {
           float v = td_num<T>::load(x[k]);
           return v * v;
         });
}

template <class T>
__global__ void forward(int64_t n, sizes s, const T *x, T *y) {
  TD_EACH(i, n)
    y[i] = td_num<T>::store(td_num<T>::load(x[i]) * power(s, norm(s, x, i)));
}

template <class T>
__global__ void norms(int64_t n, sizes s, const T *x, float *to) {
  TD_EACH(i, n) to[i] = norm(s, x, i);
}

/* dx = dy n^-beta - 2 alpha beta x times the window's sum of dy y / n */
template <class T>
__global__ void backward(int64_t n, sizes s, const float *norms, const T *dy,
                         const T *x, const T *y, T *dx) {
  TD_EACH(i, n) {
    float sum = window(s, i, [=](int64_t k) {
      return td_num<T>::load(dy[k]) * td_num<T>::load(y[k]) / norms[k];
    });
    dx[i] = td_num<T>::store(td_num<T>::load(dy[i]) * power(s, norms[i]) +
                             td_num<T>::load(x[i]) *
                                 (-2 * s.alpha * s.beta * sum));
  }
}

/* ---- running ------------------------------------------------------------- */

sizes sizes_of(const td_lrn *p) {
  return {td_divider_by(p->depth), p->radius, p->bias, p->alpha, p->beta};
}

template <class T>
td_status *forward_of(td_kernel_ctx *c, const td_lrn *p, td_tensor *y) {
  int64_t n = td_tensor_count(y);
  return TD_LAUNCH(c, (forward<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   sizes_of(p), td_cuda_at<const T>(td_in(c, 0)),
                   td_cuda_at<T>(y));
}

template <class T>
td_status *backward_of(td_kernel_ctx *c, const td_lrn *p, td_tensor *dx) {
  int64_t n = td_tensor_count(dx);
  const T *x = td_cuda_at<const T>(td_in(c, 1));
  td_tensor memory = {};
  TD_TRY(td_temp(c, TD_FLOAT32, &dx->shape, &memory));
  float *all = td_cuda_at<float>(&memory);
  td_status *s = TD_LAUNCH(c, (norms<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                           n, sizes_of(p), x, all);
  if (td_ok(s))
    s = TD_LAUNCH(c, (backward<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                  sizes_of(p), all, td_cuda_at<const T>(td_in(c, 0)), x,
                  td_cuda_at<const T>(td_in(c, 2)), td_cuda_at<T>(dx));
  td_tensor_release(&memory);
  return s;
}

#define BY_TYPE(f)                                                             \
  switch ((int)to->dtype) {                                                    \
  case TD_FLOAT16:                                                             \
    return f<td_f16>(c, &p, to);                                               \
  case TD_BFLOAT16:                                                            \
    return f<td_bf16>(c, &p, to);                                              \
  case TD_FLOAT32:                                                             \
    return f<td_f32>(c, &p, to);                                               \
  default:                                                                     \
    return td_cuda_no_type(c, 0);                                              \
  }

td_status *run_forward(td_kernel_ctx *c) {
  td_lrn p;
  td_tensor *to;
  TD_TRY(td_lrn_of(c, false, &p));
  TD_TRY(td_out(c, 0, &td_in(c, 0)->shape, &to));
  if (td_tensor_count(to) == 0) return nullptr;
  BY_TYPE(forward_of)
}

td_status *run_grad(td_kernel_ctx *c) {
  td_lrn p;
  td_tensor *to;
  TD_TRY(td_lrn_of(c, true, &p));
  TD_TRY(td_out(c, 0, &td_in(c, 1)->shape, &to));
  if (td_tensor_count(to) == 0) return nullptr;
  BY_TYPE(backward_of)
}

const td_kernel_def kernels[] = {
    {.op = "LRN", .device = "CUDA", .run = run_forward},
    {.op = "LRNGrad", .device = "CUDA", .run = run_grad},
    {},
};

} // namespace

TD_CUDA_MODULE(lrn, kernels)
