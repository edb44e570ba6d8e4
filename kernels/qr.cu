/* qr.cu - Qr on a card, by Householder's reflections; signs are LAPACK's.
 *
 * A reflection is 1 - tau v v^H with v beginning with 1, and the rest of it
 * where the zeros are that it makes (Golub and Van Loan, 5.2.2).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/linalg.cuh"

namespace {

struct qr_job {
  int64_t count;
  int m, n, columns; /* of Q; rows of R */
};

/* The length of rows [first, m) of column j; all threads have it. Scaled, so
 * that no square overflows. */
template <class T>
__device__ typename linalg_real<T>::type qr_length(const T *a, int m,
                                                   int n, int first,
                                                   int j) {
  typedef typename linalg_real<T>::type real;
  real most = 0, sum = 0;
  LINALG_EACH(i, m - first) {
    real size = linalg_size(a[(first + i) * n + j]);
    if (size > most || size != size) most = size;
  }
  most = group_join<group_larger, 256>(most);
  LINALG_EACH(i, m - first) {
    real size = linalg_size(a[(first + i) * n + j]);
    if (size != 0) sum += (size / most) * (size / most);
  }
  sum = group_join<group_add, 256>(sum);
  return sum == 0 ? sum : most * td_num_sqrt(sum);
}

/* Makes the reflection that leaves of column j, from row j on, one real number;
 * its tau. */
template <class T>
__device__ T qr_reflection(T *a, int m, int n, int j) {
  typedef typename linalg_real<T>::type real;
  real rest = qr_length(a, m, n, j + 1, j);
  T alpha = a[j * n + j];
  real re = linalg_re(alpha), im = linalg_im(alpha);
  if (rest == 0 && im == 0) return T(0);
  real beta = -copysign(hypot(hypot(re, im), rest), re);
  T scale = T(1) / (alpha - T(beta));
  __syncthreads(); /* all have read it */
  LINALG_EACH(i, m - j - 1) a[(j + 1 + i) * n + j] *= scale;
  if (threadIdx.x == 0) a[j * n + j] = T(beta);
  __syncthreads();
  return linalg_from<T>((beta - re) / beta, -im / beta);
}

/* Columns [first, last) of x, `width` of them in memory, are reflected by v,
 * column j of a; a thread does a column. */
template <class T>
__device__ void qr_reflect(const T *a, int m, int n, int j, T tau,
                           T *x, int width, int first, int last) {
  if (tau == T(0)) return;
  LINALG_EACH(e, last - first) {
    T *column = x + first + e;
    T sum = column[j * width];
    for (int i = j + 1; i < m; i++)
      sum += td_num_conj(a[i * n + j]) * column[i * width];
    sum = sum * tau;
    column[j * width] -= sum;
    for (int i = j + 1; i < m; i++)
      column[i * width] -= a[i * n + j] * sum;
  }
}

template <class T>
__global__ void __launch_bounds__(TD_CUDA_BLOCK)
    qr(qr_job s, const T *from, T *work, T *taus, T *q_to, T *r_to) {
  int m = s.m, n = s.n, least = m < n ? m : n;
  int64_t z = blockIdx.x;
  T *a = work + z * m * n, *tau = taus + z * least;
  T *q = q_to + z * m * s.columns, *r = r_to + z * s.columns * n;
  LINALG_EACH(e, m * n) a[e] = from[z * m * n + e];
  __syncthreads();
  for (int j = 0; j < least; j++) {
    T t = qr_reflection(a, m, n, j);
    if (threadIdx.x == 0) tau[j] = t;
    qr_reflect(a, m, n, j, td_num_conj(t), a, n, j + 1, n);
    __syncthreads();
  }
  LINALG_CELLS(i, s.columns, k, n)
    r[i * n + k] = k < i ? T(0) : a[i * n + k];
  LINALG_CELLS(i, m, k, s.columns)
    q[i * s.columns + k] = T(i == k ? 1 : 0);
  for (int j = least - 1; j >= 0; j--) {
    __syncthreads();
    qr_reflect(a, m, n, j, tau[j], q, s.columns, j, s.columns);
  }
}

/* ---- running ------------------------------------------------------------- */

template <class T>
td_status *qr_of(td_kernel_ctx *c, const qr_job &s, td_tensor *q,
                 td_tensor *r) {
  td_tensor work = {}, taus = {};
  td_status *st = linalg_temp(c, s.count, s.m * s.n, sizeof(T), &work);
  if (td_ok(st))
    st = linalg_temp(c, s.count, s.m < s.n ? s.m : s.n, sizeof(T), &taus);
  if (td_ok(st))
    st = TD_LAUNCH(c, (qr<T>), linalg_grid(s.count), TD_CUDA_BLOCK, 0, s,
                   td_cuda_at<const T>(td_in(c, 0)), td_cuda_at<T>(&work),
                   td_cuda_at<T>(&taus), td_cuda_at<T>(q), td_cuda_at<T>(r));
  td_tensor_release(&work);
  td_tensor_release(&taus);
  return st;
}

td_status *qr_run(td_kernel_ctx *c) {
  const td_shape *s = &td_in(c, 0)->shape;
  td_shape q, r;
  td_tensor *q_out, *r_out;
  TD_TRY(td_linalg_matrices(s, "input"));
  td_linalg_qr_shapes(s, td_node_bool(td_ctx_node(c), "full_matrices"), &q, &r);
  TD_TRY(td_array_count(&q, nullptr));
  TD_TRY(td_array_count(&r, nullptr));
  TD_TRY(td_out(c, 0, &q, &q_out));
  TD_TRY(td_out(c, 1, &r, &r_out));
  if (td_tensor_count(q_out) + td_tensor_count(r_out) == 0) return nullptr;
  int64_t m = s->dim[s->rank - 2], n = s->dim[s->rank - 1];
  int64_t columns = q.dim[q.rank - 1];
  TD_TRY(linalg_check(m, n > columns ? n : columns, 0));
  qr_job job = {td_linalg_count(s), (int)m, (int)n, (int)columns};
  LINALG_BY_TYPE(c, qr_of, c, job, q_out, r_out)
}

const td_kernel_def kernels[] = {
    {.op = "Qr", .device = "CUDA", .types = LINALG_TYPES, .run = qr_run},
    {},
};

} // namespace

TD_CUDA_MODULE(qr, kernels)
