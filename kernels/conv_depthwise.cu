/* conv_depthwise.cu - convolutions of each channel with filters of its own, on
 * a card.
 *
 * A thread makes an element of the result, or of the gradient of the input; the
 * gradient of the filter is a sum over places for each of its elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/channels.cuh"
#include "kernels/cuda/conv.cuh"

namespace {

struct depth_sizes {
  conv_sizes c;
  td_divider channels_in, channels_out;
  bool first; /* channels first */
};

struct depth_at {
  int64_t image, channel, at[3];
};

/* Element i of a tensor, in the order of its memory. */
__device__ inline depth_at where(const td_divider *axes,
                                 const td_divider &channels, bool first,
                                 int64_t i) {
  depth_at a;
  if (!first) i = channels.split(i, &a.channel);
  i = axes[2].split(i, &a.at[2]);
  i = axes[1].split(i, &a.at[1]);
  i = axes[0].split(i, &a.at[0]);
  if (first) i = channels.split(i, &a.channel);
  a.image = i;
  return a;
}

template <class T>
__global__ void forward(int64_t n, depth_sizes s, const T *x, const T *w,
                        T *y) {
  typedef typename td_num<T>::in in;
  const conv_sizes &c = s.c;
  TD_EACH(i, n) {
    depth_at a = where(c.out, s.channels_out, s.first, i);
    const T *from = x + a.image * c.x.image +
                    c.wide.quotient(a.channel) * c.x.channel;
    const T *by = w + a.channel;
    int64_t begin[3];
    in sum = 0;
    for (int k = 0; k < 3; k++)
      begin[k] = a.at[k] * c.stride[k].by - c.before[k];
    for (int64_t d = 0; d < c.filter[0].by; d++)
      for (int64_t h = 0; h < c.filter[1].by; h++)
        for (int64_t v = 0; v < c.filter[2].by; v++) {
          int64_t at_d = begin[0] + d * c.dilation[0];
          int64_t at_h = begin[1] + h * c.dilation[1];
          int64_t at_v = begin[2] + v * c.dilation[2];
          in weight = td_num<T>::load(*by);
          by += s.channels_out.by;
          if (at_d < 0 || at_d >= c.in[0].by || at_h < 0 ||
              at_h >= c.in[1].by || at_v < 0 || at_v >= c.in[2].by)
            continue;
          sum += weight *
                 td_num<T>::load(from[at_d * c.x.axis[0] + at_h * c.x.axis[1] +
                                      at_v * c.x.axis[2]]);
        }
    y[i] = td_num<T>::store(sum);
  }
}

/* The place along axis k that sees a cell at an offset; -1: none. */
__device__ inline int64_t seer(const conv_sizes &c, int k, int64_t cell,
                               int64_t offset) {
  int64_t far = cell + c.before[k] - offset * c.dilation[k], rest;
  if (far < 0) return -1;
  int64_t place = c.stride[k].split(far, &rest);
  return rest == 0 && place < c.out[k].by ? place : -1;
}

template <class T>
__global__ void data(int64_t n, depth_sizes s, const T *w, const T *y, T *x) {
  typedef typename td_num<T>::in in;
  const conv_sizes &c = s.c;
  TD_EACH(i, n) {
    depth_at a = where(c.in, s.channels_in, s.first, i);
    int64_t channel = a.channel * c.wide.by;
    const T *from = y + a.image * c.y.image + channel * c.y.channel;
    const T *by = w + channel;
    in sum = 0;
    for (int64_t d = 0; d < c.filter[0].by; d++)
      for (int64_t h = 0; h < c.filter[1].by; h++)
        for (int64_t v = 0; v < c.filter[2].by; v++) {
          int64_t at_d = seer(c, 0, a.at[0], d);
          int64_t at_h = seer(c, 1, a.at[1], h);
          int64_t at_v = seer(c, 2, a.at[2], v);
          const T *weights = by;
          by += s.channels_out.by;
          if (at_d < 0 || at_h < 0 || at_v < 0) continue;
          const T *at = from + at_d * c.y.axis[0] + at_h * c.y.axis[1] +
                        at_v * c.y.axis[2];
          for (int64_t k = 0; k < c.wide.by; k++)
            sum += td_num<T>::load(weights[k]) *
                   td_num<T>::load(at[k * c.y.channel]);
        }
    x[i] = td_num<T>::store(sum);
  }
}

/* The sum over places for element `channel` of the filter; `at` counts pairs of
 * a place and such an element. */
template <class T> struct weights {
  typedef typename td_num<T>::in sum;
  static constexpr int sums = 1;
  depth_sizes s;
  td_divider elements;
  const T *x, *y;
  T *to;

  __device__ inline void add(int64_t at, int64_t element, sum *to) const {
    const conv_sizes &c = s.c;
    int64_t channel, offset = s.channels_out.split(element, &channel), rest;
    int64_t place = elements.quotient(at), o[3];
    int64_t from = c.wide.quotient(channel) * c.x.channel;
    int64_t result = channel * c.y.channel;
    offset = c.filter[2].split(offset, &o[2]);
    o[0] = c.filter[1].split(offset, &o[1]);
    for (int k = 2; k >= 0; k--) {
      place = c.out[k].split(place, &rest);
      int64_t cell = rest * c.stride[k].by - c.before[k] + o[k] * c.dilation[k];
      if (cell < 0 || cell >= c.in[k].by) return;
      from += cell * c.x.axis[k];
      result += rest * c.y.axis[k];
    }
    to[0] += td_num<T>::load(x[place * c.x.image + from]) *
             td_num<T>::load(y[place * c.y.image + result]);
  }
  __device__ inline void end(int64_t element, const sum *v) const {
    to[element] = td_num<T>::store(v[0]);
  }
};

/* ---- running ------------------------------------------------------------- */

template <class T>
td_status *run_of(td_kernel_ctx *c, const td_conv_plan *p, td_tensor *to) {
  const td_conv *v = &p->conv;
  depth_sizes s = {conv_sizes_of(p), td_divider_by(v->in_channels),
                   td_divider_by(v->out_channels), p->rule.channels_first};
  const T *a = td_cuda_at<const T>(td_in(c, p->a));
  const T *b = td_cuda_at<const T>(td_in(c, p->b));
  int64_t n = td_tensor_count(to);
  if (p->pass == TD_CONV_WEIGHTS) {
    weights<T> f = {s, td_divider_by(n), a, b, td_cuda_at<T>(to)};
    return channels_run(c, channels_of(td_conv_places(v), n, 1), f);
  }
  if (p->pass == TD_CONV_DATA)
    return TD_LAUNCH(c, (data<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, s,
                     a, b, td_cuda_at<T>(to));
  return TD_LAUNCH(c, (forward<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, s,
                   a, b, td_cuda_at<T>(to));
}

td_status *run(td_kernel_ctx *c, td_conv_pass pass) {
  td_conv_plan p;
  td_tensor *y;
  bool over;
  TD_TRY(td_conv_plan_of(c, 2, true, pass, &p));
  TD_TRY(conv_begin(c, &p, &y, &over));
  if (over) return nullptr;
  switch ((int)y->dtype) {
  case TD_FLOAT16:
    return run_of<td_f16>(c, &p, y);
  case TD_BFLOAT16:
    return run_of<td_bf16>(c, &p, y);
  case TD_FLOAT32:
    return run_of<td_f32>(c, &p, y);
  case TD_FLOAT64:
    return run_of<td_f64>(c, &p, y);
  default:
    return td_cuda_no_type(c, p.a);
  }
}

td_status *run_forward(td_kernel_ctx *c) {
  return run(c, TD_CONV_FORWARD);
}
td_status *run_data(td_kernel_ctx *c) {
  return run(c, TD_CONV_DATA);
}
td_status *run_weights(td_kernel_ctx *c) {
  return run(c, TD_CONV_WEIGHTS);
}

#define ROW(name, run_)                                                        \
  {.op = "DepthwiseConv2dNative" name,                                         \
   .device = "CUDA",                                                           \
   .types = "T=half|bfloat16|float|double",                                    \
   .run = run_}

const td_kernel_def kernels[] = {
    ROW("", run_forward),
    ROW("BackpropInput", run_data),
    ROW("BackpropFilter", run_weights),
    {},
};

} // namespace

TD_CUDA_MODULE(conv_depthwise, kernels)
