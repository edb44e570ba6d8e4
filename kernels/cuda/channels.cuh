/* channels.cuh - sums over all but the channels of a tensor, which is seen as
 * [outer, channels, inner]: the gradient of a bias, moments of a batch.
 *
 * What is summed and what becomes of the sums is said by a record:
 *
 *   struct mean {
 *     typedef double sum;
 *     static constexpr int sums = 1;
 *     const float *x; float *to; double n;
 *     __device__ void add(int64_t at, int64_t channel, sum *s) const {
 *       s[0] += x[at];
 *     }
 *     __device__ void end(int64_t channel, const sum *s) const {
 *       to[channel] = (float)(s[0] / n);
 *     }
 *   };
 *
 * A tensor is cut into parts by its sizes alone; parts are added in order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_CHANNELS_CUH
#define TD_CUDA_CHANNELS_CUH

#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/launch.cuh"

namespace {

struct td_channels {
  int64_t outer, channels, inner;
  td_divider by_channels, by_inner;
  int64_t part, parts; /* cells of a channel in a part */

  __device__ inline int64_t of(int64_t at) const {
    int64_t channel;
    by_channels.split(by_inner.quotient(at), &channel);
    return channel;
  }
};

static inline td_channels channels_of(int64_t outer, int64_t channels,
                                      int64_t inner) {
  return {outer,
          channels,
          inner,
          td_divider_by(channels),
          td_divider_by(inner),
          0,
          0};
}

enum { ACROSS = 32, DOWN = 8, CHANNEL_PARTS = 128, CHANNEL_LEAST = 1024 };

/* Where the sums of a part go; of one part they are the end. */
template <class F>
__device__ inline void channels_out(const td_channels &v, const F &f,
                                    int64_t channel, const typename F::sum *s,
                                    typename F::sum *to) {
  if (v.parts == 1) {
    f.end(channel, s);
    return;
  }
  for (int k = 0; k < F::sums; k++)
    to[((int64_t)blockIdx.y * F::sums + k) * v.channels + channel] = s[k];
}

/* Channels are neighbours: 32 of them, eight rows at a time. */
template <class F>
__global__ void channels_last(td_channels v, F f, typename F::sum *to) {
  __shared__ typename F::sum all[F::sums][DOWN][ACROSS + 1];
  int x = (int)threadIdx.x % ACROSS, y = (int)threadIdx.x / ACROSS;
  int64_t channel = (int64_t)blockIdx.x * ACROSS + x;
  int64_t begin = (int64_t)blockIdx.y * v.part;
  int64_t end = v.outer - begin < v.part ? v.outer : begin + v.part;
  typename F::sum s[F::sums] = {};
  if (channel < v.channels)
    for (int64_t row = begin + y; row < end; row += DOWN)
      f.add(row * v.channels + channel, channel, s);
  for (int k = 0; k < F::sums; k++) all[k][y][x] = s[k];
  __syncthreads();
  if (y > 0 || channel >= v.channels) return;
  for (int k = 0; k < F::sums; k++)
    for (int i = 1; i < DOWN; i++)
      s[k] = (typename F::sum)(s[k] + all[k][i][x]);
  channels_out(v, f, channel, s, to);
}

/* The cells of a channel are neighbours: a block for each. */
template <class F>
__global__ void channels_first(td_channels v, F f, typename F::sum *to) {
  __shared__ typename F::sum all[F::sums][TD_CUDA_BLOCK];
  int t = (int)threadIdx.x;
  int64_t cells = v.outer * v.inner, begin = (int64_t)blockIdx.y * v.part;
  int64_t end = cells - begin < v.part ? cells : begin + v.part;
  for (int64_t channel = blockIdx.x; channel < v.channels;
       channel += gridDim.x) {
    typename F::sum s[F::sums] = {};
    for (int64_t i = begin + t; i < end; i += TD_CUDA_BLOCK) {
      int64_t rest, image = v.by_inner.split(i, &rest);
      f.add((image * v.channels + channel) * v.inner + rest, channel, s);
    }
    for (int k = 0; k < F::sums; k++) all[k][t] = s[k];
    __syncthreads();
    for (int w = TD_CUDA_BLOCK / 2; w > 0; w /= 2) {
      if (t < w)
        for (int k = 0; k < F::sums; k++)
          all[k][t] = (typename F::sum)(all[k][t] + all[k][t + w]);
      __syncthreads();
    }
    if (t == 0) {
      for (int k = 0; k < F::sums; k++) s[k] = all[k][0];
      channels_out(v, f, channel, s, to);
    }
    __syncthreads();
  }
}

template <class F>
__global__ void channels_join(td_channels v, F f,
                              const typename F::sum *from) {
  TD_EACH(channel, v.channels) {
    typename F::sum s[F::sums] = {};
    for (int64_t p = 0; p < v.parts; p++)
      for (int k = 0; k < F::sums; k++)
        s[k] = (typename F::sum)(s[k] +
                                 from[(p * F::sums + k) * v.channels +
                                      channel]);
    f.end(channel, s);
  }
}

/* Ends every channel, those of no cells with sums of 0. */
template <class F>
td_status *channels_run(td_kernel_ctx *c, td_channels v, const F &f) {
  typedef typename F::sum sum;
  td_tensor memory = {};
  bool last = v.inner == 1;
  int64_t cells = v.outer * v.inner;
  int64_t blocks = last ? (v.channels + ACROSS - 1) / ACROSS : v.channels;
  if (v.channels == 0) return nullptr;
  int64_t most = cells / (last ? CHANNEL_LEAST / ACROSS : CHANNEL_LEAST);
  v.parts = 2 * CHANNEL_PARTS / blocks;
  if (v.parts > most) v.parts = most;
  if (v.parts > CHANNEL_PARTS) v.parts = CHANNEL_PARTS;
  if (v.parts < 1) v.parts = 1;
  v.part = (cells + v.parts - 1) / v.parts;
  if (cells > 0) v.parts = (cells + v.part - 1) / v.part;
  if (blocks > INT32_MAX) blocks = INT32_MAX;
  sum *to = nullptr;
  if (v.parts > 1) {
    td_shape shape =
        td_shape_vector(v.parts * F::sums * v.channels * (int64_t)sizeof(sum));
    TD_TRY(td_temp(c, TD_UINT8, &shape, &memory));
    to = td_cuda_at<sum>(&memory);
  }
  dim3 grid((unsigned)blocks, (unsigned)v.parts);
  td_status *s = last ? TD_LAUNCH(c, (channels_last<F>), grid, TD_CUDA_BLOCK, 0,
                                  v, f, to)
                      : TD_LAUNCH(c, (channels_first<F>), grid, TD_CUDA_BLOCK,
                                  0, v, f, to);
  if (td_ok(s) && v.parts > 1)
    s = TD_LAUNCH(c, (channels_join<F>), td_cuda_grid(c, v.channels),
                  TD_CUDA_BLOCK, 0, v, f, to);
  td_tensor_release(&memory);
  return s;
}

} // namespace

#endif
