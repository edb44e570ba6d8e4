/* select.cu - one of two tensors, element by element, on a card.
 *
 * The condition is there too: which operand a scalar chooses is not known when
 * the kernel is enqueued, so it is broadcast like any other.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cuda/broadcast.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/unit.cuh"

namespace {

enum { CONDITION, THEN, ELSE, OPERANDS };

template <class T>
__global__ void walked(int64_t n, td_cuda_walk<OPERANDS> w, const td_b8 *c,
                       const T *t, const T *e, T *y) {
  TD_EACH(i, n) {
    int64_t at[OPERANDS];
    td_cuda_walk_to(w, i, at);
    y[i] = c[at[CONDITION]] ? t[at[THEN]] : e[at[ELSE]];
  }
}

template <class T>
__global__ void dense(int64_t n, const td_b8 *c, const T *t, const T *e, T *y) {
  TD_EACH(i, n) {
    T yes = t[i], no = e[i];
    y[i] = c[i] ? yes : no;
  }
}

template <class T> td_status *launch(td_kernel_ctx *c, const td_broadcast *b,
                                     const td_shape *shape) {
  const td_b8 *condition = td_cuda_at<const td_b8>(td_in(c, CONDITION));
  const T *t = td_cuda_at<const T>(td_in(c, THEN));
  const T *e = td_cuda_at<const T>(td_in(c, ELSE));
  td_tensor *y;
  TD_TRY(td_out_forward(c, 0, shape, THEN, ELSE, &y));
  T *out = td_cuda_at<T>(y);
  int64_t n = b->count;
  if (n == 0) return nullptr;
  if (b->dense[CONDITION] && b->dense[THEN] && b->dense[ELSE])
    return TD_LAUNCH(c, (dense<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                     condition, t, e, out);
  return TD_LAUNCH(c, (walked<T>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   td_cuda_walk_of<OPERANDS>(b), condition, t, e, out);
}

td_status *run(td_kernel_ctx *c, const td_shape *condition) {
  const td_tensor *t = td_in(c, THEN);
  const td_shape *shapes[] = {condition, &t->shape, &td_in(c, ELSE)->shape};
  td_broadcast plan;
  td_shape shape;
  TD_TRY(td_broadcast_plan(&plan, OPERANDS, shapes, &shape));
  TD_CUDA_BY_SIZE(td_dtype_size(t->dtype), launch, c, &plan, &shape)
}

td_status *run_select(td_kernel_ctx *c) {
  td_shape seen;
  TD_TRY(td_select_check(c, &seen));
  return run(c, &seen);
}

td_status *run_select_v2(td_kernel_ctx *c) {
  return run(c, &td_in(c, CONDITION)->shape);
}

#define TYPES TYPES_NUMBERS "|bool"

const td_kernel_def kernels[] = {
    {.op = "Select", .device = "CUDA", .types = TYPES, .run = run_select},
    {.op = "SelectV2", .device = "CUDA", .types = TYPES, .run = run_select_v2},
    {},
};

} // namespace

TD_CUDA_MODULE(select, kernels)
