/* conv.cu - convolutions of two and three axes and their gradients on a card.
 *
 * Each is a sum of products (tile.cuh) whose operands are looked up where they
 * are, in either layout: nothing is copied into columns. With a window of w
 * places, D channels of a group in and W out:
 *
 *   forward   places x W of y      = places x (w D) of x, filter
 *   data      cells x D of x       = cells x (w W) of y, filter turned around
 *   weights   (w D) x W of filter  = x, y over all places
 *
 * This is for where cuDNN is not, or has no way (cudnn.h). Groups are a batch.
 * A depthwise convolution, whose groups have one channel, is in
 * conv_depthwise.cu.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/conv.cuh"
#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/tile.cuh"

namespace {

/* ---- operands ------------------------------------------------------------ */

/* What is the same of a line or a step that is a place of the result, a cell
 * of the input, an offset in a window. */
struct spot {
  int64_t image, at[3];
};
struct offset {
  int64_t at[3], channel;
};

/* An image's place among all of them. */
__device__ inline spot spot_of(const td_divider *axes, int64_t i) {
  spot s;
  i = axes[2].split(i, &s.at[2]);
  i = axes[1].split(i, &s.at[1]);
  s.image = axes[0].split(i, &s.at[0]);
  return s;
}

/* An element of a window, its channels innermost. */
__device__ inline offset offset_of(const conv_sizes &c, const td_divider &deep,
                                   int64_t i) {
  offset o;
  i = deep.split(i, &o.channel);
  i = c.filter[2].split(i, &o.at[2]);
  o.at[0] = c.filter[1].split(i, &o.at[1]);
  return o;
}

/* A place or an offset: where it is along the axes of x, and in its memory. Of
 * one of each both are added. */
struct half_way {
  int64_t base;
  int32_t at[3];
};

__device__ inline half_way from_place(const conv_sizes &c, int64_t group,
                                      int64_t i) {
  spot s = spot_of(c.out, i);
  half_way h = {s.image * c.x.image + group * c.deep.by * c.x.channel, {}};
  for (int k = 0; k < 3; k++) {
    h.at[k] = (int32_t)(s.at[k] * c.stride[k].by - c.before[k]);
    h.base += h.at[k] * c.x.axis[k];
  }
  return h;
}

__device__ inline half_way from_offset(const conv_sizes &c, int64_t i) {
  offset o = offset_of(c, c.deep, i);
  half_way h = {o.channel * c.x.channel, {}};
  for (int k = 0; k < 3; k++) {
    h.at[k] = (int32_t)(o.at[k] * c.dilation[k]);
    h.base += h.at[k] * c.x.axis[k];
  }
  return h;
}

/* x, by place and by offset in the window: lines are one, steps the other. */
template <class T> struct seen {
  typedef typename td_num<T>::in in;
  typedef half_way line;
  typedef half_way step;
  conv_sizes c;
  const T *x;

  __device__ inline in at(const half_way &l, const half_way &s) const {
    for (int k = 0; k < 3; k++) {
      uint32_t cell = (uint32_t)(l.at[k] + s.at[k]);
      if (cell >= (uint32_t)c.in[k].by) return 0;
    }
    return td_num<T>::load(x[l.base + s.base]);
  }
};

/* Forward: lines are places. */
template <class T> struct windows : seen<T> {
  __device__ inline bool inner() const { return this->c.x.channel == 1; }
  __device__ inline half_way line_of(int64_t group, int64_t i) const {
    return from_place(this->c, group, i);
  }
  __device__ inline half_way step_of(int64_t k) const {
    return from_offset(this->c, k);
  }
};

/* Gradient of the filter: lines are offsets. */
template <class T> struct offsets : seen<T> {
  __device__ inline bool inner() const { return this->c.x.channel != 1; }
  __device__ inline half_way line_of(int64_t group, int64_t i) const {
    half_way h = from_offset(this->c, i);
    h.base += group * this->c.deep.by * this->c.x.channel;
    return h;
  }
  __device__ inline half_way step_of(int64_t k) const {
    return from_place(this->c, 0, k);
  }
};

/* y by cell of the input and offset: which place sees the cell there. */
template <class T> struct seers {
  typedef typename td_num<T>::in in;
  typedef half_way line;
  typedef half_way step;
  conv_sizes c;
  const T *y;

  __device__ inline bool inner() const { return c.y.channel == 1; }
  __device__ inline half_way line_of(int64_t group, int64_t i) const {
    spot s = spot_of(c.in, i);
    half_way h = {s.image * c.y.image + group * c.wide.by * c.y.channel, {}};
    for (int k = 0; k < 3; k++) h.at[k] = (int32_t)(s.at[k] + c.before[k]);
    return h;
  }
  __device__ inline half_way step_of(int64_t i) const {
    offset o = offset_of(c, c.wide, i);
    half_way h = {o.channel * c.y.channel, {}};
    for (int k = 0; k < 3; k++) h.at[k] = (int32_t)(-o.at[k] * c.dilation[k]);
    return h;
  }
  __device__ inline in at(const half_way &l, const half_way &s) const {
    int64_t at = l.base + s.base;
    for (int k = 0; k < 3; k++) {
      int32_t far = l.at[k] + s.at[k];
      int64_t rest;
      if (far < 0) return 0;
      int64_t place = c.stride[k].split(far, &rest);
      if (rest != 0 || place >= c.out[k].by) return 0;
      at += place * c.y.axis[k];
    }
    return td_num<T>::load(y[at]);
  }
};

/* y by channel and place. */
template <class T> struct results {
  typedef typename td_num<T>::in in;
  struct line {
    int64_t at;
  };
  struct step {
    int64_t at;
  };
  conv_sizes c;
  const T *y;

  __device__ inline bool inner() const { return c.y.channel != 1; }
  __device__ inline line line_of(int64_t group, int64_t i) const {
    return {(group * c.wide.by + i) * c.y.channel};
  }
  __device__ inline step step_of(int64_t k) const {
    spot s = spot_of(c.out, k);
    int64_t at = s.image * c.y.image;
    for (int i = 0; i < 3; i++) at += s.at[i] * c.y.axis[i];
    return {at};
  }
  __device__ inline in at(const line &l, const step &s) const {
    return td_num<T>::load(y[l.at + s.at]);
  }
};

/* The filter, {offsets, deep, channels out}, by channel out and element of a
 * window. */
template <class T> struct filters {
  typedef typename td_num<T>::in in;
  struct line {
    int64_t channel;
  };
  struct step {
    int64_t at;
  };
  const T *w;
  int64_t wide, all; /* channels out of a group, and together */

  __device__ inline bool inner() const { return false; }
  __device__ inline line line_of(int64_t group, int64_t i) const {
    return {group * wide + i};
  }
  __device__ inline step step_of(int64_t k) const { return {k * all}; }
  __device__ inline in at(const line &l, const step &s) const {
    return td_num<T>::load(w[s.at + l.channel]);
  }
};

/* The same by channel in, and by offset and channel out. */
template <class T> struct turned {
  typedef typename td_num<T>::in in;
  struct line {
    int64_t at;
  };
  struct step {
    int64_t at;
  };
  const T *w;
  td_divider wide;
  int64_t deep, all;

  __device__ inline bool inner() const { return true; }
  __device__ inline line line_of(int64_t group, int64_t i) const {
    return {i * all + group * wide.by};
  }
  __device__ inline step step_of(int64_t k) const {
    int64_t channel, place = wide.split(k, &channel);
    return {place * deep * all + channel};
  }
  __device__ inline in at(const line &l, const step &s) const {
    return td_num<T>::load(w[l.at + s.at]);
  }
};

/* ---- results ------------------------------------------------------------- */

/* Cells of x or places of y, and channels. */
template <class T> struct image_cells {
  T *to;
  conv_image of;
  td_divider axis[3];
  int64_t channels; /* of a group */

  __device__ inline void put(int64_t group, int64_t i, int64_t j,
                             typename td_num<T>::in v) const {
    spot s = spot_of(axis, i);
    int64_t at = s.image * of.image + (group * channels + j) * of.channel;
    for (int k = 0; k < 3; k++) at += s.at[k] * of.axis[k];
    to[at] = td_num<T>::store(v);
  }
};

template <class T> struct filter_cells {
  T *to;
  int64_t wide, all;

  __device__ inline void put(int64_t group, int64_t i, int64_t j,
                             typename td_num<T>::in v) const {
    to[i * all + group * wide + j] = td_num<T>::store(v);
  }
};

/* ---- running ------------------------------------------------------------- */

template <class T> struct conv_job {
  td_kernel_ctx *c;
  conv_sizes s;
  int64_t groups, places, cells, window, all;
  const T *a, *b;
  T *to;
};

template <class T> td_status *forward(const conv_job<T> &j) {
  int64_t deep = j.s.deep.by, wide = j.s.wide.by;
  td_tile s = tile_of(j.groups, j.places, wide, j.window * deep);
  image_cells<T> to = {
      j.to, j.s.y, {j.s.out[0], j.s.out[1], j.s.out[2]}, wide};
  return tile_run(j.c, s, windows<T>{{j.s, j.a}},
                  filters<T>{j.b, wide, j.all}, to);
}

template <class T> td_status *data(const conv_job<T> &j) {
  int64_t deep = j.s.deep.by, wide = j.s.wide.by;
  td_tile s = tile_of(j.groups, j.cells, deep, j.window * wide);
  image_cells<T> to = {j.to, j.s.x, {j.s.in[0], j.s.in[1], j.s.in[2]}, deep};
  return tile_run(j.c, s, seers<T>{j.s, j.b},
                  turned<T>{j.a, j.s.wide, deep, j.all}, to);
}

template <class T> td_status *weights(const conv_job<T> &j) {
  int64_t deep = j.s.deep.by, wide = j.s.wide.by;
  td_tile s = tile_of(j.groups, j.window * deep, wide, j.places);
  return tile_run(j.c, s, offsets<T>{{j.s, j.a}}, results<T>{j.s, j.b},
                  filter_cells<T>{j.to, wide, j.all});
}

template <class T>
td_status *run_of(td_kernel_ctx *c, const td_conv_plan *p, td_tensor *y) {
  const td_conv *v = &p->conv;
  conv_job<T> j = {c,
                   conv_sizes_of(p),
                   v->groups,
                   td_conv_places(v),
                   v->batch * v->in[0] * v->in[1] * v->in[2],
                   td_conv_window(v),
                   v->out_channels,
                   td_cuda_at<const T>(td_in(c, p->a)),
                   td_cuda_at<const T>(td_in(c, p->b)),
                   td_cuda_at<T>(y)};
  if (p->pass == TD_CONV_FORWARD) return forward<T>(j);
  if (p->pass == TD_CONV_DATA) return data<T>(j);
  if constexpr ((typename td_num<T>::in)0.5f != 0) return weights<T>(j);
  return td_cuda_no_type(c, p->a); /* integers have no such gradient */
}

td_status *run(td_kernel_ctx *c, int axes, td_conv_pass pass) {
  td_conv_plan p;
  td_tensor *y;
  bool over;
  TD_TRY(td_conv_plan_of(c, axes, false, pass, &p));
  TD_TRY(conv_begin(c, &p, &y, &over));
  if (over) return nullptr;
  TD_TRY(td_cudnn_convolve(c, &p, y, &over));
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
  case TD_INT32:
    return run_of<td_i32>(c, &p, y);
  default:
    return td_cuda_no_type(c, p.a);
  }
}

#define RUN(name, axes, pass)                                                  \
  td_status *name(td_kernel_ctx *c) { return run(c, axes, TD_CONV_##pass); }
RUN(run_conv2, 2, FORWARD)
RUN(run_conv2_data, 2, DATA)
RUN(run_conv2_weights, 2, WEIGHTS)
RUN(run_conv3, 3, FORWARD)
RUN(run_conv3_data, 3, DATA)
RUN(run_conv3_weights, 3, WEIGHTS)

#define TYPES "T=half|bfloat16|float|double"
#define ROW(op_, types_, run_)                                                 \
  {.op = op_, .device = "CUDA", .types = types_, .run = run_}

const td_kernel_def kernels[] = {
    ROW("Conv2D", TYPES "|int32", run_conv2),
    ROW("Conv2DBackpropInput", TYPES "|int32", run_conv2_data),
    ROW("Conv2DBackpropFilter", TYPES, run_conv2_weights),
    ROW("Conv3D", TYPES, run_conv3),
    ROW("Conv3DBackpropInputV2", TYPES, run_conv3_data),
    ROW("Conv3DBackpropFilterV2", TYPES, run_conv3_weights),
    {},
};

} // namespace

TD_CUDA_MODULE(conv, kernels)
