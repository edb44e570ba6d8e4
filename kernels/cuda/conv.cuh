/* conv.cuh - a convolution as kernels on a card see it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_CONV_CUH
#define TD_CUDA_CONV_CUH

#include "kernels/conv.h"
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

namespace {

/* Steps between elements of a batch of images, in either layout. */
struct conv_image {
  int64_t image, channel, axis[3];
};

struct conv_sizes {
  td_divider in[3], out[3], filter[3], stride[3];
  td_divider deep, wide; /* channels of a group, in and out */
  int64_t dilation[3], before[3];
  conv_image x, y;
};

static inline conv_image conv_image_of(const int64_t *size, int64_t channels,
                                       bool first) {
  int64_t cells = size[0] * size[1] * size[2], step = first ? 1 : channels;
  conv_image v = {cells * channels, first ? cells : 1, {}};
  for (int i = 2; i >= 0; i--) {
    v.axis[i] = step;
    step *= size[i];
  }
  return v;
}

static inline conv_sizes conv_sizes_of(const td_conv_plan *p) {
  const td_conv *c = &p->conv;
  conv_sizes s = {};
  for (int i = 0; i < 3; i++) {
    s.in[i] = td_divider_by(c->in[i]);
    s.out[i] = td_divider_by(c->out[i]);
    s.filter[i] = td_divider_by(c->filter[i]);
    s.stride[i] = td_divider_by(c->stride[i]);
    s.dilation[i] = c->dilation[i];
    s.before[i] = c->before[i];
  }
  s.deep = td_divider_by(c->in_channels / c->groups);
  s.wide = td_divider_by(c->out_channels / c->groups);
  s.x = conv_image_of(c->in, c->in_channels, p->rule.channels_first);
  s.y = conv_image_of(c->out, c->out_channels, p->rule.channels_first);
  return s;
}

/* Kernels count along an axis in 32 bits. */
static inline td_status *conv_fits(const td_conv *c) {
  constexpr int64_t most = (int64_t)1 << 29;
  for (int i = 0; i < 3; i++) {
    bool far = c->filter[i] > 0 && c->dilation[i] > most / c->filter[i];
    bool wide = c->out[i] > 0 && c->stride[i] > most / c->out[i];
    if (!far && !wide && c->in[i] < most && c->before[i] < most) continue;
    return td_error(TD_UNIMPLEMENTED,
                    "a convolution along %lld elements, which is too long for "
                    "this device",
                    (long long)c->in[i]);
  }
  return nullptr;
}

/* Makes the result; *over: there is nothing to compute, of empty operands it is
 * zeros already. */
static inline td_status *conv_begin(td_kernel_ctx *c, const td_conv_plan *p,
                                    td_tensor **y, bool *over) {
  TD_TRY(td_out(c, 0, &p->shape, y));
  *over = true;
  if (td_tensor_count(*y) == 0) return nullptr;
  if (td_tensor_count(td_in(c, p->a)) == 0 ||
      td_tensor_count(td_in(c, p->b)) == 0)
    return td_cuda_ok(cudaMemsetAsync((*y)->data, 0, td_tensor_bytes(*y),
                                      td_cuda_stream(c)),
                      "zeros");
  *over = false;
  return conv_fits(&p->conv);
}

} // namespace

#endif
