/* launch.cuh - what a .cu of ours is written with.
 *
 * The same text is compiled by nvcc for cards and by g++ for the processor
 * (tests/cuda/emulate.h). So: C++20 without its library; kernels are templates
 * in an anonymous namespace; one is launched by TD_LAUNCH, never by <<<>>>;
 * dynamic shared memory is TD_SHARED; rows of tables end with {}.
 *
 *   static td_status *run(td_kernel_ctx *c) {
 *     td_tensor *y;
 *     TD_TRY(td_out_like(c, 0, 0, &y));
 *     int64_t n = td_tensor_count(y);
 *     if (n == 0) return nullptr;
 *     return TD_LAUNCH(c, (twice<float>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
 *                      n, td_cuda_at<const float>(td_in(c, 0)),
 *                      td_cuda_at<float>(y));
 *   }
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_LAUNCH_CUH
#define TD_CUDA_LAUNCH_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/num.cuh"

enum { TD_CUDA_BLOCK = 256, TD_CUDA_WAVES = 8 };

/* Enqueues `kernel`, in parentheses where it is a template, with its arguments;
 * a status. Of blocks of `shared` bytes beside what it declares. */
#ifdef __CUDACC__
#define TD_LAUNCH(c, kernel, grid, block, shared, ...)                         \
  ([&]() -> td_status * {                                                      \
    kernel<<<grid, block, shared, td_cuda_stream(c)>>>(__VA_ARGS__);           \
    return td_cuda_ok(cudaPeekAtLastError(), #kernel);                         \
  }())
#define TD_SHARED(T, name)                                                     \
  extern __shared__ __align__(16) unsigned char td_shared_bytes[];             \
  T *name = reinterpret_cast<T *>(td_shared_bytes)
#else
#define TD_LAUNCH(c, kernel, grid, block, shared, ...)                         \
  td_cuda_ok(td_emu_launch(kernel, grid, block, shared, td_cuda_stream(c),     \
                           __VA_ARGS__),                                       \
             #kernel)
#endif

/* Blocks of TD_CUDA_BLOCK threads for n pieces of work, in a loop with this
 * stride where there are more than fill the card. n > 0. */
static inline dim3 td_cuda_grid(const td_kernel_ctx *c, int64_t n) {
  int64_t need = (n + TD_CUDA_BLOCK - 1) / TD_CUDA_BLOCK;
  int64_t most = (int64_t)td_cuda_of(c)->sms * TD_CUDA_WAVES;
  return dim3((unsigned)(need < most ? need : most));
}

/* Before a loop whose rounds are to be laid out one after the other. */
#ifdef __CUDACC__
#define TD_UNROLL _Pragma("unroll")
#else
#define TD_UNROLL
#endif

/* for (int64_t i = ...): all pieces of work of this thread. */
#define TD_EACH(i, n)                                                          \
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);    \
       i += (int64_t)gridDim.x * blockDim.x)

template <class T> static inline T *td_cuda_at(const td_tensor *t) {
  return static_cast<T *>(t->data);
}

/* ---- elements in 16 bytes ------------------------------------------------ */

template <class T> struct alignas(16) td_pack {
  T at[16 / sizeof(T)];
};
template <class T> constexpr int td_pack_of = 16 / (int)sizeof(T);

static inline bool td_cuda_aligned(const void *p) {
  return (reinterpret_cast<uintptr_t>(p) & 15) == 0;
}

/* ---- what is wrong with data --------------------------------------------- */

/* Tells it, unless something was told before: a kernel goes on without what is
 * wrong. `report` is td_cuda_report_of(c, "text %lld, %lld"). */
static __device__ inline void td_cuda_tell(td_cuda_report report,
                                           long long value, long long limit) {
  unsigned long long *number = &report.word->number;
  if (*(volatile unsigned long long *)number != 0) return;
  if (atomicCAS(number, 0ull, report.number) != 0) return;
  report.word->value = value; /* read when the kernel is over */
  report.word->limit = limit;
}

/* ---- modules ------------------------------------------------------------- */

/* What a .cu brings; make finds it by this line. */
#define TD_CUDA_MODULE(name, kernels)                                          \
  extern "C" {                                                                 \
  extern const td_module td_cuda_module_##name;                                \
  const td_module td_cuda_module_##name = {"cuda/" #name, nullptr, kernels};   \
  }

#endif
