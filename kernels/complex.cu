/* complex.cu - complex numbers from their parts, and parts of them, on a card.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/broadcast.cuh"
#include "kernels/cuda/element.cuh"

namespace {

/* ---- parts --------------------------------------------------------------- */

struct real_of {
  template <class R> static __device__ inline R of(td_complex<R> z) {
    return z.re;
  }
};
struct imag_of {
  template <class R> static __device__ inline R of(td_complex<R> z) {
    return z.im;
  }
};
struct abs_of {
  template <class R> static __device__ inline R of(td_complex<R> z) {
    return td_complex_abs(z);
  }
};
struct angle_of {
  template <class R> static __device__ inline R of(td_complex<R> z) {
    return td_complex_angle(z);
  }
};
struct conj_of {
  template <class R>
  static __device__ inline td_complex<R> of(td_complex<R> z) {
    return td_num_conj(z);
  }
};

template <class F, class C, class T>
__global__ void each(int64_t n, const C *z, T *y) {
  TD_EACH(i, n) y[i] = F::of(z[i]);
}

/* No output of another size lies where its input does. */
template <class F, class C, class T> td_status *launch(td_kernel_ctx *c) {
  const C *z = td_cuda_at<const C>(td_in(c, 0));
  td_tensor *y;
  TD_TRY(td_out_like(c, 0, 0, &y));
  int64_t n = td_tensor_count(y);
  if (n == 0) return nullptr;
  return TD_LAUNCH(c, (each<F, C, T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   z, td_cuda_at<T>(y));
}

template <class F> td_status *part(td_kernel_ctx *c) {
  return td_in(c, 0)->dtype == TD_COMPLEX64 ? launch<F, td_c64, float>(c)
                                            : launch<F, td_c128, double>(c);
}

td_status *run_conj(td_kernel_ctx *c) {
  return td_in(c, 0)->dtype == TD_COMPLEX64
             ? launch<conj_of, td_c64, td_c64>(c)
             : launch<conj_of, td_c128, td_c128>(c);
}

/* ---- from two parts ------------------------------------------------------ */

template <class R>
__global__ void join(int64_t n, td_cuda_walk<2> w, const R *x, const R *y,
                     td_complex<R> *z) {
  TD_EACH(i, n) {
    int64_t at[2];
    td_cuda_walk_to(w, i, at);
    z[i] = td_complex<R>(x[at[0]], y[at[1]]);
  }
}

template <class R> td_status *run_complex(td_kernel_ctx *c) {
  const td_shape *shapes[] = {&td_in(c, 0)->shape, &td_in(c, 1)->shape};
  td_broadcast plan;
  td_shape shape;
  td_tensor *z;
  TD_TRY(td_broadcast_plan(&plan, 2, shapes, &shape));
  TD_TRY(td_out(c, 0, &shape, &z));
  if (plan.count == 0) return nullptr;
  return TD_LAUNCH(c, (join<R>), td_cuda_grid(c, plan.count), TD_CUDA_BLOCK, 0,
                   plan.count, td_cuda_walk_of<2>(&plan),
                   td_cuda_at<const R>(td_in(c, 0)),
                   td_cuda_at<const R>(td_in(c, 1)),
                   td_cuda_at<td_complex<R>>(z));
}

/* ---- rows ---------------------------------------------------------------- */

#define PART(name, fn)                                                         \
  {.op = name,                                                                 \
   .device = "CUDA",                                                           \
   .types = "T=complex64, Tout=float",                                         \
   .run = part<fn>},                                                           \
      {.op = name,                                                             \
       .device = "CUDA",                                                       \
       .types = "T=complex128, Tout=double",                                   \
       .run = part<fn>}

const td_kernel_def kernels[] = {
    PART("Real", real_of),
    PART("Imag", imag_of),
    PART("Angle", angle_of),
    PART("ComplexAbs", abs_of),
    {.op = "Conj",
     .device = "CUDA",
     .types = "T=complex64|complex128",
     .run = run_conj},
    {.op = "Complex",
     .device = "CUDA",
     .types = "T=float, Tout=complex64",
     .run = run_complex<float>},
    {.op = "Complex",
     .device = "CUDA",
     .types = "T=double, Tout=complex128",
     .run = run_complex<double>},
    {},
};

} // namespace

TD_CUDA_MODULE(complex, kernels)
