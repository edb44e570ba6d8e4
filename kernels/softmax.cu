/* softmax.cu - softmax, log-softmax and the cross entropies on a card.
 *
 * A row of logits is a warp's where it is short, else a block's. It is read for
 * its maximum, for the sum of exp(x - maximum) and for the result, which may be
 * written over it: each element by the thread that has read it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cross_entropy.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/group.cuh"

namespace {

enum { SHORT = 1024 };

/* ---- a row --------------------------------------------------------------- */

/* A matrix of logits or labels, perhaps repeated along an axis. */
template <class T> struct matrix {
  const T *at;
  int64_t row_step, step;

  typedef typename td_num<T>::in in;
  __device__ inline in get(int64_t row, int64_t i) const {
    return td_num<T>::load(at[row * row_step + i * step]);
  }
};

template <class T> struct moments {
  typename td_num<T>::in top, sum;
};

/* Of W threads, all with the same row. */
template <class T, int W>
__device__ inline moments<T> read_row(const matrix<T> &x, int64_t row,
                                      int64_t n) {
  typedef typename td_num<T>::in in;
  int lane = (int)threadIdx.x % W;
  in top = (in)-INFINITY, sum = 0;
  for (int64_t i = lane; i < n; i += W) {
    in v = x.get(row, i);
    if (v > top) top = v;
  }
  top = group_join<group_larger, W>(top);
  for (int64_t i = lane; i < n; i += W) sum += td_num_exp(x.get(row, i) - top);
  return {top, group_join<group_add, W>(sum)};
}

/* for each row of this group of W threads */
#define EACH_ROW(row, rows)                                                    \
  for (int64_t row = (int64_t)blockIdx.x * (256 / W) + threadIdx.x / W;        \
       row < (rows); row += (int64_t)gridDim.x * (256 / W))

/* ---- softmax ------------------------------------------------------------- */

template <class T, int W>
__global__ void softmax(int64_t rows, int64_t n, matrix<T> x, T *y, bool log) {
  typedef typename td_num<T>::in in;
  EACH_ROW(row, rows) {
    moments<T> m = read_row<T, W>(x, row, n);
    in log_sum = td_num_log(m.sum), scale = 1 / m.sum;
    for (int64_t i = threadIdx.x % W; i < n; i += W) {
      in z = x.get(row, i) - m.top;
      y[row * n + i] =
          td_num<T>::store(log ? z - log_sum : td_num_exp(z) * scale);
    }
  }
}

template <int W> unsigned grid_of(const td_kernel_ctx *c, int64_t rows) {
  return td_cuda_grid(c, rows * W).x;
}

template <class T> td_status *run_softmax_of(td_kernel_ctx *c, bool log) {
  td_tensor *y, x = *td_in(c, 0); /* the buffer may become the output's */
  int64_t rows, n;
  TD_TRY(td_softmax_size(c, &rows, &n));
  TD_TRY(td_out_like(c, 0, 0, &y));
  if (rows == 0 || n == 0) return nullptr;
  matrix<T> from = {td_cuda_at<const T>(&x), n, 1};
  if (n <= SHORT)
    return TD_LAUNCH(c, (softmax<T, 32>), grid_of<32>(c, rows), 256, 0, rows, n,
                     from, td_cuda_at<T>(y), log);
  return TD_LAUNCH(c, (softmax<T, 256>), grid_of<256>(c, rows), 256, 0, rows, n,
                   from, td_cuda_at<T>(y), log);
}

/* ---- dense labels -------------------------------------------------------- */

template <class T> struct both {
  T *loss, *back;
};

template <class T, int W>
__global__ void dense(int64_t rows, int64_t n, matrix<T> x, matrix<T> labels,
                      both<T> to) {
  typedef typename td_num<T>::in in;
  EACH_ROW(row, rows) {
    moments<T> m = read_row<T, W>(x, row, n);
    in log_sum = td_num_log(m.sum), scale = 1 / m.sum, loss = 0;
    for (int64_t i = threadIdx.x % W; i < n; i += W) {
      in z = x.get(row, i) - m.top, label = labels.get(row, i);
      loss += label * (log_sum - z);
      to.back[row * n + i] = td_num<T>::store(td_num_exp(z) * scale - label);
    }
    loss = group_join<group_add, W>(loss);
    if (threadIdx.x % W == 0) to.loss[row] = td_num<T>::store(loss);
  }
}

template <class T>
matrix<T> repeated(const td_tensor *t, const td_shape *shape) {
  int rank = t->shape.rank;
  int64_t n = rank > 0 ? t->shape.dim[rank - 1] : 1;
  int64_t rows = rank > 1 ? t->shape.dim[0] : 1;
  return {td_cuda_at<const T>(t), rows == shape->dim[0] && rows != 1 ? n : 0,
          n == 1 ? 0 : 1};
}

/* Makes both outputs. `own`: the gradient may take the logits' memory. */
template <class T>
td_status *make_both(td_kernel_ctx *c, const td_shape *shape, bool own,
                     both<T> *to) {
  td_shape losses = td_shape_vector(shape->dim[0]);
  td_tensor *loss, *back;
  TD_TRY(td_out(c, 0, &losses, &loss));
  TD_TRY(td_out_forward(c, 1, shape, own ? 0 : -1, -1, &back));
  *to = {td_cuda_at<T>(loss), td_cuda_at<T>(back)};
  return nullptr;
}

template <class T> td_status *run_dense_of(td_kernel_ctx *c) {
  td_shape shape;
  both<T> to;
  td_tensor x = *td_in(c, 0);
  TD_TRY(td_cross_entropy_dense(c, &shape));
  matrix<T> labels = repeated<T>(td_in(c, 1), &shape);
  matrix<T> from = repeated<T>(&x, &shape);
  TD_TRY(make_both(c, &shape, td_shape_equal(&x.shape, &shape), &to));
  int64_t rows = shape.dim[0], n = shape.dim[1];
  if (rows == 0) return nullptr;
  if (n <= SHORT)
    return TD_LAUNCH(c, (dense<T, 32>), grid_of<32>(c, rows), 256, 0, rows, n,
                     from, labels, to);
  return TD_LAUNCH(c, (dense<T, 256>), grid_of<256>(c, rows), 256, 0, rows, n,
                   from, labels, to);
}

/* ---- classes ------------------------------------------------------------- */

/* The thread that has the class's element makes the loss, too. Of a class that
 * is none all becomes NaN. */
template <class T, class L, int W>
__global__ void sparse(int64_t rows, int64_t n, matrix<T> x, const L *labels,
                       both<T> to, td_cuda_report report) {
  typedef typename td_num<T>::in in;
  EACH_ROW(row, rows) {
    moments<T> m = read_row<T, W>(x, row, n);
    int64_t label = (int64_t)labels[row];
    bool none = label < 0 || label >= n;
    in log_sum = td_num_log(m.sum), scale = 1 / m.sum;
    for (int64_t i = threadIdx.x % W; i < n; i += W) {
      in z = x.get(row, i) - m.top, back = td_num_exp(z) * scale;
      if (none) back = (in)NAN;
      if (i == label) back -= 1;
      if (i == label) to.loss[row] = td_num<T>::store(log_sum - z);
      to.back[row * n + i] = td_num<T>::store(back);
    }
    if (none && threadIdx.x % W == 0) {
      to.loss[row] = td_num<T>::store((in)NAN);
      td_cuda_tell(report, label, n);
    }
  }
}

template <class T, class L> td_status *run_sparse_of(td_kernel_ctx *c) {
  td_shape shape;
  both<T> to;
  td_tensor x = *td_in(c, 0);
  const L *labels = td_cuda_at<const L>(td_in(c, 1));
  td_cuda_report report =
      td_cuda_report_of(c, "a label is %lld, which is not in [0, %lld)");
  TD_TRY(td_cross_entropy_sparse(c, &shape));
  TD_TRY(make_both(c, &shape, true, &to));
  int64_t rows = shape.dim[0], n = shape.dim[1];
  if (rows == 0) return nullptr;
  matrix<T> from = {td_cuda_at<const T>(&x), n, 1};
  if (n <= SHORT)
    return TD_LAUNCH(c, (sparse<T, L, 32>), grid_of<32>(c, rows), 256, 0, rows,
                     n, from, labels, to, report);
  return TD_LAUNCH(c, (sparse<T, L, 256>), grid_of<256>(c, rows), 256, 0, rows,
                   n, from, labels, to, report);
}

/* ---- rows ---------------------------------------------------------------- */

/* What follows, with T for the logits' type. */
#define BY_FLOAT(...)                                                          \
  switch ((int)td_in(c, 0)->dtype) {                                           \
    CASE(f16, __VA_ARGS__)                                                     \
    CASE(bf16, __VA_ARGS__)                                                    \
    CASE(f32, __VA_ARGS__)                                                     \
    CASE(f64, __VA_ARGS__)                                                     \
  default:                                                                     \
    return td_cuda_no_type(c, 0);                                              \
  }
#define CASE(kind, ...)                                                        \
  case TD_ELEMENT_##kind: {                                                    \
    typedef td_##kind T;                                                       \
    return __VA_ARGS__;                                                        \
  }

td_status *run_softmax(td_kernel_ctx *c) {
  BY_FLOAT(run_softmax_of<T>(c, false))
}

td_status *run_log_softmax(td_kernel_ctx *c) {
  BY_FLOAT(run_softmax_of<T>(c, true))
}

td_status *run_dense(td_kernel_ctx *c) {
  BY_FLOAT(run_dense_of<T>(c))
}

td_status *run_sparse(td_kernel_ctx *c) {
  if (td_in(c, 1)->dtype == TD_INT32)
    BY_FLOAT(run_sparse_of<T, int32_t>(c))
  BY_FLOAT(run_sparse_of<T, int64_t>(c))
}

#define ROW(op_, run_) {.op = op_, .device = "CUDA", .run = run_}

const td_kernel_def kernels[] = {
    ROW("Softmax", run_softmax),
    ROW("LogSoftmax", run_log_softmax),
    ROW("SoftmaxCrossEntropyWithLogits", run_dense),
    ROW("SparseSoftmaxCrossEntropyWithLogits", run_sparse),
    {},
};

} // namespace

TD_CUDA_MODULE(softmax, kernels)
