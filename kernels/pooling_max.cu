/* pooling_max.cu - the largest cell of each window, its gradient and the
 * gradient of that, on a card.
 *
 * What goes where is said in pooling_max.c. The gradient of images notes for
 * each window which of its cells is the first largest, then every cell asks its
 * windows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/pooling.cuh"

namespace {

/* What rows of this family differ in. */
struct form {
  int rank;  /* of the tensors */
  int sizes; /* input that is ksize; -1: attributes */
};
constexpr form image = {4, -1}, volume = {5, -1};
constexpr form image_by_input = {4, 1}, gradient_by_input = {4, 3};

/* ---- the maximum --------------------------------------------------------- */

/* A NaN is never the larger, but as `start` gives way to all. */
template <class T>
__global__ void largest(int64_t n, pool_sizes s, double start, const T *x,
                        T *y) {
  typedef typename td_num<T>::in in;
  TD_EACH(i, n) {
    pool_at a = pool_where(s.out, s.inner, i);
    in top = (in)start;
    pool_cells(s, a, pool_window_of(s, a.at), [&](int32_t, int64_t k) {
      in v = td_num<T>::load(x[k]);
      if (v > top || top != top) top = v;
    });
    y[i] = td_num<T>::store(top);
  }
}

template <class T>
td_status *largest_of(td_kernel_ctx *c, const td_pooling *p, double start,
                      td_tensor *y) {
  int64_t n = td_tensor_count(y);
  return TD_LAUNCH(c, (largest<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   pool_sizes_of(p), start, td_cuda_at<const T>(td_in(c, 0)),
                   td_cuda_at<T>(y));
}

td_status *run_max(td_kernel_ctx *c, form f) {
  td_pooling p;
  td_tensor *y;
  TD_TRY(td_pooling_max_of(c, f.rank, f.sizes, &p));
  TD_TRY(td_out(c, 0, &p.out, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  double start = f.rank == 4 ? td_pooling_lowest(y->dtype) : (double)NAN;
  POOL_REALS(y->dtype, largest_of, c, &p, start, y)
}

/* ---- gradients ----------------------------------------------------------- */

template <class T>
__global__ void find(int64_t n, pool_sizes s, const T *x, int32_t *where) {
  TD_EACH(i, n) {
    pool_at a = pool_where(s.out, s.inner, i);
    typename td_num<T>::in best;
    where[i] = pool_find(s, a, pool_window_of(s, a.at), x, &best);
  }
}

/* To the first of the largest. */
template <class T>
__global__ void give_first(int64_t n, pool_sizes s, const int32_t *where,
                           const T *dy, T *dx) {
  typedef typename td_num<T>::in in;
  TD_EACH(i, n) {
    pool_at a = pool_where(s.in, s.inner, i);
    in sum = 0;
    pool_windows(s, a, [&](int64_t k, const pool_window &w) {
      if (where[k] == pool_number(w, a.at))
        sum = (in)(sum + td_num<T>::load(dy[k]));
    });
    dx[i] = td_num<T>::store(sum);
  }
}

/* To all that are the largest. */
template <class T>
__global__ void give_equal(int64_t n, pool_sizes s, const T *x, const T *y,
                           const T *dy, T *dx) {
  typedef typename td_num<T>::in in;
  TD_EACH(i, n) {
    in v = td_num<T>::load(x[i]), sum = 0;
    pool_windows(s, pool_where(s.in, s.inner, i),
                 [&](int64_t k, const pool_window &) {
                   if (v == td_num<T>::load(y[k]))
                     sum = (in)(sum + td_num<T>::load(dy[k]));
                 });
    dx[i] = td_num<T>::store(sum);
  }
}

/* From the first that is the largest; 0 where none is. */
template <class T>
__global__ void take_first(int64_t n, pool_sizes s, const T *x, const T *y,
                           const T *g, T *z) {
  typedef typename td_num<T>::in in;
  TD_EACH(i, n) {
    pool_at a = pool_where(s.out, s.inner, i);
    in top = td_num<T>::load(y[i]), got = 0;
    bool found = false;
    pool_cells(s, a, pool_window_of(s, a.at), [&](int32_t, int64_t k) {
      if (found || !(td_num<T>::load(x[k]) == top)) return;
      found = true;
      got = td_num<T>::load(g[k]);
    });
    z[i] = td_num<T>::store(got);
  }
}

template <class T>
td_status *first_of(td_kernel_ctx *c, const td_pooling *p, td_tensor *dx) {
  int64_t n = td_tensor_count(dx), outputs = td_shape_count(&p->out);
  td_tensor memory = {};
  TD_TRY(td_temp(c, TD_INT32, &p->out, &memory));
  int32_t *where = td_cuda_at<int32_t>(&memory);
  td_status *s = nullptr;
  if (outputs > 0)
    s = TD_LAUNCH(c, (find<T>), td_cuda_grid(c, outputs), TD_CUDA_BLOCK, 0,
                  outputs, pool_sizes_of(p),
                  td_cuda_at<const T>(td_in(c, 0)), where);
  if (td_ok(s))
    s = TD_LAUNCH(c, (give_first<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                  pool_sizes_of(p), where, td_cuda_at<const T>(td_in(c, 2)),
                  td_cuda_at<T>(dx));
  td_tensor_release(&memory);
  return s;
}

template <class T>
td_status *equal_of(td_kernel_ctx *c, const td_pooling *p, td_tensor *dx) {
  int64_t n = td_tensor_count(dx);
  return TD_LAUNCH(c, (give_equal<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   pool_sizes_of(p), td_cuda_at<const T>(td_in(c, 0)),
                   td_cuda_at<const T>(td_in(c, 1)),
                   td_cuda_at<const T>(td_in(c, 2)), td_cuda_at<T>(dx));
}

template <class T>
td_status *second_of(td_kernel_ctx *c, const td_pooling *p, td_tensor *z) {
  int64_t n = td_tensor_count(z);
  return TD_LAUNCH(c, (take_first<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   pool_sizes_of(p), td_cuda_at<const T>(td_in(c, 0)),
                   td_cuda_at<const T>(td_in(c, 1)),
                   td_cuda_at<const T>(td_in(c, 2)), td_cuda_at<T>(z));
}

td_status *run_grad(td_kernel_ctx *c, form f, bool second) {
  td_pooling p;
  td_tensor *to;
  TD_TRY(td_pooling_max_grad_of(c, f.rank, f.sizes, second, &p));
  TD_TRY(td_out(c, 0, second ? &p.out : &p.in, &to));
  if (td_tensor_count(to) == 0) return nullptr;
  if (second) POOL_REALS(to->dtype, second_of, c, &p, to)
  if (f.rank == 4) POOL_REALS(to->dtype, first_of, c, &p, to)
  POOL_FLOATS(to->dtype, equal_of, c, &p, to)
}

/* ---- rows ---------------------------------------------------------------- */

#define RUN(name, call)                                                        \
  td_status *run_##name(td_kernel_ctx *c) { return call; }
RUN(pool, run_max(c, image))
RUN(pool_v2, run_max(c, image_by_input))
RUN(pool_3d, run_max(c, volume))
RUN(pool_grad, run_grad(c, image, false))
RUN(pool_grad_v2, run_grad(c, gradient_by_input, false))
RUN(pool_grad_3d, run_grad(c, volume, false))
RUN(pool_second, run_grad(c, image, true))
RUN(pool_second_v2, run_grad(c, gradient_by_input, true))
RUN(pool_second_3d, run_grad(c, volume, true))

#define ROW(op_, types_, f)                                                    \
  {.op = op_, .device = "CUDA", .types = types_, .run = run_##f}

const td_kernel_def kernels[] = {
    ROW("MaxPool", TYPES_REALS, pool),
    ROW("MaxPoolV2", TYPES_REALS, pool_v2),
    ROW("MaxPoolGrad", TYPES_REALS, pool_grad),
    ROW("MaxPoolGradV2", TYPES_REALS, pool_grad_v2),
    ROW("MaxPoolGradGrad", TYPES_REALS, pool_second),
    ROW("MaxPoolGradGradV2", TYPES_REALS, pool_second_v2),
    ROW("MaxPool3D", "T=half|bfloat16|float", pool_3d),
    ROW("MaxPool3DGrad", "T=half, TInput=half", pool_grad_3d),
    ROW("MaxPool3DGrad", "T=bfloat16, TInput=bfloat16", pool_grad_3d),
    ROW("MaxPool3DGrad", "T=float, TInput=float", pool_grad_3d),
    ROW("MaxPool3DGradGrad", TYPES_REALS, pool_second_3d),
    {},
};

} // namespace

TD_CUDA_MODULE(pooling_max, kernels)
