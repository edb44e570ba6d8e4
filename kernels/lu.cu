/* lu.cu - what comes of P A = L U on a card: Lu, determinants, MatrixInverse,
 * MatrixSolve.
 *
 * The pivot of a column is its largest element, the first of equal ones, and
 * NaN only where it stands first, as in lu.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg.cuh"

namespace {

/* count matrices of n rows. */
struct lu_job {
  int64_t count;
  int n;
  bool adjoint; /* of their conjugated transposes */
  bool strict;  /* one that is not invertible is told */
  td_cuda_report report;
};

/* ---- factors ------------------------------------------------------------- */

/* All threads call. */
template <class T>
__device__ int lu_pivot(const T *a, int n, int j) {
  typedef typename linalg_real<T>::type real;
  __shared__ real size[TD_CUDA_BLOCK];
  __shared__ int row[TD_CUDA_BLOCK];
  int t = (int)threadIdx.x;
  real best = -1;
  int at = n;
  for (int i = j + t; i < n; i += TD_CUDA_BLOCK) {
    real s = linalg_size(a[i * n + j]);
    if (s > best) best = s, at = i;
  }
  size[t] = best;
  row[t] = at;
  __syncthreads();
  for (int by = TD_CUDA_BLOCK / 2; by > 0; by /= 2) {
    if (t < by && (size[t + by] > size[t] ||
                   (size[t + by] == size[t] && row[t + by] < row[t]))) {
      size[t] = size[t + by];
      row[t] = row[t + by];
    }
    __syncthreads();
  }
  real first = linalg_size(a[j * n + j]);
  at = first != first || row[0] == n ? j : row[0];
  __syncthreads();
  return at;
}

template <class T>
__device__ void lu_swap(T *a, int n, int i, int j) {
  if (i == j) return;
  LINALG_EACH(k, n) {
    T v = a[i * n + k];
    a[i * n + k] = a[j * n + k];
    a[j * n + k] = v;
  }
}

/* In place; row j was exchanged for row pivots[j], in the order of j. */
template <class T> __device__ void lu_factor(T *a, int n, int *pivots) {
  for (int j = 0; j < n; j++) {
    int best = lu_pivot(a, n, j), below = n - j - 1;
    if (threadIdx.x == 0) pivots[j] = best;
    lu_swap(a, n, j, best);
    __syncthreads();
    T pivot = a[j * n + j];
    if (pivot == T(0)) continue;
    linalg_over(a + (j + 1) * n + j, below, n, pivot);
    __syncthreads();
    LINALG_CELLS(i, below, k, below) {
      T *row = a + (j + 1 + i) * n;
      row[j + 1 + k] -= row[j] * a[j * n + j + 1 + k];
    }
    __syncthreads();
  }
}

/* Thread 0 asks: is a pivot 0, or NaN in front? */
template <class T> __device__ bool lu_singular(const T *a, int n) {
  if (a[0] != a[0]) return true;
  for (int i = 0; i < n; i++)
    if (a[i * (n + 1)] == T(0)) return true;
  return false;
}

template <class T>
__global__ void __launch_bounds__(TD_CUDA_BLOCK)
    lu_factors(lu_job job, const T *from, T *to, int *pivots) {
  int n = job.n;
  int64_t z = blockIdx.x;
  linalg_matrix<T> m = {from + z * n * n, n, job.adjoint};
  T *a = to + z * n * n;
  LINALG_CELLS(i, n, j, n) a[i * n + j] = m.at(i, j);
  __syncthreads();
  lu_factor(a, n, pivots + z * n);
  if (job.strict && threadIdx.x == 0 && lu_singular(a, n))
    td_cuda_tell(job.report, job.count == 1 ? n : z, job.count);
}

/* ---- running ------------------------------------------------------------- */

td_status *lu_begin(td_kernel_ctx *c, bool strict, lu_job *job) {
  const td_shape *s = &td_in(c, 0)->shape;
  TD_TRY(td_linalg_squares(s, "input"));
  int64_t n = s->dim[s->rank - 1];
  TD_TRY(linalg_check(n, n, 0));
  job->n = (int)n;
  job->count = td_linalg_count(s);
  job->strict = strict;
  return nullptr;
}

/* Factors of input 0, into `a` (count x n x n) and `pivots` (count x n). */
template <class T>
td_status *lu_run(td_kernel_ctx *c, lu_job job, T *a, int *pivots) {
  if (job.strict)
    job.report = td_cuda_report_of(
        c, job.count == 1 ? "the matrix of %lld rows is not invertible"
                          : "matrix %lld of %lld is not invertible");
  return TD_LAUNCH(c, (lu_factors<T>), linalg_grid(job.count),
                   TD_CUDA_BLOCK, 0, job, td_cuda_at<const T>(td_in(c, 0)), a,
                   pivots);
}

/* fn(a, pivots) with both in working memory. */
template <class T, class F>
td_status *lu_with(td_kernel_ctx *c, const lu_job &job, F fn) {
  td_tensor a = {}, pivots = {};
  td_status *s = linalg_temp(c, job.count, job.n * job.n, sizeof(T), &a);
  if (td_ok(s)) s = linalg_temp(c, job.count, job.n, sizeof(int), &pivots);
  if (td_ok(s))
    s = lu_run<T>(c, job, td_cuda_at<T>(&a), td_cuda_at<int>(&pivots));
  if (td_ok(s)) s = fn(td_cuda_at<T>(&a), td_cuda_at<int>(&pivots));
  td_tensor_release(&a);
  td_tensor_release(&pivots);
  return s;
}

/* ---- Lu ------------------------------------------------------------------ */

template <class I>
__global__ void lu_order(lu_job job, const int *pivots, I *to) {
  TD_EACH(z, job.count) {
    I *order = to + z * job.n;
    for (int k = 0; k < job.n; k++) order[k] = (I)k;
    for (int k = 0; k < job.n; k++) {
      int other = pivots[z * job.n + k];
      I row = order[k];
      order[k] = order[other];
      order[other] = row;
    }
  }
}

template <class T>
td_status *plain_of(td_kernel_ctx *c, const lu_job &job, td_tensor *y,
                    td_tensor *order) {
  td_tensor pivots = {};
  dim3 grid = td_cuda_grid(c, job.count);
  TD_TRY(linalg_temp(c, job.count, job.n, sizeof(int), &pivots));
  const int *at = td_cuda_at<const int>(&pivots);
  td_status *s =
      lu_run<T>(c, job, td_cuda_at<T>(y), td_cuda_at<int>(&pivots));
  if (td_ok(s) && order->dtype == TD_INT32)
    s = TD_LAUNCH(c, (lu_order<int32_t>), grid, TD_CUDA_BLOCK, 0, job, at,
                  td_cuda_at<int32_t>(order));
  else if (td_ok(s))
    s = TD_LAUNCH(c, (lu_order<int64_t>), grid, TD_CUDA_BLOCK, 0, job, at,
                  td_cuda_at<int64_t>(order));
  td_tensor_release(&pivots);
  return s;
}

td_status *plain_run(td_kernel_ctx *c) {
  lu_job job = {};
  td_tensor *y, *order;
  TD_TRY(lu_begin(c, true, &job));
  td_shape s = td_in(c, 0)->shape;
  TD_TRY(td_out(c, 0, &s, &y));
  s.rank -= 1;
  TD_TRY(td_out(c, 1, &s, &order));
  if (td_tensor_count(y) == 0) return nullptr;
  LINALG_BY_TYPE(c, plain_of, c, job, y, order)
}

/* ---- equations ----------------------------------------------------------- */

/* rhs NULL: the identity. */
template <class T>
__global__ void __launch_bounds__(TD_CUDA_BLOCK)
    lu_solve(lu_job job, int columns, const T *factors, const int *pivots,
             const T *rhs, T *to) {
  int n = job.n;
  int64_t z = blockIdx.x;
  linalg_matrix<T> a = {factors + z * n * n, n, false};
  const int *swaps = pivots + z * n;
  T *x = to + z * n * columns;
  LINALG_CELLS(i, n, j, columns)
    x[(int64_t)i * columns + j] =
        rhs ? rhs[(z * n + i) * columns + j] : T(i == j ? 1 : 0);
  __syncthreads();
  LINALG_EACH(j, columns)
    for (int k = 0; k < n; k++) {
      T *one = x + (int64_t)k * columns + j;
      T *other = x + (int64_t)swaps[k] * columns + j, v = *one;
      *one = *other;
      *other = v;
    }
  __syncthreads();
  linalg_substitute(a, n, columns, true, true, x);
  linalg_substitute(a, n, columns, false, false, x);
}

template <class T>
td_status *solve_of(td_kernel_ctx *c, const lu_job &job, int columns,
                    const td_tensor *rhs, td_tensor *y) {
  return lu_with<T>(c, job, [&](const T *a, const int *pivots) {
    return TD_LAUNCH(c, (lu_solve<T>), linalg_grid(job.count),
                     TD_CUDA_BLOCK, 0, job, columns, a, pivots,
                     rhs ? td_cuda_at<const T>(rhs) : nullptr,
                     td_cuda_at<T>(y));
  });
}

td_status *solve_run(td_kernel_ctx *c) {
  lu_job job = {};
  td_shape out;
  td_tensor *y;
  TD_TRY(td_linalg_solve_shape(&td_in(c, 0)->shape, &td_in(c, 1)->shape, false,
                               &out));
  TD_TRY(td_array_count(&out, nullptr));
  TD_TRY(td_out(c, 0, &out, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  TD_TRY(lu_begin(c, true, &job));
  job.adjoint = td_node_bool(td_ctx_node(c), "adjoint");
  int64_t columns = out.dim[out.rank - 1];
  TD_TRY(linalg_check(job.n, 1, columns));
  LINALG_BY_TYPE(c, solve_of, c, job, (int)columns, td_in(c, 1), y)
}

td_status *inverse_run(td_kernel_ctx *c) {
  lu_job job = {};
  td_tensor *y;
  TD_TRY(lu_begin(c, true, &job));
  TD_TRY(td_out(c, 0, &td_in(c, 0)->shape, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  job.adjoint = td_node_bool(td_ctx_node(c), "adjoint");
  LINALG_BY_TYPE(c, solve_of, c, job, job.n, nullptr, y)
}

/* ---- determinants -------------------------------------------------------- */

/* z 2^exponent, as in determinant.c: neither overflows on the way. */
struct lu_scaled {
  td_c128 z;
  double exponent;
};

__device__ inline double lu_scale(double x, double e) {
  return scalbn(x, (int)fmin(fmax(e, -5000.0), 5000.0));
}

__device__ inline void lu_multiply(lu_scaled *d, td_c128 z) {
  d->z = d->z * z;
  double size = fmax(fabs(d->z.re), fabs(d->z.im));
  if (size == 0 || !isfinite(size)) return;
  int e = ilogb(size) + 1;
  d->z = td_c128(lu_scale(d->z.re, -e), lu_scale(d->z.im, -e));
  d->exponent += e;
}

template <class T>
__device__ lu_scaled lu_determinant(const T *a, const int *pivots, int n) {
  lu_scaled d = {td_c128(1), 0};
  for (int k = 0; k < n; k++) {
    T v = a[k * (n + 1)];
    if (pivots[k] != k) d.z = -d.z;
    lu_multiply(&d, td_c128((double)linalg_re(v), (double)linalg_im(v)));
  }
  return d;
}

/* Of a singular matrix the sign is 0. */
__device__ inline td_c128 lu_sign(td_c128 z, double size) {
  if (size == 0) return td_c128(0);
  if (isinf(size)) return td_c128(z.re > 0 ? 1 : -1);
  return td_c128(z.re / size, z.im / size);
}

/* `second` NULL: the determinant; else its sign and its size's logarithm. */
template <class T>
__global__ void lu_determinants(lu_job job, const T *factors,
                                const int *pivots, T *to, T *second) {
  typedef typename linalg_real<T>::type real;
  TD_EACH(z, job.count) {
    int n = job.n;
    lu_scaled d = lu_determinant(factors + z * n * n, pivots + z * n, n);
    double size = td_complex_abs(d.z);
    td_c128 sign = lu_sign(d.z, size);
    if (second) {
      to[z] = linalg_from<T>((real)sign.re, (real)sign.im);
      second[z] =
          linalg_from<T>((real)(log(size) + d.exponent * M_LN2), (real)0);
    } else {
      to[z] = linalg_from<T>((real)lu_scale(d.z.re, d.exponent),
                             (real)lu_scale(d.z.im, d.exponent));
    }
  }
}

template <class T>
td_status *determinant_of(td_kernel_ctx *c, const lu_job &job, td_tensor *y,
                          td_tensor *second) {
  return lu_with<T>(c, job, [&](const T *a, const int *pivots) {
    return TD_LAUNCH(c, (lu_determinants<T>), td_cuda_grid(c, job.count),
                     TD_CUDA_BLOCK, 0, job, a, pivots, td_cuda_at<T>(y),
                     second ? td_cuda_at<T>(second) : nullptr);
  });
}

td_status *determinant(td_kernel_ctx *c, bool two) {
  lu_job job = {};
  td_tensor *y, *second = nullptr;
  TD_TRY(lu_begin(c, false, &job));
  td_shape s = td_in(c, 0)->shape;
  s.rank -= 2;
  TD_TRY(td_out(c, 0, &s, &y));
  if (two) TD_TRY(td_out(c, 1, &s, &second));
  if (td_tensor_count(y) == 0) return nullptr;
  LINALG_BY_TYPE(c, determinant_of, c, job, y, second)
}

td_status *determinant_run(td_kernel_ctx *c) {
  return determinant(c, false);
}

td_status *log_run(td_kernel_ctx *c) {
  return determinant(c, true);
}

/* ---- rows ---------------------------------------------------------------- */

#define ROW(op_, run_)                                                         \
  {.op = op_, .device = "CUDA", .types = LINALG_TYPES, .run = run_}

const td_kernel_def kernels[] = {
    ROW("Lu", plain_run),
    ROW("MatrixSolve", solve_run),
    ROW("MatrixInverse", inverse_run),
    ROW("MatrixDeterminant", determinant_run),
    ROW("LogMatrixDeterminant", log_run),
    {},
};

} // namespace

TD_CUDA_MODULE(lu, kernels)
