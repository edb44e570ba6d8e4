/* argmax.cu - where along an axis the largest or smallest element stands, on a
 * card. Ties, NaN and halves as in argmax.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"

namespace {

template <class V> struct found {
  V is;
  int64_t at;
};

template <class V> __device__ inline V worst(bool least) {
  if constexpr ((V)0.5 != (V)0) {
    return least ? (V)INFINITY : (V)-INFINITY;
  } else {
    V low = td_num_signed<V> ? (V)((V)1 << (8 * sizeof(V) - 1)) : (V)0;
    return least ? (V)~low : low;
  }
}

/* A NaN is the worst there is: any number beats it, and none is beaten. */
template <class T, bool least> struct best {
  typedef typename td_num<T>::in V;
  typedef found<V> accumulator;
  static __device__ inline accumulator none() {
    return accumulator{worst<V>(least), INT64_MAX};
  }
  static __device__ inline accumulator take(T x, int64_t line) {
    V v = td_num<T>::load(x);
    return accumulator{v == v ? v : worst<V>(least), line};
  }
  static __device__ inline accumulator join(accumulator x, accumulator y) {
    bool wins = least ? y.is < x.is : y.is > x.is;
    return wins || (y.is == x.is && y.at < x.at) ? y : x;
  }
  static __device__ inline int64_t end(accumulator x, int64_t, int) {
    return x.at;
  }
};

template <class R> __global__ void narrow(int64_t n, const int64_t *x, R *y) {
  TD_EACH(i, n) y[i] = (R)x[i];
}
template <class R>
td_status *narrowed(td_kernel_ctx *c, int64_t n, const td_tensor *x,
                    td_tensor *y) {
  return TD_LAUNCH(c, (narrow<R>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   td_cuda_at<const int64_t>(x), td_cuda_at<R>(y));
}

typedef td_status *(*search)(td_kernel_ctx *c, const td_reduce_plan *p,
                             int64_t *y);

template <class T, bool least>
td_status *searched(td_kernel_ctx *c, const td_reduce_plan *p, int64_t *y) {
  return td_cuda_fold_all<best<T, least>, T, int64_t>(
      c, p, 0, td_cuda_at<const T>(td_in(c, 0)), y);
}

td_reduce_plan plan_of(const td_along *a) {
  td_reduce_plan p = {};
  p.groups = a->outer;
  p.blocks = 1;
  p.rows = a->n;
  p.width = a->inner;
  p.n_kept = 1;
  p.kept_size[0] = a->outer;
  p.kept_step[0] = a->n * a->inner;
  return p;
}

/* In 64 bits, then as the output wants it. */
td_status *run(td_kernel_ctx *c, search go) {
  td_along a;
  td_shape shape;
  td_tensor *y, wide;
  TD_TRY(td_argmax_check(c, &a, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  int64_t n = td_tensor_count(y);
  td_reduce_plan p = plan_of(&a);
  if (n == 0) return nullptr;
  if (y->dtype == TD_INT64) return go(c, &p, td_cuda_at<int64_t>(y));
  TD_TRY(td_temp(c, TD_INT64, &shape, &wide));
  td_status *s = go(c, &p, td_cuda_at<int64_t>(&wide));
  if (td_ok(s))
    s = y->dtype == TD_INT32 ? narrowed<int32_t>(c, n, &wide, y)
                             : narrowed<int16_t>(c, n, &wide, y);
  td_tensor_release(&wide);
  return s;
}

#define CASE(kind, least)                                                      \
  case TD_ELEMENT_##kind:                                                      \
    return run(c, searched<td_##kind, least>);
#define RUN(name, least)                                                       \
  td_status *name(td_kernel_ctx *c) {                                          \
    switch ((int)td_in(c, 0)->dtype) {                                         \
      EACH_REALS(CASE, least) HALVES(CASE, least) case TD_BOOL                 \
          : return run(c, searched<td_u8, least>);                             \
    default:                                                                   \
      return td_cuda_no_type(c, 0);                                            \
    }                                                                          \
  }
RUN(run_max, false)
RUN(run_min, true)

const td_kernel_def kernels[] = {
    {.op = "ArgMax",
     .device = "CUDA",
     .types = TYPES_REALS "|bool",
     .run = run_max},
    {.op = "ArgMin",
     .device = "CUDA",
     .types = TYPES_REALS "|bool",
     .run = run_min},
    {},
};

} // namespace

TD_CUDA_MODULE(argmax, kernels)
