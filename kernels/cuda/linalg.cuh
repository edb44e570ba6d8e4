/* linalg.cuh - matrices in the last two axes, each by one block of a card.
 *
 * All 256 threads of a block work on one matrix, row after row in memory, and
 * wait for each other between the steps of its method. Elements are computed in
 * an order that the sizes alone decide.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_LINALG_CUH
#define TD_CUDA_LINALG_CUH

#include <limits.h>

#include "kernels/array.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/group.cuh"
#include "kernels/linalg.h"

namespace {

/* A block for each of `count` matrices. More than a grid has are more than
 * there is memory for. count > 0. */
static inline dim3 linalg_grid(int64_t count) {
  return dim3((unsigned)count);
}

/* for (int i = ..): this thread's share of n in a block. */
#define LINALG_EACH(i, n)                                                      \
  for (int i = (int)threadIdx.x; i < (n); i += TD_CUDA_BLOCK)
/* The same of a matrix: a warp has a row. */
#define LINALG_CELLS(i, rows, j, columns)                                      \
  for (int i = (int)threadIdx.x / 32; i < (rows); i += TD_CUDA_BLOCK / 32)     \
    for (int j = (int)threadIdx.x % 32; j < (columns); j += 32)

/* Sizes and places inside of a matrix are ints, as LAPACK's. */
static inline td_status *linalg_check(int64_t m, int64_t n, int64_t k) {
  td_linalg l = {.m = m, .n = n};
  return m > INT_MAX || n > INT_MAX || k > INT_MAX ||
                 (double)m * (double)n > INT_MAX
             ? td_linalg_too_large(&l)
             : nullptr;
}

/* ---- numbers ------------------------------------------------------------- */

template <class T> struct linalg_real {
  typedef T type;
};
template <class R> struct linalg_real<td_complex<R>> {
  typedef R type;
};

template <class T> __device__ inline T linalg_re(T x) {
  return x;
}
template <class R> __device__ inline R linalg_re(td_complex<R> x) {
  return x.re;
}
template <class T> __device__ inline T linalg_im(T) {
  return 0;
}
template <class R> __device__ inline R linalg_im(td_complex<R> x) {
  return x.im;
}
template <class T> __device__ inline T linalg_size(T x) {
  return td_num_abs(x);
}
template <class R> __device__ inline R linalg_size(td_complex<R> x) {
  return td_complex_abs(x);
}
/* From parts; T tells which. */
template <class T, class R> __device__ inline T linalg_from(R re, R im) {
  if constexpr (sizeof(T) == sizeof(R))
    return (T)re;
  else
    return T(re, im);
}

/* `n` elements, `step` apart, over d. Reals are divided once, as by LAPACK:
 * around a division inside of a loop registers are spilled. */
template <class T>
__device__ inline void linalg_over(T *x, int n, int step, T d) {
  LINALG_EACH(i, n) x[i * step] = x[i * step] / d;
}
template <class R>
__device__ inline void linalg_over_real(R *x, int n, int step, R d) {
  R times = 1 / d;
  LINALG_EACH(i, n) x[i * step] *= times;
}
__device__ inline void linalg_over(float *x, int n, int step, float d) {
  linalg_over_real(x, n, step, d);
}
__device__ inline void linalg_over(double *x, int n, int step, double d) {
  linalg_over_real(x, n, step, d);
}

/* ---- memory -------------------------------------------------------------- */

/* Working memory of count x n elements of `size` bytes. */
static inline td_status *linalg_temp(td_kernel_ctx *c, int64_t count, int64_t n,
                                     size_t size, td_tensor *out) {
  td_shape bytes = {.rank = 3, .dim = {count, n, (int64_t)size}};
  TD_TRY(td_array_count(&bytes, nullptr));
  return td_temp(c, TD_UINT8, &bytes, out);
}

#define LINALG_TYPE(kind, fn, ...)                                             \
  case TD_ELEMENT_##kind:                                                      \
    return fn<td_##kind>(__VA_ARGS__);
/* return fn<T>(...) for input 0's dtype. */
#define LINALG_BY_TYPE(c, fn, ...)                                             \
  switch ((int)td_in(c, 0)->dtype) {                                           \
    LINALG_TYPE(f32, fn, __VA_ARGS__)                                          \
    LINALG_TYPE(f64, fn, __VA_ARGS__)                                          \
    LINALG_TYPE(c64, fn, __VA_ARGS__)                                          \
    LINALG_TYPE(c128, fn, __VA_ARGS__)                                         \
  default:                                                                     \
    return td_cuda_no_type(c, 0);                                              \
  }
#define LINALG_TYPES "T=float|double|complex64|complex128"

/* ---- triangles ----------------------------------------------------------- */

/* A matrix, or its conjugated transpose. */
template <class T> struct linalg_matrix {
  const T *from;
  int n; /* columns in memory */
  bool adjoint;
  __device__ inline T at(int i, int j) const {
    return adjoint ? td_num_conj(from[j * n + i]) : from[i * n + j];
  }
};

/* x {n, columns}, the right side, becomes the solution: by its definition, one
 * row after the other. `unit`: there are ones on the diagonal. */
template <class T>
__device__ inline void linalg_substitute(const linalg_matrix<T> &a, int n,
                                         int columns, bool lower, bool unit,
                                         T *x) {
  for (int k = 0; k < n; k++) {
    int row = lower ? k : n - 1 - k, first = lower ? row + 1 : 0;
    int rows = lower ? n - first : row;
    T *done = x + (int64_t)row * columns;
    __syncthreads();
    if (!unit) linalg_over(done, columns, 1, a.at(row, row));
    __syncthreads();
    LINALG_CELLS(i, rows, j, columns)
      x[(int64_t)(first + i) * columns + j] -=
          a.at(first + i, row) * done[j];
  }
  __syncthreads();
}

} // namespace

#endif
