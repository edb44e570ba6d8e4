/* cholesky.cu - triangles on a card: Cholesky, MatrixTriangularSolve.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/batches.cuh"
#include "kernels/cuda/linalg.cuh"

namespace {

/* ---- Cholesky ------------------------------------------------------------ */

/* Column j of L L^H = a, whose columns before it are done. False: a is not
 * positive definite. */
template <class T> __device__ bool cholesky_column(T *a, int n, int j) {
  typedef typename linalg_real<T>::type real;
  int below = n - j - 1;
  real d = linalg_re(a[j * n + j]);
  if (!(d > 0)) return false;
  real root = td_num_sqrt(d);
  __syncthreads(); /* all have read it */
  if (threadIdx.x == 0) a[j * n + j] = T(root);
  LINALG_EACH(i, below) {
    T *x = a + (j + 1 + i) * n + j;
    *x = *x / T(root);
  }
  __syncthreads();
  LINALG_CELLS(i, below, k, i + 1) {
    T *row = a + (j + 1 + i) * n;
    row[j + 1 + k] -= row[j] * td_num_conj(a[(j + 1 + k) * n + j]);
  }
  __syncthreads();
  return true;
}

/* The upper triangle is not looked at. */
template <class T>
__global__ void __launch_bounds__(TD_CUDA_BLOCK)
    cholesky(int n, const T *from, T *to) {
  typedef typename linalg_real<T>::type real;
  int64_t first = (int64_t)blockIdx.x * n * n;
  const T *x = from + first;
  T *a = to + first;
  bool good = true;
  LINALG_CELLS(i, n, k, n) a[i * n + k] = k > i ? T(0) : x[i * n + k];
  __syncthreads();
  for (int j = 0; j < n && good; j++) good = cholesky_column(a, n, j);
  __syncthreads();
  if (good) return;
  LINALG_CELLS(i, n, k, i + 1)
    a[i * n + k] = linalg_from<T>((real)NAN, (real)NAN);
}

template <class T> td_status *cholesky_of(td_kernel_ctx *c, td_tensor *y) {
  const td_shape *s = &y->shape;
  return TD_LAUNCH(c, (cholesky<T>), linalg_grid(td_linalg_count(s)),
                   TD_CUDA_BLOCK, 0, (int)s->dim[s->rank - 1],
                   td_cuda_at<const T>(td_in(c, 0)), td_cuda_at<T>(y));
}

td_status *cholesky_run(td_kernel_ctx *c) {
  td_tensor *y;
  const td_shape *s = &td_in(c, 0)->shape;
  TD_TRY(td_linalg_squares(s, "input"));
  TD_TRY(td_out(c, 0, s, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  TD_TRY(linalg_check(s->dim[s->rank - 1], s->dim[s->rank - 1], 0));
  LINALG_BY_TYPE(c, cholesky_of, c, y)
}

/* ---- triangular equations ------------------------------------------------ */

struct triangles {
  int64_t count;
  int n, columns;
  bool adjoint, lower; /* of the matrix as it is stored */
  batches a, b;
};

template <class T>
__global__ void __launch_bounds__(TD_CUDA_BLOCK)
    triangular(triangles s, const T *from, const T *rhs, T *to) {
  int64_t z = blockIdx.x;
  linalg_matrix<T> a = {from + s.a.at(z), s.n, s.adjoint};
  const T *b = rhs + s.b.at(z);
  T *x = to + z * s.n * s.columns;
  LINALG_CELLS(i, s.n, j, s.columns)
    x[(int64_t)i * s.columns + j] = b[(int64_t)i * s.columns + j];
  /* The adjoint of a lower matrix is an upper one. */
  linalg_substitute(a, s.n, s.columns, s.lower != s.adjoint, false, x);
}

template <class T>
td_status *triangular_of(td_kernel_ctx *c, const triangles &s, td_tensor *y) {
  return TD_LAUNCH(c, (triangular<T>), linalg_grid(s.count), TD_CUDA_BLOCK,
                   0, s, td_cuda_at<const T>(td_in(c, 0)),
                   td_cuda_at<const T>(td_in(c, 1)), td_cuda_at<T>(y));
}

td_status *triangular_run(td_kernel_ctx *c) {
  const td_shape *a = &td_in(c, 0)->shape, *b = &td_in(c, 1)->shape;
  td_shape out;
  td_tensor *y;
  TD_TRY(td_linalg_solve_shape(a, b, true, &out));
  TD_TRY(td_array_count(&out, nullptr));
  TD_TRY(td_out(c, 0, &out, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  TD_TRY(linalg_check(out.dim[out.rank - 2], out.dim[out.rank - 2],
                      out.dim[out.rank - 1]));
  triangles s = {.count = td_linalg_count(&out),
                 .n = (int)out.dim[out.rank - 2],
                 .columns = (int)out.dim[out.rank - 1],
                 .adjoint = td_node_bool(td_ctx_node(c), "adjoint"),
                 .lower = td_node_bool(td_ctx_node(c), "lower"),
                 .a = batches_of(a, &out),
                 .b = batches_of(b, &out)};
  LINALG_BY_TYPE(c, triangular_of, c, s, y)
}

/* ---- rows ---------------------------------------------------------------- */

#define ROW(op_, run_)                                                         \
  {.op = op_, .device = "CUDA", .types = LINALG_TYPES, .run = run_}

const td_kernel_def kernels[] = {
    ROW("Cholesky", cholesky_run),
    ROW("MatrixTriangularSolve", triangular_run),
    {},
};

} // namespace

TD_CUDA_MODULE(cholesky, kernels)
