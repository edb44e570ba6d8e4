/* fill.cu - tensors made from little on a card: Fill, ZerosLike, OnesLike,
 * Empty, BroadcastTo, OneHot, Range, LinSpace.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"
#include "kernels/checks.h"
#include "kernels/cuda/broadcast.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/unit.cuh"
#include "kernels/operand.h"

#include <string.h>

namespace {

/* ---- one element everywhere ---------------------------------------------- */

template <class T> __global__ void put(int64_t n, T value, T *y) {
  TD_EACH(i, n) y[i] = value;
}
template <class T> __global__ void spread(int64_t n, const T *value, T *y) {
  TD_EACH(i, n) y[i] = *value;
}

/* `value`: bytes in the host's memory. */
template <class T>
td_status *put_all(td_kernel_ctx *c, td_tensor *y, const void *value) {
  T v;
  int64_t n = td_tensor_count(y);
  memcpy(&v, value, sizeof v);
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (put<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, v,
                   td_cuda_at<T>(y));
}
td_status *put_bytes(td_kernel_ctx *c, td_tensor *y, const void *value) {
  TD_CUDA_BY_SIZE(td_dtype_size(y->dtype), put_all, c, y, value)
}

template <class T> td_status *spread_all(td_kernel_ctx *c, td_tensor *y) {
  int64_t n = td_tensor_count(y);
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (spread<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   td_cuda_at<const T>(td_in(c, 1)), td_cuda_at<T>(y));
}

td_status *run_fill(td_kernel_ctx *c) {
  td_shape shape;
  td_tensor *y;
  TD_TRY(td_fill_check(c, &shape));
  TD_TRY(td_array_count(&shape, nullptr));
  TD_TRY(td_out(c, 0, &shape, &y));
  TD_CUDA_BY_SIZE(td_dtype_size(y->dtype), spread_all, c, y)
}

const char zero[16] = {};

td_status *run_zeros(td_kernel_ctx *c) {
  td_tensor *y;
  TD_TRY(td_out_like(c, 0, 0, &y));
  return put_bytes(c, y, zero);
}

td_status *run_ones(td_kernel_ctx *c) {
  td_tensor one, *y;
  TD_TRY(td_tensor_scalar_i(td_in(c, 0)->dtype, 1, &one));
  td_status *s = td_out_like(c, 0, 0, &y);
  if (td_ok(s)) s = put_bytes(c, y, one.data);
  td_tensor_release(&one);
  return s;
}

td_status *run_empty(td_kernel_ctx *c) {
  td_shape shape;
  td_tensor *y;
  TD_TRY(td_operand_shape(td_in(c, 0), "shape", &shape));
  TD_TRY(td_array_count(&shape, nullptr));
  TD_TRY(td_out(c, 0, &shape, &y));
  return put_bytes(c, y, zero);
}

/* ---- BroadcastTo --------------------------------------------------------- */

template <class T>
__global__ void repeat(int64_t n, td_cuda_walk<1> w, const T *x, T *y) {
  TD_EACH(i, n) {
    int64_t at;
    td_cuda_walk_to(w, i, &at);
    y[i] = x[at];
  }
}

template <class T>
td_status *repeated(td_kernel_ctx *c, const td_broadcast *b, td_tensor *y) {
  if (b->count == 0) return nullptr;
  return TD_LAUNCH(c, (repeat<T>), td_cuda_grid(c, b->count), TD_CUDA_BLOCK, 0,
                   b->count, td_cuda_walk_of<1>(b),
                   td_cuda_at<const T>(td_in(c, 0)), td_cuda_at<T>(y));
}

td_status *run_broadcast(td_kernel_ctx *c) {
  td_shape to, same;
  td_broadcast plan;
  td_tensor *y;
  TD_TRY(td_broadcast_to_check(c, &to));
  if (td_shape_equal(&td_in(c, 0)->shape, &to)) {
    td_out_pass(c, 0, 0);
    return nullptr;
  }
  const td_shape *shapes[] = {&td_in(c, 0)->shape, &to};
  TD_TRY(td_broadcast_plan(&plan, 2, shapes, &same));
  TD_TRY(td_out(c, 0, &to, &y));
  TD_CUDA_BY_SIZE(td_dtype_size(y->dtype), repeated, c, &plan, y)
}

/* ---- OneHot -------------------------------------------------------------- */

struct hot {
  const void *indices;
  td_dtype dtype; /* of these */
  int64_t n, depth, after;
};

__device__ inline int64_t index_at(const hot &h, int64_t i) {
  switch (h.dtype) {
  case TD_UINT8:
    return ((const uint8_t *)h.indices)[i];
  case TD_INT8:
    return ((const int8_t *)h.indices)[i];
  case TD_INT32:
    return ((const int32_t *)h.indices)[i];
  default:
    return ((const int64_t *)h.indices)[i];
  }
}

template <class T>
__global__ void one_hot(hot h, const T *on, const T *off, T *y) {
  TD_EACH(i, h.n) {
    int64_t row = i / h.after, before = row / h.depth;
    int64_t at = before * h.after + (i - row * h.after);
    y[i] = index_at(h, at) == row - before * h.depth ? *on : *off;
  }
}

template <class T>
td_status *launch_hot(td_kernel_ctx *c, const hot *h, td_tensor *y) {
  return TD_LAUNCH(c, (one_hot<T>), td_cuda_grid(c, h->n), TD_CUDA_BLOCK, 0,
                   *h, td_cuda_at<const T>(td_in(c, 2)),
                   td_cuda_at<const T>(td_in(c, 3)), td_cuda_at<T>(y));
}

td_status *run_one_hot(td_kernel_ctx *c) {
  td_shape shape;
  td_tensor *y;
  int axis;
  TD_TRY(td_one_hot_check(c, &axis, &shape));
  TD_TRY(td_array_count(&shape, nullptr));
  TD_TRY(td_out(c, 0, &shape, &y));
  hot h = {td_in(c, 0)->data, td_in(c, 0)->dtype, td_tensor_count(y),
           shape.dim[axis], td_shape_span(&shape, axis + 1, shape.rank)};
  if (h.n == 0) return nullptr;
  TD_CUDA_BY_SIZE(td_dtype_size(y->dtype), launch_hot, c, &h, y)
}

/* ---- Range, LinSpace ----------------------------------------------------- */

template <class T>
__global__ void range_whole(int64_t n, uint64_t start, uint64_t delta, T *y) {
  TD_EACH(i, n) y[i] = (T)(start + (uint64_t)i * delta);
}

/* No product is joined with its sum: the same bits as on the processor. Those
 * of two halves are exact in float. */
__device__ inline float product(float x, float y) {
  return __fmul_rn(x, y);
}
__device__ inline double product(double x, double y) {
  return __dmul_rn(x, y);
}
template <class T>
__global__ void range_float(int64_t n, double start, double delta, T *y) {
  typedef typename td_num<T>::in F;
  TD_EACH(i, n) {
    F at = td_num<T>::load(td_num<T>::store((F)i));
    F x = td_num<T>::load(td_num<T>::store(product(at, (F)delta)));
    y[i] = td_num<T>::store((F)start + x);
  }
}

template <class T>
td_status *launch_whole(td_kernel_ctx *c, const td_range_bounds *b,
                        td_tensor *y) {
  int64_t n = td_tensor_count(y);
  return TD_LAUNCH(c, (range_whole<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   (uint64_t)b->i[0], (uint64_t)b->i[2], td_cuda_at<T>(y));
}
template <class T>
td_status *launch_float(td_kernel_ctx *c, const td_range_bounds *b,
                        td_tensor *y) {
  int64_t n = td_tensor_count(y);
  return TD_LAUNCH(c, (range_float<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   b->f[0], b->f[2], td_cuda_at<T>(y));
}

td_status *run_range(td_kernel_ctx *c) {
  td_range_bounds b;
  td_tensor *y;
  int64_t n = 0;
  TD_TRY(td_range_check(c, &b, &n));
  td_shape shape = td_shape_vector(n);
  TD_TRY(td_out(c, 0, &shape, &y));
  if (n == 0) return nullptr;
#define WHOLE(kind, ...)                                                       \
  case TD_ELEMENT_##kind:                                                      \
    return launch_whole<td_##kind>(c, &b, y);
#define FLOAT(kind, ...)                                                       \
  case TD_ELEMENT_##kind:                                                      \
    return launch_float<td_##kind>(c, &b, y);
  switch ((int)b.dtype) {
    EACH_INTS(WHOLE, )
    EACH_FLOATS(FLOAT, )
    HALVES(FLOAT, )
  default:
    return td_cuda_no_type(c, 0);
  }
}

/* float32 and the halves compute in float. */
template <class T>
__global__ void linspace(int64_t n, typename td_num<T>::in start,
                         typename td_num<T>::in stop,
                         typename td_num<T>::in step, T *y) {
  typedef typename td_num<T>::in F;
  TD_EACH(i, n) {
    F x = start + product(step, (F)i);
    if (i == n - 1) x = stop;
    if (i == 0) x = start;
    y[i] = td_num<T>::store(x);
  }
}

template <class T> td_status *run_linspace(td_kernel_ctx *c) {
  typedef typename td_num<T>::in F;
  double start, stop;
  int64_t n;
  td_tensor *y;
  TD_TRY(td_linspace_check(c, &start, &stop, &n));
  td_shape shape = td_shape_vector(n);
  TD_TRY(td_out(c, 0, &shape, &y));
  F step = n > 1 ? ((F)stop - (F)start) / (F)(n - 1) : 0;
  return TD_LAUNCH(c, (linspace<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   (F)start, (F)stop, step, td_cuda_at<T>(y));
}

/* ---- rows ---------------------------------------------------------------- */

#define PLAIN TYPES_NUMBERS "|bool|qint8|quint8|qint16|quint16|qint32"

const td_kernel_def kernels[] = {
    {.op = "Fill", .device = "CUDA", .types = PLAIN, .run = run_fill},
    {.op = "ZerosLike", .device = "CUDA", .types = PLAIN, .run = run_zeros},
    {.op = "OnesLike",
     .device = "CUDA",
     .types = TYPES_NUMBERS "|bool",
     .run = run_ones},
    {.op = "Empty",
     .device = "CUDA",
     .types = "dtype=bool|half|bfloat16|float|double|int8|uint8|int16|uint16|"
              "int32|uint32|int64|uint64|complex64|complex128",
     .run = run_empty},
    {.op = "BroadcastTo",
     .device = "CUDA",
     .types = PLAIN,
     .run = run_broadcast},
    {.op = "OneHot", .device = "CUDA", .types = PLAIN, .run = run_one_hot},
    {.op = "Range", .device = "CUDA", .run = run_range},
    {.op = "LinSpace",
     .device = "CUDA",
     .types = "T=half",
     .run = run_linspace<td_half>},
    {.op = "LinSpace",
     .device = "CUDA",
     .types = "T=bfloat16",
     .run = run_linspace<td_bfloat>},
    {.op = "LinSpace",
     .device = "CUDA",
     .types = "T=float",
     .run = run_linspace<float>},
    {.op = "LinSpace",
     .device = "CUDA",
     .types = "T=double",
     .run = run_linspace<double>},
    {},
};

} // namespace

TD_CUDA_MODULE(fill, kernels)
