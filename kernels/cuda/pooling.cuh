/* pooling.cuh - windows that slide over images, as kernels on a card see them.
 *
 * Every layout is [outer, three axes, inner], as in pooling.h. A gradient is
 * made by who receives it: an element asks the windows it lies in, in their
 * order, so that sums have the same bits every time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_POOLING_CUH
#define TD_CUDA_POOLING_CUH

#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/pooling.h"

namespace {

struct pool_sizes {
  td_divider in[3], out[3], inner, stride[3];
  int64_t window[3], before[3];
};

static inline pool_sizes pool_sizes_of(const td_pooling *p) {
  pool_sizes s = {};
  s.inner = td_divider_by(p->inner);
  for (int i = 0; i < 3; i++) {
    const td_pooling_axis *a = &p->axis[i];
    s.in[i] = td_divider_by(a->in);
    s.out[i] = td_divider_by(a->out);
    s.stride[i] = td_divider_by(a->stride);
    s.window[i] = a->window;
    s.before[i] = a->before;
  }
  return s;
}

/* An element of the input or the output, by its place in memory. */
struct pool_at {
  int64_t outer, at[3], inner;
};

__device__ inline pool_at pool_where(const td_divider *axes,
                                     const td_divider &inner, int64_t i) {
  pool_at a;
  i = inner.split(i, &a.inner);
  i = axes[2].split(i, &a.at[2]);
  i = axes[1].split(i, &a.at[1]);
  a.outer = axes[0].split(i, &a.at[0]);
  return a;
}

/* Cells [begin, begin + count) of axis k lie under output i. */
__device__ inline int64_t pool_clip(const pool_sizes &s, int k, int64_t i,
                                    int64_t *begin) {
  int64_t from = i * s.stride[k].by - s.before[k], room = s.in[k].by - from;
  int64_t end = from + (room < s.window[k] ? room : s.window[k]);
  *begin = from < 0 ? 0 : from;
  return end > *begin ? end - *begin : 0;
}

/* The window of an output; its cells are numbered in the order of memory. */
struct pool_window {
  int64_t begin[3], count[3];
};

__device__ inline pool_window pool_window_of(const pool_sizes &s,
                                             const int64_t *output) {
  pool_window w;
  for (int k = 0; k < 3; k++)
    w.count[k] = pool_clip(s, k, output[k], &w.begin[k]);
  return w;
}

/* Element of the input of a cell. */
__device__ inline int64_t pool_cell(const pool_sizes &s, int64_t outer,
                                    int64_t d, int64_t h, int64_t v) {
  return ((outer * s.in[0].by + d) * s.in[1].by + h) * s.in[2].by + v;
}

/* f(number, element of the input) for each cell of an output's window. */
template <class F>
__device__ inline void pool_cells(const pool_sizes &s, const pool_at &a,
                                  const pool_window &w, F f) {
  int32_t number = 0;
  for (int64_t d = 0; d < w.count[0]; d++)
    for (int64_t h = 0; h < w.count[1]; h++) {
      int64_t row = pool_cell(s, a.outer, w.begin[0] + d, w.begin[1] + h,
                              w.begin[2]) *
                        s.inner.by +
                    a.inner;
      for (int64_t v = 0; v < w.count[2]; v++, number++)
        f(number, row + v * s.inner.by);
    }
}

/* Outputs [begin, end) of axis k have a cell in their window. */
__device__ inline void pool_range(const pool_sizes &s, int k, int64_t cell,
                                  int64_t *begin, int64_t *end) {
  int64_t far = cell + s.before[k], first = far - s.window[k];
  *begin = first < 0 ? 0 : s.stride[k].quotient(first) + 1;
  *end = s.stride[k].quotient(far) + 1;
  if (*end > s.out[k].by) *end = s.out[k].by;
}

/* f(element of the output, its window) for each window that an element of the
 * input lies in, in the order of outputs. */
template <class F>
__device__ inline void pool_windows(const pool_sizes &s, const pool_at &a,
                                    F f) {
  int64_t begin[3], end[3], o[3];
  for (int k = 0; k < 3; k++)
    pool_range(s, k, a.at[k], &begin[k], &end[k]);
  for (o[0] = begin[0]; o[0] < end[0]; o[0]++)
    for (o[1] = begin[1]; o[1] < end[1]; o[1]++)
      for (o[2] = begin[2]; o[2] < end[2]; o[2]++) {
        int64_t row =
            (a.outer * s.out[0].by + o[0]) * s.out[1].by + o[1];
        f((row * s.out[2].by + o[2]) * s.inner.by + a.inner,
          pool_window_of(s, o));
      }
}

/* The number of a cell in a window that it lies in. */
__device__ inline int32_t pool_number(const pool_window &w, const int64_t *at) {
  int64_t n = at[0] - w.begin[0];
  n = n * w.count[1] + at[1] - w.begin[1];
  return (int32_t)(n * w.count[2] + at[2] - w.begin[2]);
}

/* The number of the largest cell, a NaN only where it is first; -1: there is no
 * cell. */
template <class T>
__device__ inline int32_t pool_find(const pool_sizes &s, const pool_at &a,
                                    const pool_window &w, const T *x,
                                    typename td_num<T>::in *best) {
  int32_t found = -1;
  pool_cells(s, a, w, [&](int32_t number, int64_t i) {
    typename td_num<T>::in v = td_num<T>::load(x[i]);
    if (found >= 0 && !(v > *best)) return;
    found = number;
    *best = v;
  });
  return found;
}

/* ---- calls --------------------------------------------------------------- */

/* run(c, p, ..) for the type of a tensor: reals, or floats alone. */
#define POOL_CASE(kind, run, ...)                                              \
  case TD_ELEMENT_##kind:                                                      \
    return run<td_##kind>(__VA_ARGS__);
#define POOL_FLOATS(t, run, ...)                                               \
  switch ((int)(t)) {                                                          \
    EACH_FLOATS(POOL_CASE, run, __VA_ARGS__)                                   \
    HALVES(POOL_CASE, run, __VA_ARGS__)                                        \
  default:                                                                     \
    return td_cuda_no_type(c, 0);                                              \
  }
#define POOL_REALS(t, run, ...)                                                \
  switch ((int)(t)) {                                                          \
    EACH_REALS(POOL_CASE, run, __VA_ARGS__)                                    \
    HALVES(POOL_CASE, run, __VA_ARGS__)                                        \
  default:                                                                     \
    return td_cuda_no_type(c, 0);                                              \
  }

} // namespace

#endif
