/* batch_norm_global.cu - BatchNormWithGlobalNormalization and its gradient on a
 * card, computed in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/batch_norm_plan.h"
#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/element.cuh"

namespace {

template <class T> struct vectors {
  const T *m, *v, *beta, *gamma;
  double epsilon;
  bool scale;

  __device__ inline double slope(int64_t k) const {
    double r = 1 / sqrt((double)td_num<T>::load(v[k]) + epsilon);
    return scale ? r * (double)td_num<T>::load(gamma[k]) : r;
  }
};

template <class T> __device__ inline T rounded(double x) {
  return td_num<T>::store((typename td_num<T>::in)x);
}

template <class T>
__global__ void forward(int64_t n, td_channels s, vectors<T> v, const T *t,
                        T *to) {
  TD_EACH(i, n) {
    int64_t k = s.of(i);
    double far = (double)td_num<T>::load(t[i]) - (double)td_num<T>::load(v.m[k]);
    to[i] = rounded<T>(far * v.slope(k) + (double)td_num<T>::load(v.beta[k]));
  }
}

template <class T>
__global__ void spread(int64_t n, td_channels s, vectors<T> v, const T *dy,
                       T *to) {
  TD_EACH(i, n)
    to[i] = rounded<T>((double)td_num<T>::load(dy[i]) * v.slope(s.of(i)));
}

/* Gradients of m, v, beta and gamma. */
template <class T> struct dots {
  typedef double sum;
  static constexpr int sums = 2;
  vectors<T> v;
  const T *t, *dy;
  T *dm, *dv, *dbeta, *dgamma;

  __device__ inline void add(int64_t at, int64_t k, sum *s) const {
    double g = (double)td_num<T>::load(dy[at]);
    s[0] += g;
    s[1] += g * ((double)td_num<T>::load(t[at]) -
                 (double)td_num<T>::load(v.m[k]));
  }
  __device__ inline void end(int64_t k, const sum *s) const {
    double slope = v.slope(k);
    double inverse = 1 / ((double)td_num<T>::load(v.v[k]) + v.epsilon);
    dm[k] = rounded<T>(-s[0] * slope);
    dv[k] = rounded<T>(-0.5 * s[1] * slope * inverse);
    dbeta[k] = rounded<T>(s[0]);
    dgamma[k] = rounded<T>(v.scale ? s[1] * sqrt(inverse) : 0);
  }
};

template <class T>
vectors<T> vectors_of(const td_kernel_ctx *c, const T *beta, int gamma) {
  const td_node *n = td_ctx_node(c);
  return {td_cuda_at<const T>(td_in(c, 1)),
          td_cuda_at<const T>(td_in(c, 2)),
          beta,
          td_cuda_at<const T>(td_in(c, gamma)),
          (double)td_node_float(n, "variance_epsilon"),
          td_node_bool(n, "scale_after_normalization")};
}

td_channels channels_in(const td_shape *t) {
  return channels_of(td_shape_span(t, 0, 3), t->dim[3], 1);
}

template <class T> td_status *forward_of(td_kernel_ctx *c) {
  const td_tensor *t = td_in(c, 0);
  td_tensor *y;
  TD_TRY(td_batch_norm_global_of(c, false));
  TD_TRY(td_out(c, 0, &t->shape, &y));
  int64_t n = td_tensor_count(y);
  if (n == 0) return nullptr;
  vectors<T> v = vectors_of<T>(c, td_cuda_at<const T>(td_in(c, 3)), 4);
  return TD_LAUNCH(c, (forward<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   channels_in(&t->shape), v, td_cuda_at<const T>(t),
                   td_cuda_at<T>(y));
}

template <class T> td_status *gradient_of(td_kernel_ctx *c) {
  const td_tensor *t = td_in(c, 0);
  td_tensor *out[5];
  TD_TRY(td_batch_norm_global_of(c, true));
  TD_TRY(td_out(c, 0, &t->shape, &out[0]));
  for (int i = 1; i < 5; i++)
    TD_TRY(td_out(c, i, &td_in(c, 1)->shape, &out[i]));
  vectors<T> v = vectors_of<T>(c, nullptr, 3);
  const T *dy = td_cuda_at<const T>(td_in(c, 4));
  dots<T> f = {v,
               td_cuda_at<const T>(t),
               dy,
               td_cuda_at<T>(out[1]),
               td_cuda_at<T>(out[2]),
               td_cuda_at<T>(out[3]),
               td_cuda_at<T>(out[4])};
  td_channels s = channels_in(&t->shape);
  TD_TRY(channels_run(c, s, f));
  int64_t n = td_tensor_count(t);
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (spread<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, s,
                   v, dy, td_cuda_at<T>(out[0]));
}

#define BY_TYPE(f)                                                             \
  switch ((int)td_in(c, 0)->dtype) {                                           \
  case TD_FLOAT16:                                                             \
    return f<td_f16>(c);                                                       \
  case TD_BFLOAT16:                                                            \
    return f<td_bf16>(c);                                                      \
  case TD_FLOAT32:                                                             \
    return f<td_f32>(c);                                                       \
  case TD_FLOAT64:                                                             \
    return f<td_f64>(c);                                                       \
  default:                                                                     \
    return td_cuda_no_type(c, 0);                                              \
  }

td_status *run(td_kernel_ctx *c) {
  BY_TYPE(forward_of)
}
td_status *run_grad(td_kernel_ctx *c) {
  BY_TYPE(gradient_of)
}

#define ROW(more, run_)                                                        \
  {.op = "BatchNormWithGlobalNormalization" more,                              \
   .device = "CUDA",                                                           \
   .types = TYPES_FLOATS,                                                      \
   .run = run_}

const td_kernel_def kernels[] = {
    ROW("", run),
    ROW("Grad", run_grad),
    {},
};

} // namespace

TD_CUDA_MODULE(batch_norm_global, kernels)
