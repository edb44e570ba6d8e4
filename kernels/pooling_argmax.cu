/* pooling_argmax.cu - the largest cell of each window with its place, and the
 * gradient that goes there, on a card.
 *
 * A place is mostly one of the window it was found in: every cell asks the
 * windows it lies in. Operands may name any others, too: such strays are noted,
 * and where there are some a block for each image adds them in their order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/pooling.cuh"

namespace {

/* ---- MaxPoolWithArgmax --------------------------------------------------- */

template <class T, class P>
__global__ void find(int64_t n, pool_sizes s, int64_t images, const T *x, T *y,
                     P *places) {
  typedef typename td_num<T>::in in;
  TD_EACH(i, n) {
    pool_at a = pool_where(s.out, s.inner, i);
    pool_window w = pool_window_of(s, a.at);
    in best = 0;
    int64_t number = pool_find(s, a, w, x, &best);
    if (number < 0) number = 0;
    int64_t row = w.count[2] ? number / w.count[2] : 0;
    int64_t v = w.begin[2] + number - row * w.count[2];
    int64_t cell = pool_cell(s, 0, 0, w.begin[1] + row, v);
    y[i] = td_num<T>::store(best);
    places[i] = (P)(cell * s.inner.by + a.inner + a.outer * images);
  }
}

template <class T>
td_status *find_of(td_kernel_ctx *c, const td_pooling *p, int64_t images,
                   td_tensor *y, td_tensor *places) {
  const T *x = td_cuda_at<const T>(td_in(c, 0));
  int64_t n = td_tensor_count(y);
  if (places->dtype == TD_INT64)
    return TD_LAUNCH(c, (find<T, int64_t>), td_cuda_grid(c, n), TD_CUDA_BLOCK,
                     0, n, pool_sizes_of(p), images, x, td_cuda_at<T>(y),
                     td_cuda_at<int64_t>(places));
  return TD_LAUNCH(c, (find<T, int32_t>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                   n, pool_sizes_of(p), images, x, td_cuda_at<T>(y),
                   td_cuda_at<int32_t>(places));
}

td_status *run_argmax(td_kernel_ctx *c) {
  td_pooling p;
  td_tensor *y, *places;
  int64_t images;
  TD_TRY(td_pooling_argmax_of(c, &p, &images));
  TD_TRY(td_out(c, 0, &p.out, &y));
  TD_TRY(td_out(c, 1, &p.out, &places));
  if (td_tensor_count(y) == 0) return nullptr;
  POOL_REALS(y->dtype, find_of, c, &p, images, y, places)
}

/* ---- MaxPoolGradWithArgmax ----------------------------------------------- */

template <class P> struct given {
  const P *places;
  int64_t images, in; /* as in td_pooling_argmax_of; elements of an image */
  td_divider out;      /* elements of an image of the result */
  int *strays;        /* becomes 1 where there are some */

  /* The place of element i in its image; -1: none. */
  __device__ inline int64_t place(int64_t i, int64_t *image) const {
    int64_t rest;
    *image = out.split(i, &rest);
    int64_t at = (int64_t)places[i] - *image * images;
    return at < 0 || at >= in ? -1 : at;
  }
};

/* Does the window of output i have this place? */
__device__ inline bool is_own(const pool_sizes &s, int64_t i, int64_t place) {
  pool_at a = pool_where(s.out, s.inner, i);
  pool_at cell = pool_where(s.in, s.inner, place);
  if (cell.inner != a.inner) return false;
  pool_window w = pool_window_of(s, a.at);
  for (int k = 0; k < 3; k++)
    if (cell.at[k] < w.begin[k] || cell.at[k] >= w.begin[k] + w.count[k])
      return false;
  return true;
}

template <class P>
__global__ void check(int64_t n, pool_sizes s, given<P> g,
                      td_cuda_report report) {
  TD_EACH(i, n) {
    int64_t image, place = g.place(i, &image);
    if (place < 0)
      td_cuda_tell(report, (long long)g.places[i], image * g.images + g.in);
    else if (!is_own(s, i, place))
      atomicOr(g.strays, 1);
  }
}

template <class T, class P>
__global__ void give(int64_t n, pool_sizes s, given<P> g, const T *dy, T *dx) {
  typedef typename td_num<T>::in in;
  TD_EACH(i, n) {
    pool_at a = pool_where(s.in, s.inner, i);
    int64_t own = pool_cell(s, 0, a.at[0], a.at[1], a.at[2]) * s.inner.by +
                  a.inner + a.outer * g.images;
    in sum = 0;
    pool_windows(s, a, [&](int64_t k, const pool_window &) {
      if ((int64_t)g.places[k] == own)
        sum = (in)(sum + td_num<T>::load(dy[k]));
    });
    dx[i] = td_num<T>::store(sum);
  }
}

/* A block looks at 256 elements at a time; its first thread adds. */
template <class T, class P>
__global__ void give_strays(int64_t batch, pool_sizes s, given<P> g,
                            const T *dy, T *dx) {
  typedef typename td_num<T>::in in;
  __shared__ int64_t to[TD_CUDA_BLOCK];
  if (*g.strays == 0) return;
  for (int64_t b = blockIdx.x; b < batch; b += gridDim.x)
    for (int64_t first = 0; first < g.out.by; first += TD_CUDA_BLOCK) {
      int64_t k = first + threadIdx.x, i = b * g.out.by + k, image, place = -1;
      if (k < g.out.by) place = g.place(i, &image);
      if (place >= 0 && is_own(s, i, place)) place = -1;
      to[threadIdx.x] = place;
      __syncthreads();
      for (int t = 0; t < TD_CUDA_BLOCK && threadIdx.x == 0; t++) {
        if (to[t] < 0) continue;
        T *at = dx + b * g.in + to[t];
        *at = td_num<T>::store((in)(td_num<T>::load(*at) +
                                    td_num<T>::load(dy[i + t])));
      }
      __syncthreads();
    }
}

template <class T, class P>
td_status *give_by(td_kernel_ctx *c, const td_pooling *p, given<P> g,
                   td_tensor *dx) {
  td_cuda_report report = td_cuda_report_of(
      c, "a place in argmax is %lld, which is none of its image, whose places "
         "end before %lld");
  int64_t n = td_shape_count(&p->out), cells = td_tensor_count(dx);
  int64_t batch = p->in.dim[0];
  const T *dy = td_cuda_at<const T>(td_in(c, 1));
  pool_sizes s = pool_sizes_of(p);
  g.places = td_cuda_at<const P>(td_in(c, 2));
  if (n > 0)
    TD_TRY(TD_LAUNCH(c, (check<P>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, s,
                     g, report));
  TD_TRY(TD_LAUNCH(c, (give<T, P>), td_cuda_grid(c, cells), TD_CUDA_BLOCK, 0,
                   cells, s, g, dy, td_cuda_at<T>(dx)));
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (give_strays<T, P>), td_cuda_grid(c, batch * 256),
                   TD_CUDA_BLOCK, 0, batch, s, g, dy, td_cuda_at<T>(dx));
}

template <class T>
td_status *give_of(td_kernel_ctx *c, const td_pooling *p, int64_t images,
                   td_tensor *dx) {
  int64_t in = td_shape_span(&p->in, 1, 4);
  td_divider out = td_divider_by(td_shape_span(&p->out, 1, 4));
  td_shape one = td_shape_scalar();
  td_tensor word = {};
  TD_TRY(td_temp(c, TD_INT32, &one, &word));
  int *strays = td_cuda_at<int>(&word);
  td_status *s =
      td_cuda_ok(cudaMemsetAsync(strays, 0, sizeof *strays, td_cuda_stream(c)),
                 "zeros");
  if (td_ok(s) && td_in(c, 2)->dtype == TD_INT64)
    s = give_by<T>(c, p, given<int64_t>{nullptr, images, in, out, strays}, dx);
  else if (td_ok(s))
    s = give_by<T>(c, p, given<int32_t>{nullptr, images, in, out, strays}, dx);
  td_tensor_release(&word);
  return s;
}

td_status *run_grad(td_kernel_ctx *c) {
  td_pooling p;
  td_tensor *dx;
  int64_t images;
  TD_TRY(td_pooling_argmax_grad_of(c, &p, &images));
  TD_TRY(td_out(c, 0, &p.in, &dx));
  if (td_tensor_count(dx) == 0) return nullptr;
  POOL_REALS(dx->dtype, give_of, c, &p, images, dx)
}

#define ROW(op_, run_)                                                         \
  {.op = op_, .device = "CUDA", .types = TYPES_REALS, .run = run_}

const td_kernel_def kernels[] = {
    ROW("MaxPoolWithArgmax", run_argmax),
    ROW("MaxPoolGradWithArgmax", run_grad),
    {},
};

} // namespace

TD_CUDA_MODULE(pooling_argmax, kernels)
