/* unary.cu - element-wise ops of one operand on a card: unary.def, as it is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/special.cuh"

namespace {

/* ---- kernels ------------------------------------------------------------- */

template <class F, class T, class R> __device__ inline R apply(T x) {
  return (R)td_num<R>::store((typename td_num<R>::in)F::of(td_num<T>::load(x)));
}

template <class F, class T, class R>
__global__ void each(int64_t n, const T *x, R *y) {
  TD_EACH(i, n) y[i] = apply<F, T, R>(x[i]);
}

/* Operands and results of 16 bytes at a time; the few that are left over are
 * the first threads'. */
template <class F, class T, class R>
__global__ void each_pack(int64_t n, const T *x, R *y) {
  constexpr int m = td_pack_of<T>;
  struct alignas(m * sizeof(R) < 16 ? m * sizeof(R) : 16) results {
    R at[m];
  };
  const td_pack<T> *from = reinterpret_cast<const td_pack<T> *>(x);
  results *to = reinterpret_cast<results *>(y);
  TD_EACH(i, n / m) {
    td_pack<T> in = from[i];
    results out;
    for (int k = 0; k < m; k++) out.at[k] = apply<F, T, R>(in.at[k]);
    to[i] = out;
  }
  TD_EACH(i, n % m) y[n / m * m + i] = apply<F, T, R>(x[n / m * m + i]);
}

template <class F, class T, class R> td_status *launch(td_kernel_ctx *c) {
  td_tensor *y, x = *td_in(c, 0); /* the buffer may become the output's */
  TD_TRY(td_out_like(c, 0, 0, &y));
  int64_t n = td_tensor_count(y);
  const T *from = td_cuda_at<const T>(&x);
  R *to = td_cuda_at<R>(y);
  if (n == 0) return nullptr;
  if (td_cuda_aligned(from) && td_cuda_aligned(to))
    return TD_LAUNCH(c, (each_pack<F, T, R>),
                     td_cuda_grid(c, n / td_pack_of<T> + 1), TD_CUDA_BLOCK, 0,
                     n, from, to);
  return TD_LAUNCH(c, (each<F, T, R>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   from, to);
}

/* ---- functions ----------------------------------------------------------- */

#define UNARY(op, form, allowed, kernels, expression, ...)                     \
  struct fn_##op {                                                             \
    template <class T> static __device__ inline auto of(T x) {                 \
      return expression;                                                       \
    }                                                                          \
  };
#include "kernels/unary.def"
#undef UNARY

/* ---- which types --------------------------------------------------------- */

#define OUT_MATH(kind) td_##kind
#define OUT_BITS(kind) td_##kind
#define OUT_COUNT(kind) td_u8
#define OUT_ACTIVATION(kind) td_##kind
#define OUT_TEST(kind) td_b8
#define OUT_LOGIC(kind) td_b8

#define CASE(kind, op, form)                                                   \
  case TD_ELEMENT_##kind:                                                      \
    return launch<fn_##op, td_##kind, OUT_##form(kind)>(c);
#define UNARY(op, form, allowed, kernels, ...)                                 \
  td_status *run_##op(td_kernel_ctx *c) {                                      \
    switch ((int)td_in(c, 0)->dtype) {                                         \
      EACH_##kernels(CASE, op, form) HALVES_##kernels(CASE, op, form) default  \
          : return td_cuda_no_type(c, 0);                                      \
    }                                                                          \
  }
#include "kernels/unary.def"
#undef UNARY

/* ---- rows ---------------------------------------------------------------- */

const td_kernel_def kernels[] = {
#define UNARY(op_, form, allowed, kernels, ...)                                \
  {.op = #op_, .device = "CUDA", .types = TYPES_##kernels, .run = run_##op_},
#include "kernels/unary.def"
#undef UNARY
    {},
};

} // namespace

TD_CUDA_MODULE(unary, kernels)
