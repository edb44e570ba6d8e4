/* resize.cuh - where pixels of a picture of another size lie, on a card.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_RESIZE_CUH
#define TD_CUDA_RESIZE_CUH

#include "kernels/cuda/launch.cuh"
#include "kernels/resize.h"

namespace {

#ifdef __CUDACC__
__device__ inline float times(float x, float y) {
  return __fmul_rn(x, y);
}
#else
inline float times(float x, float y) {
  return x * y;
}
#endif

/* One axis. */
struct axis {
  int64_t in, out;
  float scale;
  bool align, half;
};

axis height_of(const td_resize *r) {
  return axis{r->in_h, r->out_h, r->scale_h, r->align, r->half};
}
axis width_of(const td_resize *r) {
  return axis{r->in_w, r->out_w, r->scale_w, r->align, r->half};
}

/* Where place i lies in the source: td_resize_at. */
__device__ inline float place_at(const axis &a, int64_t i) {
  return a.half ? times((float)i + 0.5f, a.scale) - 0.5f
                : times((float)i, a.scale);
}

/* An element of {batch, height, width, channels}. */
struct element {
  int64_t b, y, x, ch;
};

__device__ inline element element_of(int64_t i, int64_t h, int64_t w,
                                     int64_t channels) {
  element e;
  e.ch = i % channels;
  i /= channels;
  e.x = i % w;
  i /= w;
  e.y = i % h;
  e.b = i / h;
  return e;
}

} // namespace

#endif
