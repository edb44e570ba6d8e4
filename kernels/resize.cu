/* resize.cu - ResizeNearestNeighbor, ResizeBilinear and their gradients on a
 * card.
 *
 * A place is found by the same steps as on the host, none of them fused, so
 * that no pixel lies elsewhere. Backward a thread makes an element of the
 * picture: which places of the result have come from it is a span of rows and
 * one of columns, found by halving; it adds what they say in their order, in
 * double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/resize.cuh"
#include "kernels/cuda/rows.cuh"

namespace {

/* ---- places -------------------------------------------------------------- */

__device__ inline int64_t nearest(const axis &a, int64_t i) {
  float at = times(a.half ? (float)i + 0.5f : (float)i, a.scale);
  int64_t k = (int64_t)(a.align ? roundf(at) : floorf(at));
  return k < 0 ? 0 : k > a.in - 1 ? a.in - 1 : k;
}

struct span {
  int64_t low, high;
  float share;
};

__device__ inline span between(const axis &a, int64_t i) {
  float at = place_at(a, i), below = floorf(at);
  int64_t low = (int64_t)below, high = (int64_t)ceilf(at), last = a.in - 1;
  low = low < 0 ? 0 : low > last ? last : low;
  high = high < 0 ? 0 : high > last ? last : high;
  return span{low, high, at - below};
}

/* How places order: by the nearest pixel, by the upper, by the lower one. */
struct by_nearest {
  static __device__ inline int64_t of(const axis &a, int64_t i) {
    return nearest(a, i);
  }
};
struct by_high {
  static __device__ inline int64_t of(const axis &a, int64_t i) {
    return between(a, i).high;
  }
};
struct by_low {
  static __device__ inline int64_t of(const axis &a, int64_t i) {
    return between(a, i).low;
  }
};

/* The first place of the result that is at `pixel` or behind it. */
template <class F>
__device__ inline int64_t first(const axis &a, int64_t pixel) {
  int64_t low = 0, high = a.out;
  while (low < high) {
    int64_t mid = low + (high - low) / 2;
    if (F::of(a, mid) < pixel)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

/* ---- ResizeNearestNeighbor ----------------------------------------------- */

struct nearest_row {
  axis h, w;
  __device__ int64_t operator()(int64_t i) const {
    int64_t x = i % w.out, line = i / w.out;
    int64_t y = line % h.out, b = line / h.out;
    return (b * h.in + nearest(h, y)) * w.in + nearest(w, x);
  }
};

td_status *nearest_run(td_kernel_ctx *c) {
  td_resize r;
  td_shape shape;
  td_tensor *y;
  TD_TRY(td_resize_read(c, &r, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  return td_cuda_rows(c, nearest_row{height_of(&r), width_of(&r)},
                      td_tensor_count(y) / r.channels,
                      r.channels * (int64_t)td_dtype_size(y->dtype),
                      td_in(c, 0)->data, y->data);
}

template <class T>
__global__ void nearest_grad(int64_t n, axis h, axis w, int64_t channels,
                             const T *g, T *dx) {
  TD_EACH(i, n) {
    element e = element_of(i, h.in, w.in, channels);
    int64_t x0 = first<by_nearest>(w, e.x), x1 = first<by_nearest>(w, e.x + 1);
    int64_t y1 = first<by_nearest>(h, e.y + 1);
    double sum = 0;
    for (int64_t y = first<by_nearest>(h, e.y); y < y1; y++)
      for (int64_t x = x0; x < x1; x++)
        sum += (double)td_num<T>::load(
            g[((e.b * h.out + y) * w.out + x) * channels + e.ch]);
    dx[i] = td_num<T>::store((typename td_num<T>::in)sum);
  }
}

template <class T>
td_status *launch_nearest_grad(td_kernel_ctx *c, const td_resize *r,
                               td_tensor *dx) {
  int64_t n = td_tensor_count(dx);
  return TD_LAUNCH(c, (nearest_grad<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                   n, height_of(r), width_of(r), r->channels,
                   td_cuda_at<const T>(td_in(c, 0)), td_cuda_at<T>(dx));
}

td_status *nearest_grad_run(td_kernel_ctx *c) {
  td_resize r;
  td_shape shape;
  td_tensor *dx;
  bool none = false;
  TD_TRY(td_resize_read_nearest_grad(c, &r, &shape, &none));
  TD_TRY(td_out(c, 0, &shape, &dx));
  if (td_tensor_count(dx) == 0) return nullptr;
  if (none)
    return td_cuda_ok(cudaMemsetAsync(dx->data, 0, td_tensor_bytes(dx),
                                      td_cuda_stream(c)),
                      "a fill");
  switch ((int)dx->dtype) {
  case TD_UINT8:
    return launch_nearest_grad<uint8_t>(c, &r, dx);
  case TD_INT8:
    return launch_nearest_grad<int8_t>(c, &r, dx);
  case TD_INT32:
    return launch_nearest_grad<int32_t>(c, &r, dx);
  case TD_FLOAT16:
    return launch_nearest_grad<td_half>(c, &r, dx);
  case TD_BFLOAT16:
    return launch_nearest_grad<td_bfloat>(c, &r, dx);
  case TD_FLOAT32:
    return launch_nearest_grad<float>(c, &r, dx);
  case TD_FLOAT64:
    return launch_nearest_grad<double>(c, &r, dx);
  default:
    return td_cuda_no_type(c, 0);
  }
}

/* ---- ResizeBilinear ------------------------------------------------------ */

template <class T>
__global__ void bilinear(int64_t n, axis h, axis w, int64_t channels,
                         const T *from, float *to) {
  TD_EACH(i, n) {
    element e = element_of(i, h.out, w.out, channels);
    span y = between(h, e.y), x = between(w, e.x);
    int64_t top = (e.b * h.in + y.low) * w.in;
    int64_t low = (e.b * h.in + y.high) * w.in;
    float a = (float)td_num<T>::load(from[(top + x.low) * channels + e.ch]);
    float b = (float)td_num<T>::load(from[(top + x.high) * channels + e.ch]);
    float d = (float)td_num<T>::load(from[(low + x.low) * channels + e.ch]);
    float f = (float)td_num<T>::load(from[(low + x.high) * channels + e.ch]);
    float above = a + times(b - a, x.share), below = d + times(f - d, x.share);
    to[i] = above + times(below - above, y.share);
  }
}

template <class T>
td_status *launch_bilinear(td_kernel_ctx *c, const td_resize *r, td_tensor *y) {
  int64_t n = td_tensor_count(y);
  return TD_LAUNCH(c, (bilinear<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   height_of(r), width_of(r), r->channels,
                   td_cuda_at<const T>(td_in(c, 0)), td_cuda_at<float>(y));
}

#define CASE(kind, ...)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    return launch_bilinear<td_##kind>(c, &r, y);
td_status *bilinear_run(td_kernel_ctx *c) {
  td_resize r;
  td_shape shape;
  td_tensor *y;
  TD_TRY(td_resize_read(c, &r, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  switch ((int)td_in(c, 0)->dtype) {
    EACH_REALS(CASE) HALVES_REALS(CASE)
  default:
    return td_cuda_no_type(c, 0);
  }
}

/* What a place gives to one of the pixels around it. */
__device__ inline double given(float g, const span &y, const span &x,
                               int64_t at_y, int64_t at_x) {
  float above = times(g, 1 - y.share), below = times(g, y.share);
  double sum = 0;
  if (y.low == at_y && x.low == at_x) sum += (double)times(above, 1 - x.share);
  if (y.low == at_y && x.high == at_x) sum += (double)times(above, x.share);
  if (y.high == at_y && x.low == at_x) sum += (double)times(below, 1 - x.share);
  if (y.high == at_y && x.high == at_x) sum += (double)times(below, x.share);
  return sum;
}

template <class T>
__global__ void bilinear_grad(int64_t n, axis h, axis w, int64_t channels,
                              const float *g, T *dx) {
  TD_EACH(i, n) {
    element e = element_of(i, h.in, w.in, channels);
    int64_t x0 = first<by_high>(w, e.x), x1 = first<by_low>(w, e.x + 1);
    int64_t y1 = first<by_low>(h, e.y + 1);
    double sum = 0;
    for (int64_t y = first<by_high>(h, e.y); y < y1; y++) {
      span sy = between(h, y);
      for (int64_t x = x0; x < x1; x++)
        sum += given(g[((e.b * h.out + y) * w.out + x) * channels + e.ch], sy,
                     between(w, x), e.y, e.x);
    }
    dx[i] = td_num<T>::store((typename td_num<T>::in)sum);
  }
}

template <class T>
td_status *launch_bilinear_grad(td_kernel_ctx *c, const td_resize *r,
                                td_tensor *dx) {
  int64_t n = td_tensor_count(dx);
  return TD_LAUNCH(c, (bilinear_grad<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                   n, height_of(r), width_of(r), r->channels,
                   td_cuda_at<const float>(td_in(c, 0)), td_cuda_at<T>(dx));
}

td_status *bilinear_grad_run(td_kernel_ctx *c) {
  td_resize r;
  td_shape shape;
  td_tensor *dx;
  TD_TRY(td_resize_read_grad(c, &td_in(c, 0)->shape, &td_in(c, 1)->shape, &r,
                             &shape));
  TD_TRY(td_out(c, 0, &shape, &dx));
  if (td_tensor_count(dx) == 0) return nullptr;
  switch ((int)dx->dtype) {
  case TD_FLOAT16:
    return launch_bilinear_grad<td_half>(c, &r, dx);
  case TD_BFLOAT16:
    return launch_bilinear_grad<td_bfloat>(c, &r, dx);
  case TD_FLOAT32:
    return launch_bilinear_grad<float>(c, &r, dx);
  default:
    return launch_bilinear_grad<double>(c, &r, dx);
  }
}

/* ---- tables -------------------------------------------------------------- */

const td_kernel_def kernels[] = {
    {.op = "ResizeNearestNeighbor", .device = "CUDA", .run = nearest_run},
    {.op = "ResizeNearestNeighborGrad",
     .device = "CUDA",
     .run = nearest_grad_run},
    {.op = "ResizeBilinear", .device = "CUDA", .run = bilinear_run},
    {.op = "ResizeBilinearGrad", .device = "CUDA", .run = bilinear_grad_run},
    {},
};

} // namespace

TD_CUDA_MODULE(resize, kernels)
