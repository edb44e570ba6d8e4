/* reduce.cu - sums, products, extremes and means along axes, on a card.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"

namespace {

/* ---- what is folded ------------------------------------------------------ */

template <class T> __device__ inline T over(T x, int64_t n) {
  return x / (T)n;
}
template <class R>
__device__ inline td_complex<R> over(td_complex<R> x, int64_t n) {
  return td_complex<R>(x.re / (R)n, x.im / (R)n);
}
/* A sum of integers that wrapped below 0 has no root: 0. */
template <class T> __device__ inline T root(T x) {
  if constexpr (td_num_signed<T>)
    if (x < 0) return 0;
  return (T)sqrt((double)x);
}
template <> __device__ inline float root(float x) {
  return sqrtf(x);
}
template <class R> __device__ inline td_complex<R> root(td_complex<R> x) {
  return td_complex<R>(sqrt(x.re));
}
template <class T> __device__ inline T square(T x) {
  return (T)(x * x);
}
template <class R> __device__ inline td_complex<R> square(td_complex<R> x) {
  return td_complex<R>(x.re * x.re + x.im * x.im);
}

template <class T> struct plain {
  typedef typename td_num<T>::in accumulator;
  static __device__ inline accumulator take(T x, int64_t) {
    return td_num<T>::load(x);
  }
  static __device__ inline T end(accumulator x, int64_t, int) {
    return td_num<T>::store(x);
  }
};

template <class T> struct sum : plain<T> {
  typedef typename td_num<T>::in A;
  static __device__ inline A none() { return A(0); }
  static __device__ inline A join(A x, A y) { return (A)(x + y); }
};
/* Of floats and complex numbers. */
template <class T> struct mean : sum<T> {
  typedef typename td_num<T>::in A;
  static __device__ inline T end(A x, int64_t n, int) {
    return td_num<T>::store(over(x, n));
  }
};
/* Of integers, in 64 bits, rounded toward 0; of nothing 0. */
template <class T> struct whole_mean {
  typedef int64_t accumulator;
  static __device__ inline int64_t none() { return 0; }
  static __device__ inline int64_t take(T x, int64_t) { return (int64_t)x; }
  static __device__ inline int64_t join(int64_t x, int64_t y) {
    return (int64_t)((uint64_t)x + (uint64_t)y);
  }
  static __device__ inline T end(int64_t x, int64_t n, int) {
    if (n == 0) return 0;
    return td_num_signed<T> ? (T)(x / n) : (T)((uint64_t)x / (uint64_t)n);
  }
};
template <class T> struct prod : plain<T> {
  typedef typename td_num<T>::in A;
  static __device__ inline A none() { return A(1); }
  static __device__ inline A join(A x, A y) { return (A)(x * y); }
};
template <class T> struct norm : sum<T> {
  typedef typename td_num<T>::in A;
  static __device__ inline A take(T x, int64_t) {
    return square(td_num<T>::load(x));
  }
  static __device__ inline T end(A x, int64_t, int) {
    return td_num<T>::store(root(x));
  }
};

/* The ends of what T can be. */
template <class T> __device__ inline T least() {
  return td_num_signed<T> ? (T)((T)1 << (8 * sizeof(T) - 1)) : (T)0;
}
template <> __device__ inline float least() {
  return -INFINITY;
}
template <> __device__ inline double least() {
  return -INFINITY;
}
template <class T> __device__ inline T most() {
  return (T)~least<T>();
}
template <> __device__ inline float most() {
  return INFINITY;
}
template <> __device__ inline double most() {
  return INFINITY;
}
template <class T_> struct max_of : plain<T_> {
  typedef typename td_num<T_>::in T;
  static __device__ inline T none() { return least<T>(); }
  static __device__ inline T join(T x, T y) { return td_num_max(x, y); }
};
template <class T_> struct min_of : plain<T_> {
  typedef typename td_num<T_>::in T;
  static __device__ inline T none() { return most<T>(); }
  static __device__ inline T join(T x, T y) { return td_num_min(x, y); }
};
/* Of bools, 0 or 1. */
struct any : max_of<td_b8> {};
struct every : min_of<td_b8> {
  static __device__ inline td_b8 none() { return 1; }
};

/* ---- kernels ------------------------------------------------------------- */

template <class Op, class T> td_status *run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  bool folded[TD_MAX_RANK];
  td_reduce_plan plan;
  td_tensor *y;
  TD_TRY(td_reduce_axes(td_in(c, 1), x->shape.rank, folded));
  bool keep = td_node_bool(td_ctx_node(c), "keep_dims");
  td_shape shape = td_reduce_shape(&x->shape, folded, keep);
  TD_TRY(td_out(c, 0, &shape, &y));
  td_reduce_plan_of(&x->shape, folded, &plan);
  return td_cuda_fold_all<Op, T, T>(c, &plan, 0, td_cuda_at<const T>(x),
                                    td_cuda_at<T>(y));
}

#define CASE(kind, op)                                                         \
  case TD_ELEMENT_##kind:                                                      \
    return run<op<td_##kind>, td_##kind>(c);
#define RUN(name, cases)                                                       \
  td_status *name(td_kernel_ctx *c) {                                          \
    switch ((int)td_in(c, 0)->dtype) {                                         \
      cases default : return td_cuda_no_type(c, 0);                            \
    }                                                                          \
  }
RUN(run_sum, EACH_NUMBERS(CASE, sum) HALVES(CASE, sum))
RUN(run_prod, EACH_NUMBERS(CASE, prod) HALVES(CASE, prod))
RUN(run_mean, EACH_FLOATS_C(CASE, mean) HALVES(CASE, mean)
                  EACH_INTS(CASE, whole_mean))
RUN(run_max, EACH_REALS(CASE, max_of) HALVES(CASE, max_of))
RUN(run_min, EACH_REALS(CASE, min_of) HALVES(CASE, min_of))
RUN(run_norm, EACH_NUMBERS(CASE, norm) HALVES(CASE, norm))

/* ---- rows ---------------------------------------------------------------- */

const td_kernel_def kernels[] = {
    {.op = "Sum", .device = "CUDA", .types = TYPES_NUMBERS, .run = run_sum},
    {.op = "Prod", .device = "CUDA", .types = TYPES_NUMBERS, .run = run_prod},
    {.op = "Mean", .device = "CUDA", .types = TYPES_NUMBERS, .run = run_mean},
    {.op = "Max", .device = "CUDA", .types = TYPES_REALS, .run = run_max},
    {.op = "Min", .device = "CUDA", .types = TYPES_REALS, .run = run_min},
    {.op = "All", .device = "CUDA", .run = run<every, td_b8>},
    {.op = "Any", .device = "CUDA", .run = run<any, td_b8>},
    {.op = "EuclideanNorm",
     .device = "CUDA",
     .types = TYPES_NUMBERS,
     .run = run_norm},
    {},
};

} // namespace

TD_CUDA_MODULE(reduce, kernels)
