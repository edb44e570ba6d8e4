/* ternary.cu - element-wise ops of three operands on a card, and those of two
 * that are not in binary.def: ClipByValue, Betainc, ApproximateEqual, Cross.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cuda/broadcast.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/special.cuh"

namespace {

enum { OPERANDS = 3 };

/* ---- ClipByValue, Betainc ------------------------------------------------ */

/* A bound that is NaN bounds nothing. */
struct clip {
  template <class T> static __device__ inline T of(T x, T low, T high) {
    if (high < x) x = high;
    return x < low ? low : x;
  }
  template <class R>
  static __device__ inline td_complex<R> of(td_complex<R> x, td_complex<R> low,
                                            td_complex<R> high) {
    return td_complex<R>(of(x.re, low.re, high.re), of(x.im, low.im, high.im));
  }
};
struct betainc {
  template <class T> static __device__ inline T of(T a, T b, T x) {
    return (T)td_special_betainc(a, b, x);
  }
};

template <class F, class T>
__global__ void each(int64_t n, td_cuda_walk<OPERANDS> w, const T *x,
                     const T *y, const T *z, T *to) {
  TD_EACH(i, n) {
    int64_t at[OPERANDS];
    td_cuda_walk_to(w, i, at);
    to[i] = td_num<T>::store(F::of(td_num<T>::load(x[at[0]]),
                                   td_num<T>::load(y[at[1]]),
                                   td_num<T>::load(z[at[2]])));
  }
}

template <class F, class T> td_status *launch(td_kernel_ctx *c, bool is_clip) {
  const T *in[OPERANDS];
  td_broadcast plan;
  td_shape shape;
  td_tensor *y;
  TD_TRY(td_ternary_check(c, is_clip, &plan, &shape));
  for (int k = 0; k < OPERANDS; k++) in[k] = td_cuda_at<const T>(td_in(c, k));
  TD_TRY(td_out_forward(c, 0, &shape, 0, 1, &y));
  if (plan.count == 0) return nullptr;
  return TD_LAUNCH(c, (each<F, T>), td_cuda_grid(c, plan.count), TD_CUDA_BLOCK,
                   0, plan.count, td_cuda_walk_of<OPERANDS>(&plan), in[0],
                   in[1], in[2], td_cuda_at<T>(y));
}

#define CASE(kind, name)                                                       \
  case TD_ELEMENT_##kind:                                                      \
    return launch<name, td_##kind>(c, true);
td_status *run_clip(td_kernel_ctx *c) {
  switch ((int)td_in(c, 0)->dtype) {
    EACH_NUMBERS(CASE, clip)
    HALVES(CASE, clip)
  default:
    return td_cuda_no_type(c, 0);
  }
}
#undef CASE

td_status *run_betainc(td_kernel_ctx *c) {
  if (td_in(c, 0)->dtype == TD_FLOAT64)
    return launch<betainc, double>(c, false);
  return launch<betainc, float>(c, false);
}

/* ---- ApproximateEqual ---------------------------------------------------- */

template <class T>
__global__ void near(int64_t n, T tolerance, const T *x, const T *y,
                     td_b8 *z) {
  TD_EACH(i, n) z[i] = td_num_abs(x[i] - y[i]) <= tolerance;
}

template <class T> td_status *run_near(td_kernel_ctx *c) {
  td_tensor *z;
  TD_TRY(td_approximate_check(c));
  TD_TRY(td_out(c, 0, &td_in(c, 0)->shape, &z));
  int64_t n = td_tensor_count(z);
  T tolerance = (T)td_node_float(td_ctx_node(c), "tolerance");
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (near<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   tolerance, td_cuda_at<const T>(td_in(c, 0)),
                   td_cuda_at<const T>(td_in(c, 1)), td_cuda_at<td_b8>(z));
}

/* ---- Cross --------------------------------------------------------------- */

/* y may be a or b: a vector is read before it is written. */
template <class T>
__global__ void cross(int64_t n, const T *a, const T *b, T *y) {
  typedef td_num<T> num;
  TD_EACH(k, n) {
    auto p0 = num::load(a[3 * k]), p1 = num::load(a[3 * k + 1]);
    auto p2 = num::load(a[3 * k + 2]), q0 = num::load(b[3 * k]);
    auto q1 = num::load(b[3 * k + 1]), q2 = num::load(b[3 * k + 2]);
    y[3 * k] = num::store((typename num::in)(p1 * q2 - p2 * q1));
    y[3 * k + 1] = num::store((typename num::in)(p2 * q0 - p0 * q2));
    y[3 * k + 2] = num::store((typename num::in)(p0 * q1 - p1 * q0));
  }
}

template <class T> td_status *launch_cross(td_kernel_ctx *c) {
  const T *a = td_cuda_at<const T>(td_in(c, 0));
  const T *b = td_cuda_at<const T>(td_in(c, 1));
  td_shape shape;
  td_tensor *y;
  TD_TRY(td_cross_check(c, &shape));
  TD_TRY(td_out_forward(c, 0, &shape, 0, 1, &y));
  int64_t n = td_tensor_count(y) / 3;
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (cross<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, a, b,
                   td_cuda_at<T>(y));
}

#define CASE(kind, ...)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    return launch_cross<td_##kind>(c);
td_status *run_cross(td_kernel_ctx *c) {
  switch ((int)td_in(c, 0)->dtype) {
    EACH_REALS(CASE, )
    HALVES(CASE, )
  default:
    return td_cuda_no_type(c, 0);
  }
}
#undef CASE

/* ---- rows ---------------------------------------------------------------- */

const td_kernel_def kernels[] = {
    {.op = "ClipByValue",
     .device = "CUDA",
     .types = TYPES_NUMBERS,
     .run = run_clip},
    {.op = "Betainc",
     .device = "CUDA",
     .types = TYPES_LONG_FLOATS,
     .run = run_betainc},
    {.op = "ApproximateEqual",
     .device = "CUDA",
     .types = "T=float",
     .run = run_near<float>},
    {.op = "ApproximateEqual",
     .device = "CUDA",
     .types = "T=double",
     .run = run_near<double>},
    {.op = "Cross", .device = "CUDA", .types = TYPES_REALS, .run = run_cross},
    {},
};

} // namespace

TD_CUDA_MODULE(ternary, kernels)
