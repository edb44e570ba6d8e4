/* bincount.cu - how many fall where, on a card.
 *
 * Whole numbers are counted by atomic additions, which give the same in any
 * order. Weights that are floats are added by one warp a bin, which looks at
 * all elements: the same bits every time, and slow where bins are many.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

namespace {

struct job {
  const void *x;
  bool wide; /* 64-bit elements */
  int64_t n, each, size; /* elements; of a row; bins of a row */
  int64_t bins;          /* of all rows */
};

__device__ inline int64_t element(const job &j, int64_t i) {
  return j.wide ? ((const int64_t *)j.x)[i] : ((const int32_t *)j.x)[i];
}

__device__ inline void add(int32_t *bin, int32_t by) {
  atomicAdd(bin, by);
}
__device__ inline void add(int64_t *bin, int64_t by) {
  atomicAdd(reinterpret_cast<unsigned long long *>(bin),
            (unsigned long long)by);
}

/* ---- kernels ------------------------------------------------------------- */

__global__ void check(job j, td_cuda_report r) {
  TD_EACH(i, j.n) {
    int64_t value = element(j, i);
    if (value < 0) td_cuda_tell(r, i, value);
  }
}

/* Weights NULL: 1. */
template <class T>
__global__ void count(job j, const T *weights, T *bins) {
  TD_EACH(i, j.n) {
    int64_t value = element(j, i);
    if (value < 0 || value >= j.size) continue;
    add(bins + i / j.each * j.size + value, weights ? weights[i] : (T)1);
  }
}

template <class T> __global__ void mark(job j, T *bins) {
  TD_EACH(i, j.n) {
    int64_t value = element(j, i);
    if (value >= 0 && value < j.size)
      bins[i / j.each * j.size + value] = (T)1;
  }
}

template <class T>
__global__ void whole(int64_t n, const int64_t *counts, T *bins) {
  TD_EACH(i, n) bins[i] = (T)counts[i];
}

/* A warp a bin. */
template <class T>
__global__ void weigh(job j, const T *weights, T *bins) {
  int lane = (int)(threadIdx.x % 32);
  int64_t warp = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  int64_t warps = (int64_t)gridDim.x * (blockDim.x / 32);
  for (int64_t b = warp; b < j.bins; b += warps) {
    int64_t row = b / j.size, value = b - row * j.size;
    T sum = 0;
    for (int64_t i = row * j.each + lane; i < (row + 1) * j.each; i += 32)
      if (element(j, i) == value) sum += weights[i];
    for (int by = 16; by > 0; by /= 2)
      sum += __shfl_down_sync(0xffffffffu, sum, by);
    if (lane == 0) bins[b] = sum;
  }
}

template <class T, class R>
__global__ void histogram(int64_t n, double low, double width, int64_t bins,
                          const T *x, R *y) {
  TD_EACH(i, n) {
    double at = ((double)x[i] - low) / width;
    int64_t bin = !(at >= 0) ? 0 : at < (double)bins ? (int64_t)at : bins - 1;
    add(y + bin, (R)1);
  }
}

/* ---- launches ------------------------------------------------------------ */

td_status *clear(td_kernel_ctx *c, const td_tensor *t) {
  size_t bytes = (size_t)td_tensor_count(t) * td_dtype_size(t->dtype);
  if (bytes == 0) return nullptr;
  TD_CUDA(cudaMemsetAsync(t->data, 0, bytes, td_cuda_stream(c)));
  return nullptr;
}

template <class T>
td_status *counted(td_kernel_ctx *c, const job *j, const td_tensor *weights,
                   td_tensor *y) {
  const T *w = weights ? td_cuda_at<const T>(weights) : nullptr;
  TD_TRY(clear(c, y));
  if (j->n == 0) return nullptr;
  return TD_LAUNCH(c, (count<T>), td_cuda_grid(c, j->n), TD_CUDA_BLOCK, 0, *j,
                   w, td_cuda_at<T>(y));
}

/* Bins of floats. */
template <class T>
td_status *weighed(td_kernel_ctx *c, const job *j, const td_tensor *weights,
                   td_tensor *y) {
  td_tensor counts;
  if (weights)
    return TD_LAUNCH(c, (weigh<T>), td_cuda_grid(c, j->bins * 32),
                     TD_CUDA_BLOCK, 0, *j, td_cuda_at<const T>(weights),
                     td_cuda_at<T>(y));
  TD_TRY(td_temp(c, TD_INT64, &y->shape, &counts));
  td_status *s = counted<int64_t>(c, j, nullptr, &counts);
  if (td_ok(s))
    s = TD_LAUNCH(c, (whole<T>), td_cuda_grid(c, j->bins), TD_CUDA_BLOCK, 0,
                  j->bins, td_cuda_at<const int64_t>(&counts),
                  td_cuda_at<T>(y));
  td_tensor_release(&counts);
  return s;
}

template <class T>
td_status *marked(td_kernel_ctx *c, const job *j, td_tensor *y) {
  TD_TRY(clear(c, y));
  if (j->n == 0) return nullptr;
  return TD_LAUNCH(c, (mark<T>), td_cuda_grid(c, j->n), TD_CUDA_BLOCK, 0, *j,
                   td_cuda_at<T>(y));
}

td_status *fill(td_kernel_ctx *c, const job *j, bool binary, td_tensor *y) {
  const td_tensor *w = td_tensor_count(td_in(c, 2)) ? td_in(c, 2) : nullptr;
  switch (y->dtype) {
  case TD_INT32:
    return binary ? marked<int32_t>(c, j, y) : counted<int32_t>(c, j, w, y);
  case TD_INT64:
    return binary ? marked<int64_t>(c, j, y) : counted<int64_t>(c, j, w, y);
  case TD_FLOAT32:
    return binary ? marked<float>(c, j, y) : weighed<float>(c, j, w, y);
  default:
    return binary ? marked<double>(c, j, y) : weighed<double>(c, j, w, y);
  }
}

td_status *run(td_kernel_ctx *c, bool dense, bool binary) {
  const td_tensor *x = td_in(c, 0);
  int64_t rows, size = 0, n = td_tensor_count(x);
  td_shape shape;
  td_tensor *y;
  TD_TRY(td_bincount_check(c, dense, &rows, &size, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  job j = {x->data, x->dtype == TD_INT64, n, rows ? n / rows : 0,
           size,    td_tensor_count(y)};
  if (n > 0)
    TD_TRY(TD_LAUNCH(c, check, td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, j,
                     td_cuda_report_of(c, "element %lld is %lld: it must not "
                                          "be negative")));
  return j.bins ? fill(c, &j, binary, y) : nullptr;
}

td_status *run_bincount(td_kernel_ctx *c) {
  return run(c, false, false);
}
td_status *run_dense(td_kernel_ctx *c) {
  return run(c, true, td_node_bool(td_ctx_node(c), "binary_output"));
}

template <class T> td_status *run_histogram(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  double low, high;
  int64_t bins = 0, n = td_tensor_count(x);
  td_tensor *y;
  TD_TRY(td_histogram_check(c, &low, &high, &bins));
  td_shape shape = td_shape_vector(bins);
  TD_TRY(td_out(c, 0, &shape, &y));
  TD_TRY(clear(c, y));
  double width = (high - low) / (double)bins;
  if (n == 0) return nullptr;
  if (y->dtype == TD_INT64)
    return TD_LAUNCH(c, (histogram<T, int64_t>), td_cuda_grid(c, n),
                     TD_CUDA_BLOCK, 0, n, low, width, bins,
                     td_cuda_at<const T>(x), td_cuda_at<int64_t>(y));
  return TD_LAUNCH(c, (histogram<T, int32_t>), td_cuda_grid(c, n),
                   TD_CUDA_BLOCK, 0, n, low, width, bins,
                   td_cuda_at<const T>(x), td_cuda_at<int32_t>(y));
}

/* ---- rows ---------------------------------------------------------------- */

#define BINS "T=int32|int64|float|double"
#define HISTOGRAM(type, T)                                                     \
  {.op = "HistogramFixedWidth",                                                \
   .device = "CUDA",                                                           \
   .types = "T=" type,                                                         \
   .run = run_histogram<T>}

const td_kernel_def kernels[] = {
    {.op = "Bincount", .device = "CUDA", .types = BINS, .run = run_bincount},
    {.op = "DenseBincount", .device = "CUDA", .types = BINS, .run = run_dense},
    HISTOGRAM("int32", int32_t),
    HISTOGRAM("int64", int64_t),
    HISTOGRAM("float", float),
    HISTOGRAM("double", double),
    {},
};

} // namespace

TD_CUDA_MODULE(bincount, kernels)
