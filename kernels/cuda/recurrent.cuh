/* recurrent.cuh - what the fused recurrent cells share on a card: operands as
 * floats, and products of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_RECURRENT_CUH
#define TD_CUDA_RECURRENT_CUH

#include "kernels/array.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/tile.cuh"
#include "kernels/recurrent.h"

namespace {

/* Operands and results as floats: their own or copies of halves, which `held`
 * has, as all working memory. */
struct recurrent {
  td_kernel_ctx *c;
  td_recurrent_sizes sizes;
  const float *in[TD_RECURRENT_ARGS];
  float *out[8];
  int n_out, n_held;
  td_tensor held[TD_RECURRENT_ARGS + 16];
};

/* ---- halves -------------------------------------------------------------- */

template <class F, class T>
__global__ void recurrent_copy(int64_t n, const F *from, T *to) {
  TD_EACH(i, n) to[i] = td_num<T>::store((float)td_num<F>::load(from[i]));
}

template <class F, class T>
td_status *recurrent_move(td_kernel_ctx *c, int64_t n, const F *from, T *to) {
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (recurrent_copy<F, T>), td_cuda_grid(c, n), TD_CUDA_BLOCK,
                   0, n, from, to);
}

/* ---- memory -------------------------------------------------------------- */

td_status *recurrent_temp(recurrent *r, int64_t rows, int64_t columns,
                          float **to) {
  td_shape shape = td_shape_matrix(rows, columns);
  td_tensor *t = &r->held[r->n_held];
  TD_TRY(td_array_count(&shape, nullptr));
  TD_TRY(td_temp(r->c, TD_FLOAT32, &shape, t));
  r->n_held++;
  *to = td_cuda_at<float>(t);
  return nullptr;
}

td_status *recurrent_begin(td_kernel_ctx *c, const td_recurrent_arg *args,
                           const char *const *outs, recurrent *r) {
  r->c = c;
  TD_TRY(td_recurrent_check(c, args, &r->sizes));
  for (int i = 0; args[i].name; i++) {
    const td_tensor *t = td_in(c, i);
    int64_t n = td_tensor_count(t);
    float *wide;
    r->in[i] = td_cuda_at<const float>(t); /* of one on the host not used */
    if (t->dtype != TD_FLOAT16) continue;
    TD_TRY(recurrent_temp(r, 1, n, &wide));
    TD_TRY(recurrent_move(c, n, td_cuda_at<const td_f16>(t), wide));
    r->in[i] = wide;
  }
  for (; outs[r->n_out]; r->n_out++) {
    td_shape shape = td_recurrent_shape(&r->sizes, outs[r->n_out]);
    td_tensor *t;
    TD_TRY(td_array_count(&shape, nullptr));
    TD_TRY(td_out(c, r->n_out, &shape, &t));
    r->out[r->n_out] = td_cuda_at<float>(t);
    if (t->dtype == TD_FLOAT16)
      TD_TRY(recurrent_temp(r, 1, td_tensor_count(t), &r->out[r->n_out]));
  }
  return nullptr;
}

td_status *recurrent_end(recurrent *r, td_status *s) {
  for (int i = 0; i < r->n_out && td_ok(s); i++) {
    const td_tensor *t = &r->c->out[i];
    if (t->dtype == TD_FLOAT16)
      s = recurrent_move(r->c, td_tensor_count(t), r->out[i],
                         td_cuda_at<td_f16>(t));
  }
  for (int i = 0; i < r->n_held; i++) td_tensor_release(&r->held[i]);
  return s;
}

td_status *recurrent_clear(recurrent *r, float *at, int64_t n) {
  if (n == 0) return nullptr;
  return td_cuda_ok(cudaMemsetAsync(at, 0, (size_t)n * sizeof *at,
                                    td_cuda_stream(r->c)),
                    "zeros");
}

/* ---- products ------------------------------------------------------------ */

struct recurrent_lines {
  typedef float in;
  struct line {
    const float *at;
  };
  struct step {
    int64_t at;
  };
  const float *from;
  int64_t line_step, k_step;

  __device__ inline bool inner() const { return k_step == 1; }
  __device__ inline line line_of(int64_t, int64_t i) const {
    return {from + i * line_step};
  }
  __device__ inline step step_of(int64_t k) const { return {k * k_step}; }
  __device__ inline in at(const line &l, const step &s) const {
    return l.at[s.at];
  }
};

struct recurrent_cells {
  float *to;
  int64_t n;
  __device__ inline void put(int64_t, int64_t i, int64_t j, float v) const {
    to[i * n + j] = v;
  }
};

/* to {m, n} = from {m, k} * w {k, n}, or w {n, k} transposed. */
td_status *recurrent_product(recurrent *r, int64_t m, int64_t n, int64_t k,
                             const float *from, const float *w,
                             bool transposed, float *to) {
  if (m == 0 || n == 0) return nullptr;
  td_cuda_product p = {.dtype = TD_FLOAT32, .m = m, .n = n, .k = k, .batch = 1,
                       .trans_b = transposed, .a = from, .b = w, .to = to};
  bool done;
  TD_TRY(td_cuda_blas_product(r->c, &p, &done));
  if (done) return nullptr;
  return tile_run(r->c, tile_of(1, m, n, k), recurrent_lines{from, k, 1},
                  recurrent_lines{w, transposed ? k : 1, transposed ? 1 : n},
                  recurrent_cells{to, n});
}

__device__ inline float recurrent_sigmoid(float x) {
  return 1 / (1 + expf(-x));
}

} // namespace

#endif
