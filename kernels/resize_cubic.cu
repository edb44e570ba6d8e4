/* resize_cubic.cu - ResizeBicubic and its gradient, ResizeArea, on a card: the
 * weights of resize_cubic.c, which each thread computes for itself. Backward a
 * thread makes an element of the picture, of the places that it is a part of.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/resize.cuh"

namespace {

/* ---- cubic weights ------------------------------------------------------- */

enum { TABLE = 1024, WEIGHTS = 4 };

/* The pixels that a pixel of the result is made from along an axis. */
struct weights {
  int64_t at[WEIGHTS];
  float weight[WEIGHTS];
};

__device__ inline float near_weight(double a, double x) {
  return (float)(((a + 2) * x - (a + 3)) * x * x + 1);
}
__device__ inline float far_weight(double a, double x) {
  x += 1;
  return (float)(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
}
__device__ inline int64_t bound(int64_t i, int64_t n) {
  return i < 0 ? 0 : i > n - 1 ? n - 1 : i;
}

__device__ inline void drop_outside(weights *t, int64_t first) {
  float sum = 0;
  for (int k = 0; k < WEIGHTS; k++) {
    if (t->at[k] != first + k) t->weight[k] = 0;
    sum += t->weight[k];
  }
  if (fabsf(sum) < 1000 * FLT_MIN) return;
  float one = 1 / sum;
  for (int k = 0; k < WEIGHTS; k++) t->weight[k] *= one;
}

__device__ inline int64_t base_of(const axis &x, int64_t i) {
  return (int64_t)floorf(place_at(x, i));
}

__device__ inline weights weights_of(const axis &x, int64_t i) {
  float at = place_at(x, i);
  int64_t base = base_of(x, i);
  double a = x.half ? -0.5 : -0.75;
  int64_t offset = (int64_t)rintf((at - (float)base) * TABLE);
  double u = (double)offset / TABLE, rest = (double)(TABLE - offset) / TABLE;
  weights t = {{},
               {far_weight(a, u), near_weight(a, u), near_weight(a, rest),
                far_weight(a, rest)}};
  for (int k = 0; k < WEIGHTS; k++) t.at[k] = bound(base - 1 + k, x.in);
  if (x.half) drop_outside(&t, base - 1);
  return t;
}

/* How much of a pixel place i takes. */
__device__ inline double share_of(const axis &x, int64_t i, int64_t pixel) {
  weights t = weights_of(x, i);
  double sum = 0;
  for (int k = 0; k < WEIGHTS; k++)
    if (t.at[k] == pixel) sum += (double)t.weight[k];
  return sum;
}

/* The first place whose base is not below that. */
__device__ inline int64_t first_of(const axis &x, int64_t base) {
  int64_t low = 0, high = x.out;
  while (low < high) {
    int64_t mid = low + (high - low) / 2;
    if (base_of(x, mid) < base)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

/* The places that take of a pixel; all beyond an edge take of that. */
struct places {
  int64_t begin, end;
};
__device__ inline places places_of(const axis &x, int64_t pixel) {
  return places{pixel == 0 ? 0 : first_of(x, pixel - 2),
                pixel == x.in - 1 ? x.out : first_of(x, pixel + 2)};
}

/* ---- kernels ------------------------------------------------------------- */

struct picture {
  axis h, w;
  int64_t channels;
};

picture picture_of(const td_resize *r) {
  return picture{height_of(r), width_of(r), r->channels};
}

template <class T>
__global__ void cubic(int64_t n, picture p, const T *from, float *to) {
  TD_EACH(i, n) {
    element e = element_of(i, p.h.out, p.w.out, p.channels);
    weights y = weights_of(p.h, e.y), x = weights_of(p.w, e.x);
    float sum = 0;
    for (int k = 0; k < WEIGHTS; k++) {
      float down = 0;
      for (int j = 0; j < WEIGHTS; j++) {
        int64_t at = ((e.b * p.h.in + y.at[j]) * p.w.in + x.at[k]) * p.channels;
        down += (float)td_num<T>::load(from[at + e.ch]) * y.weight[j];
      }
      sum += down * x.weight[k];
    }
    to[i] = sum;
  }
}

template <class T>
__global__ void cubic_back(int64_t n, picture p, const float *from, T *to) {
  TD_EACH(i, n) {
    element e = element_of(i, p.h.in, p.w.in, p.channels);
    places y = places_of(p.h, e.y), x = places_of(p.w, e.x);
    double sum = 0;
    for (int64_t j = y.begin; j < y.end; j++) {
      double down = share_of(p.h, j, e.y);
      for (int64_t k = x.begin; k < x.end; k++) {
        int64_t at = ((e.b * p.h.out + j) * p.w.out + k) * p.channels + e.ch;
        sum += (double)from[at] * down * share_of(p.w, k, e.x);
      }
    }
    to[i] = (T)sum;
  }
}

/* How much of pixel k lies between two places. */
__device__ inline float covered(int64_t k, float from, float to) {
  float low = (float)k < from ? from : (float)k;
  float high = (float)(k + 1) > to ? to : (float)(k + 1);
  return high - low;
}

template <class T>
__global__ void area(int64_t n, picture p, const T *from, float *to) {
  TD_EACH(i, n) {
    element e = element_of(i, p.h.out, p.w.out, p.channels);
    float y0 = times((float)e.y, p.h.scale);
    float y1 = times((float)(e.y + 1), p.h.scale);
    float x0 = times((float)e.x, p.w.scale);
    float x1 = times((float)(e.x + 1), p.w.scale), sum = 0;
    for (int64_t y = (int64_t)floorf(y0); y < (int64_t)ceilf(y1); y++) {
      int64_t row = (e.b * p.h.in + bound(y, p.h.in)) * p.w.in;
      float line = 0;
      for (int64_t x = (int64_t)floorf(x0); x < (int64_t)ceilf(x1); x++)
        line += (float)td_num<T>::load(
                    from[(row + bound(x, p.w.in)) * p.channels + e.ch]) *
                covered(x, x0, x1);
      sum += line * covered(y, y0, y1);
    }
    to[i] = sum * (1 / times(p.h.scale, p.w.scale));
  }
}

/* ---- launches ------------------------------------------------------------ */

template <class T>
td_status *launch(td_kernel_ctx *c, bool areas, const picture &p,
                  td_tensor *y) {
  int64_t n = td_tensor_count(y);
  const T *x = td_cuda_at<const T>(td_in(c, 0));
  float *to = td_cuda_at<float>(y);
  if (areas)
    return TD_LAUNCH(c, (area<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, p,
                     x, to);
  return TD_LAUNCH(c, (cubic<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, p, x,
                   to);
}

#define CASE(kind)                                                             \
  case TD_ELEMENT_##kind:                                                      \
    return launch<td_##kind>(c, areas, p, y);

td_status *run(td_kernel_ctx *c, bool areas) {
  td_resize r;
  td_shape shape;
  td_tensor *y;
  TD_TRY(td_resize_read(c, &r, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  picture p = picture_of(&r);
  /* An axis of 1 that grows has a scale of 0 under align_corners: every pixel
   * of the result covers the one there is. */
  if (areas && !(p.h.scale > 0)) p.h.scale = 1 / (float)r.out_h;
  if (areas && !(p.w.scale > 0)) p.w.scale = 1 / (float)r.out_w;
  switch ((int)td_in(c, 0)->dtype) {
    CASE(i8) CASE(u8) CASE(i16) CASE(u16) CASE(i32) CASE(i64)
    CASE(f16) CASE(bf16) CASE(f32) CASE(f64)
  default:
    return td_cuda_no_type(c, 0);
  }
}

td_status *cubic_run(td_kernel_ctx *c) {
  return run(c, false);
}
td_status *area_run(td_kernel_ctx *c) {
  return run(c, true);
}

template <class T>
td_status *launch_back(td_kernel_ctx *c, const picture &p, td_tensor *dx) {
  int64_t n = td_tensor_count(dx);
  return TD_LAUNCH(c, (cubic_back<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   p, td_cuda_at<const float>(td_in(c, 0)), td_cuda_at<T>(dx));
}

td_status *cubic_grad(td_kernel_ctx *c) {
  td_resize r;
  td_shape shape;
  td_tensor *dx;
  TD_TRY(td_resize_read_grad(c, &td_in(c, 0)->shape, &td_in(c, 1)->shape, &r,
                             &shape));
  TD_TRY(td_out(c, 0, &shape, &dx));
  if (td_tensor_count(dx) == 0) return nullptr;
  picture p = picture_of(&r);
  return dx->dtype == TD_FLOAT32 ? launch_back<float>(c, p, dx)
                                 : launch_back<double>(c, p, dx);
}

/* ---- tables -------------------------------------------------------------- */

#define PICTURES                                                               \
  "T=int8|uint8|int16|uint16|int32|int64|half|bfloat16|float|double"

const td_kernel_def kernels[] = {
    {.op = "ResizeBicubic",
     .device = "CUDA",
     .types = PICTURES,
     .run = cubic_run},
    {.op = "ResizeBicubicGrad",
     .device = "CUDA",
     .types = "T=float|double",
     .run = cubic_grad},
    {.op = "ResizeArea", .device = "CUDA", .types = PICTURES, .run = area_run},
    {},
};

} // namespace

TD_CUDA_MODULE(resize_cubic, kernels)
