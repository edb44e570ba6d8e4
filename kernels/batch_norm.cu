/* batch_norm.cu - FusedBatchNorm and its gradient on a card.
 *
 * In training x is read three times: for its mean, for the squares of the
 * distances from it, and for the result; what a channel multiplies and adds is
 * in `fields` by then. The gradient reads dy and x twice.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/batch_norm_plan.h"
#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/element.cuh"

namespace {

/* Vectors of a run: operands, results, and fields of each channel. */
struct vectors {
  const float *scale, *offset, *old_mean, *old_variance;
  float *mean, *variance, *saved_mean, *saved_variance;
  float *center, *slope, *shift, *bend;
  double n, epsilon; /* n: elements of a channel */
  float factor;
  bool training;
};

/* ---- forward ------------------------------------------------------------- */

template <class T> struct sum_of {
  typedef double sum;
  static constexpr int sums = 1;
  const T *x;
  vectors v;

  __device__ inline void add(int64_t at, int64_t, sum *s) const {
    s[0] += (double)td_num<T>::load(x[at]);
  }
  __device__ inline void end(int64_t k, const sum *s) const {
    v.saved_mean[k] = (float)(s[0] / (v.n > 0 ? v.n : 1));
    v.center[k] = v.saved_mean[k];
  }
};

/* What moving averages take; of no elements it is not a number. */
__device__ inline void average(const vectors &v, int64_t k) {
  double more = v.n > 1 ? v.n / (v.n - 1) : 1;
  float mean = v.saved_mean[k], rest = 1.0f - v.factor;
  float variance = (float)((double)v.saved_variance[k] * more);
  if (v.factor != 1.0f) {
    mean = rest * v.old_mean[k] + v.factor * mean;
    variance = rest * v.old_variance[k] + v.factor * variance;
  }
  v.mean[k] = v.n > 0 ? mean : NAN;
  v.variance[k] = v.n > 0 ? variance : NAN;
}

__device__ inline void set_slope(const vectors &v, int64_t k, float variance) {
  v.slope[k] = (float)((double)v.scale[k] / sqrt((double)variance + v.epsilon));
}

template <class T> struct squares_of {
  typedef double sum;
  static constexpr int sums = 1;
  const T *x;
  vectors v;

  __device__ inline void add(int64_t at, int64_t k, sum *s) const {
    float far = td_num<T>::load(x[at]) - v.center[k];
    s[0] += (double)(far * far);
  }
  __device__ inline void end(int64_t k, const sum *s) const {
    v.saved_variance[k] = (float)(s[0] / (v.n > 0 ? v.n : 1));
    average(v, k);
    set_slope(v, k, v.saved_variance[k]);
  }
};

/* Nothing is saved outside training: the gradient takes mean and variance. */
__global__ void echo(int64_t channels, vectors v) {
  TD_EACH(k, channels) {
    v.center[k] = v.old_mean[k];
    set_slope(v, k, v.old_variance[k]);
    v.mean[k] = v.n > 0 ? v.old_mean[k] : NAN;
    v.variance[k] = v.n > 0 ? v.old_variance[k] : NAN;
    v.saved_mean[k] = v.saved_variance[k] = 0;
  }
}

template <class T>
__global__ void apply(int64_t n, td_channels s, vectors v, const T *x, T *y) {
  TD_EACH(i, n) {
    int64_t k = s.of(i);
    y[i] = td_num<T>::store((td_num<T>::load(x[i]) - v.center[k]) * v.slope[k] +
                            v.offset[k]);
  }
}

/* ---- gradient ------------------------------------------------------------ */

template <class T> struct dots_of {
  typedef double sum;
  static constexpr int sums = 2;
  const T *dy, *x;
  vectors v; /* mean and variance: gradients of offset and scale */

  __device__ inline void add(int64_t at, int64_t k, sum *s) const {
    float g = td_num<T>::load(dy[at]);
    s[0] += (double)g;
    s[1] += (double)(g * (td_num<T>::load(x[at]) - v.old_mean[k]));
  }
  __device__ inline void end(int64_t k, const sum *s) const {
    double n = v.n > 0 ? v.n : 1;
    double r = 1 / sqrt((double)v.old_variance[k] + v.epsilon);
    v.mean[k] = (float)s[0];
    v.variance[k] = (float)(s[1] * r);
    v.center[k] = v.old_mean[k];
    v.slope[k] = (float)((double)v.scale[k] * r);
    v.shift[k] = v.training ? (float)(s[0] / n) : 0;
    v.bend[k] = v.training ? (float)(s[1] * r * r / n) : 0;
  }
};

template <class T>
__global__ void back(int64_t n, td_channels s, vectors v, const T *dy,
                     const T *x, T *dx) {
  TD_EACH(i, n) {
    int64_t k = s.of(i);
    float g = td_num<T>::load(dy[i]);
    if (v.training)
      g -= v.shift[k] + (td_num<T>::load(x[i]) - v.center[k]) * v.bend[k];
    dx[i] = td_num<T>::store(v.slope[k] * g);
  }
}

/* ---- running ------------------------------------------------------------- */

const float *vector_in(const td_kernel_ctx *c, int i) {
  return td_cuda_at<const float>(td_in(c, i));
}

td_status *vector_out(td_kernel_ctx *c, int i, int64_t n, float **to) {
  td_shape shape = td_shape_vector(n);
  td_tensor *t;
  TD_TRY(td_out(c, i, &shape, &t));
  *to = td_cuda_at<float>(t);
  return nullptr;
}

/* Working memory for what is known of each channel. */
td_status *make_fields(td_kernel_ctx *c, const td_batch_norm_plan *p,
                       vectors *v, td_tensor *memory) {
  td_shape shape = td_shape_matrix(4, p->channels);
  TD_TRY(td_temp(c, TD_FLOAT32, &shape, memory));
  v->center = td_cuda_at<float>(memory);
  v->slope = v->center + p->channels;
  v->shift = v->slope + p->channels;
  v->bend = v->shift + p->channels;
  v->n = (double)p->outer * (double)p->inner;
  v->epsilon = p->epsilon;
  v->factor = p->factor;
  v->training = p->training;
  return nullptr;
}

td_status *make_forward(td_kernel_ctx *c, const td_batch_norm_plan *p,
                        vectors *v) {
  const td_tensor *x = td_in(c, 0);
  td_shape none = td_batch_norm_reserved(x->dtype, x->shape.rank);
  td_tensor *t;
  v->scale = vector_in(c, 1);
  v->offset = vector_in(c, 2);
  v->old_mean = vector_in(c, 3);
  v->old_variance = vector_in(c, 4);
  TD_TRY(vector_out(c, 1, p->channels, &v->mean));
  TD_TRY(vector_out(c, 2, p->channels, &v->variance));
  TD_TRY(vector_out(c, 3, p->channels, &v->saved_mean));
  TD_TRY(vector_out(c, 4, p->channels, &v->saved_variance));
  if (c->n_out < 6) return nullptr;
  TD_TRY(td_out(c, 5, &none, &t));
  if (td_tensor_bytes(t) == 0) return nullptr;
  return td_cuda_ok(
      cudaMemsetAsync(t->data, 0, td_tensor_bytes(t), td_cuda_stream(c)),
      "zeros");
}

template <class T>
td_status *forward(td_kernel_ctx *c, const td_batch_norm_plan *p,
                   const vectors &v) {
  td_tensor *y, x = *td_in(c, 0); /* the buffer may become the output's */
  td_channels s = channels_of(p->outer, p->channels, p->inner);
  const T *from = td_cuda_at<const T>(&x);
  TD_TRY(td_out_forward(c, 0, &x.shape, 0, -1, &y));
  if (p->channels == 0) return nullptr;
  if (p->training) {
    TD_TRY(channels_run(c, s, sum_of<T>{from, v}));
    TD_TRY(channels_run(c, s, squares_of<T>{from, v}));
  } else {
    TD_TRY(TD_LAUNCH(c, echo, td_cuda_grid(c, p->channels), TD_CUDA_BLOCK, 0,
                     p->channels, v));
  }
  int64_t n = td_tensor_count(y);
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (apply<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, s, v,
                   from, td_cuda_at<T>(y));
}

template <class T>
td_status *gradient(td_kernel_ctx *c, const td_batch_norm_plan *p,
                    const vectors &v) {
  td_tensor *dx, dy = *td_in(c, 0);
  td_channels s = channels_of(p->outer, p->channels, p->inner);
  const T *from = td_cuda_at<const T>(&dy);
  const T *x = td_cuda_at<const T>(td_in(c, 1));
  TD_TRY(td_out_forward(c, 0, &dy.shape, 0, -1, &dx));
  TD_TRY(channels_run(c, s, dots_of<T>{from, x, v}));
  int64_t n = td_tensor_count(dx);
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (back<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, s, v,
                   from, x, td_cuda_at<T>(dx));
}

#define BY_TYPE(f)                                                             \
  switch ((int)td_in(c, 0)->dtype) {                                           \
  case TD_FLOAT16:                                                             \
    return f<td_f16>(c, p, v);                                                 \
  case TD_BFLOAT16:                                                            \
    return f<td_bf16>(c, p, v);                                                \
  case TD_FLOAT32:                                                             \
    return f<td_f32>(c, p, v);                                                 \
  default:                                                                     \
    return td_cuda_no_type(c, 0);                                              \
  }

td_status *forward_by(td_kernel_ctx *c, const td_batch_norm_plan *p,
                      const vectors &v) {
  BY_TYPE(forward)
}

td_status *gradient_by(td_kernel_ctx *c, const td_batch_norm_plan *p,
                       const vectors &v) {
  BY_TYPE(gradient)
}

td_status *run_forward(td_kernel_ctx *c) {
  td_batch_norm_plan p = {};
  td_tensor memory = {};
  vectors v = {};
  TD_TRY(td_batch_norm_forward_of(c, &p));
  TD_TRY(make_forward(c, &p, &v));
  td_status *s = make_fields(c, &p, &v, &memory);
  if (td_ok(s)) s = forward_by(c, &p, v);
  td_tensor_release(&memory);
  return s;
}

td_status *run_grad(td_kernel_ctx *c) {
  td_batch_norm_plan p = {};
  td_tensor memory = {};
  vectors v = {};
  float *none;
  TD_TRY(td_batch_norm_grad_of(c, &p));
  v.scale = vector_in(c, 2);
  v.old_mean = vector_in(c, 3);
  v.old_variance = vector_in(c, 4);
  TD_TRY(vector_out(c, 1, p.channels, &v.variance));
  TD_TRY(vector_out(c, 2, p.channels, &v.mean));
  TD_TRY(vector_out(c, 3, 0, &none));
  TD_TRY(vector_out(c, 4, 0, &none));
  td_status *s = make_fields(c, &p, &v, &memory);
  if (td_ok(s)) s = gradient_by(c, &p, v);
  td_tensor_release(&memory);
  return s;
}

#define MIXED "T=half|bfloat16|float, U=float"
#define ROW(op_, types_, run_)                                                 \
  {.op = op_, .device = "CUDA", .types = types_, .run = run_}

const td_kernel_def kernels[] = {
    ROW("FusedBatchNorm", nullptr, run_forward),
    ROW("FusedBatchNormV2", MIXED, run_forward),
    ROW("FusedBatchNormV3", MIXED, run_forward),
    ROW("FusedBatchNormGrad", nullptr, run_grad),
    ROW("FusedBatchNormGradV2", MIXED, run_grad),
    ROW("FusedBatchNormGradV3", MIXED, run_grad),
    {},
};

} // namespace

TD_CUDA_MODULE(batch_norm, kernels)
