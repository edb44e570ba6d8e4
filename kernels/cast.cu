/* cast.cu - one dtype to another, on a card; as in cast.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

namespace {

/* ---- one number ---------------------------------------------------------- */

/* What is left of an element when only a number can be kept. */
template <class T> __device__ inline typename td_num<T>::in number(T x) {
  return td_num<T>::load(x);
}
template <class R> __device__ inline R number(td_complex<R> x) {
  return x.re;
}

/* A float that does not fit becomes the nearest integer there is, NaN 0. */
template <class T, class F> __device__ inline T saturated(F x) {
  constexpr int bits = 8 * (int)sizeof(T);
  const F half = (F)(1ull << (bits - 1));
  const F high = td_num_signed<T> ? half : 2 * half;
  const F low = td_num_signed<T> ? -half : (F)0;
  const T least = td_num_signed<T> ? (T)((T)1 << (bits - 1)) : (T)0;
  if (x >= high) return (T)~least;
  if (x < low) return least;
  return x == x ? (T)x : (T)0;
}

struct bool_tag {
  uint8_t is;
};

template <class T> struct into {
  template <class X> static __device__ inline T of(X x) {
    if constexpr ((X)0.5 != (X)0)
      return saturated<T, X>(x);
    else
      return (T)x;
  }
};
#define INTO(T, ...)                                                           \
  template <> struct into<T> {                                                 \
    template <class X> static __device__ inline T of(X x) {                    \
      return __VA_ARGS__;                                                      \
    }                                                                          \
  };
INTO(float, (float)x)
INTO(double, (double)x)
INTO(td_half, td_num<td_half>::store((float)x))
INTO(td_bfloat, td_num<td_bfloat>::store((float)x))
INTO(bool_tag, bool_tag{(uint8_t)(x != 0)})
INTO(td_c64, td_c64((float)x))
INTO(td_c128, td_c128((double)x))

/* Clears bits the result has no room for, so that nothing is rounded. */
__device__ inline float dropped(float x, int bits) {
  return __uint_as_float(__float_as_uint(x) & ~0u << bits);
}
__device__ inline double dropped(double x, int bits) {
  return __longlong_as_double(__double_as_longlong(x) & ~0ll << bits);
}

/* ---- kernels ------------------------------------------------------------- */

/* x and y may be one. */
template <class S, class D>
__global__ void cast(int64_t n, int drop, const S *x, D *y) {
  TD_EACH(i, n) {
    auto v = number(x[i]);
    if constexpr ((decltype(v))0.5 != (decltype(v))0)
      if (drop) v = dropped(v, drop);
    y[i] = into<D>::of(v);
  }
}
template <class S, class D>
__global__ void cast_complex(int64_t n, const td_complex<S> *x,
                             td_complex<D> *y) {
  TD_EACH(i, n) y[i] = td_complex<D>(x[i]);
}

struct job {
  int64_t n;
  int drop;
  const void *x;
  void *y;
};

template <class S, class D> td_status *launch(td_kernel_ctx *c, const job *j) {
  return TD_LAUNCH(c, (cast<S, D>), td_cuda_grid(c, j->n), TD_CUDA_BLOCK, 0,
                   j->n, j->drop, (const S *)j->x, (D *)j->y);
}
template <class S, class D>
td_status *launch_complex(td_kernel_ctx *c, const job *j) {
  return TD_LAUNCH(c, (cast_complex<S, D>), td_cuda_grid(c, j->n),
                   TD_CUDA_BLOCK, 0, j->n, (const td_complex<S> *)j->x,
                   (td_complex<D> *)j->y);
}

/* ---- which pair ---------------------------------------------------------- */

/* Integers of a size are stored alike, quantized ones as the plain. */
#define TO(kind, ...)                                                          \
  case TD_ELEMENT_##kind:                                                      \
    return launch<S, td_##kind>(c, j);
template <class S>
td_status *to_any(td_kernel_ctx *c, const job *j, td_dtype to) {
  switch ((int)to) {
    EACH_NUMBERS(TO, )
    HALVES(TO, )
  case TD_BOOL:
    return launch<S, bool_tag>(c, j);
  default:
    return td_cuda_no_type(c, 0);
  }
}

#define FROM(kind, ...)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    return to_any<td_##kind>(c, j, to);
td_status *from_any(td_kernel_ctx *c, const job *j, td_dtype from,
                    td_dtype to) {
  bool single = from == TD_COMPLEX64;
  if (td_dtype_is_complex(from) && td_dtype_is_complex(to))
    return single ? launch_complex<float, double>(c, j)
                  : launch_complex<double, float>(c, j);
  switch ((int)from) {
    EACH_NUMBERS(FROM, )
    HALVES(FROM, )
    FROM(b8, )
  default:
    return td_cuda_no_type(c, 0);
  }
}

td_status *run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  td_dtype from = x->dtype, to = td_ctx_node(c)->out[0].dtype;
  td_tensor *y;
  TD_TRY(td_cast_check(from, to));
  if (from == to) {
    td_out_pass(c, 0, 0);
    return nullptr;
  }
  job j = {td_tensor_count(x), td_cast_drop(c), x->data, nullptr};
  TD_TRY(td_out_like(c, 0, 0, &y));
  j.y = y->data;
  return j.n ? from_any(c, &j, from, to) : nullptr;
}

#define TYPES TYPES_ALL("SrcT") ", " TYPES_ALL("DstT")
#define TYPES_ALL(name)                                                        \
  name "=half|bfloat16|float|double|int32|int64|int8|int16|uint8|uint16|"      \
       "uint32|uint64|complex64|complex128|bool"

const td_kernel_def kernels[] = {
    {.op = "Cast", .device = "CUDA", .types = TYPES, .run = run},
    {},
};

} // namespace

TD_CUDA_MODULE(cast, kernels)
