/* resize.h - what the ops that resize pictures {batch, height, width, channels}
 * share.
 *
 * Place i of the result lies at i * scale of the source, or at
 * (i + 0.5) * scale - 0.5 with half_pixel_centers; scale is in / out, or
 * (in - 1) / (out - 1) with align_corners.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_RESIZE_H
#define TD_KERNELS_RESIZE_H

#include "engine/device/kernel.h"

TD_BEGIN

typedef struct td_resize {
  int64_t batch, in_h, in_w, out_h, out_w, channels;
  float scale_h, scale_w;
  bool align, half; /* align_corners, half_pixel_centers */
} td_resize;

/* Shape functions: of the resizing ops, sizes in input 1; of those of their
 * gradients that are given the picture as input 1. */
td_status *td_resize_infer(td_infer *c) TD_MUST_USE;
td_status *td_resize_infer_grad(td_infer *c) TD_MUST_USE;

/* The geometry of a forward op; *shape is its result's. */
td_status *td_resize_read(const td_kernel_ctx *c, td_resize *r,
                          td_shape *shape) TD_MUST_USE;
/* The same of a gradient, from its own shape and that of the picture: *shape is
 * of as many pictures and channels as there are gradients of. */
td_status *td_resize_read_grad(const td_kernel_ctx *c, const td_shape *grads,
                               const td_shape *picture, td_resize *r,
                               td_shape *shape) TD_MUST_USE;

/* Of ResizeNearestNeighborGrad; *none: there are no gradients, all is zero. */
td_status *td_resize_read_nearest_grad(const td_kernel_ctx *c, td_resize *r,
                                       td_shape *shape, bool *none) TD_MUST_USE;

/* Where place i lies in the source. */
static inline float td_resize_at(const td_resize *r, float scale, int64_t i) {
  return r->half ? ((float)i + 0.5f) * scale - 0.5f : (float)i * scale;
}

/* Between which two of n source places, and how far from the first. */
typedef struct td_resize_span {
  int64_t low, high;
  float share;
} td_resize_span;
td_resize_span td_resize_between(float at, int64_t n);
/* The spans of every place; they end in `out` of them. */
void td_resize_spans(const td_resize *r, float scale, int64_t in, int64_t out,
                     td_resize_span *spans);

/* A numeric tensor as float32: itself, or a copy. Release *out. */
td_status *td_resize_floats(td_kernel_ctx *c, const td_tensor *t,
                            td_tensor *out) TD_MUST_USE;
/* n elements of a numeric dtype as floats. */
void td_resize_load(td_dtype dtype, int64_t n, const void *from, float *to);
/* n floats as elements of a float dtype. */
void td_resize_store(td_dtype dtype, int64_t n, const float *from, void *to);

TD_END
#endif
