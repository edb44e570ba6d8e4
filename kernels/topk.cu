/* topk.cu - TopK, NthElement, InTopK on a card.
 *
 * Rows are ordered by two stable sorts: all elements by value, the largest
 * first, then by row; so equal ones stay in the order of their indices. A NaN
 * is the least of all, -0 is 0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/sort.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/row_plans.h"

namespace {

/* ---- the order ----------------------------------------------------------- */

/* Bits that order as the number does, in as many bytes. */
__device__ inline uint64_t key_of(float x) {
  if (x != x) return 0;
  uint32_t u = __float_as_uint(x == 0 ? 0.0f : x);
  return u >> 31 ? (uint32_t)~u : u | 1u << 31;
}
__device__ inline uint64_t key_of(double x) {
  if (x != x) return 0;
  uint64_t u;
  double v = x == 0 ? 0.0 : x;
  memcpy(&u, &v, sizeof u);
  return u >> 63 ? ~u : u | (uint64_t)1 << 63;
}
template <class T> __device__ inline uint64_t key_of(T x) {
  bool is_signed = (T)-1 < (T)0;
  uint64_t bits = 8 * sizeof(T), u = (uint64_t)x << (64 - bits);
  if (is_signed) u ^= (uint64_t)1 << 63;
  return u >> (64 - bits);
}

/* The largest first. */
template <class T>
__global__ void value_keys(int64_t n, const T *x, uint64_t *keys,
                           int64_t *items) {
  TD_EACH(i, n) {
    keys[i] = ~key_of(td_num<T>::load(x[i]));
    items[i] = i;
  }
}

__global__ void row_keys(int64_t n, int64_t each, const int64_t *items,
                         uint64_t *keys) {
  TD_EACH(i, n) keys[i] = (uint64_t)(items[i] / each);
}

/* The halves are compared as floats. */
template <class T>
td_status *fill_keys(td_kernel_ctx *c, td_cuda_sorting *by) {
  by->bits = 8 * (int)sizeof(typename td_num<T>::in);
  return TD_LAUNCH(c, (value_keys<T>), td_cuda_grid(c, by->n), TD_CUDA_BLOCK, 0,
                   by->n, td_cuda_at<const T>(td_in(c, 0)), by->keys,
                   by->items);
}

#define CASE(kind, ...)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    return fill_keys<td_##kind>(c, by);
td_status *fill_values(td_kernel_ctx *c, td_cuda_sorting *by) {
  switch ((int)td_in(c, 0)->dtype) {
    EACH_REALS(CASE) HALVES_REALS(CASE)
  default:
    return td_cuda_no_type(c, 0);
  }
}

/* by->items: elements by row, in each the largest first. */
td_status *sort_rows(td_kernel_ctx *c, int64_t each, td_cuda_sorting *by) {
  int64_t n = td_tensor_count(td_in(c, 0)), rows = n / each;
  TD_TRY(td_cuda_sort_new(c, n, 64, by));
  TD_TRY(fill_values(c, by));
  TD_TRY(td_cuda_sort(c, by));
  if (rows == 1) return nullptr;
  td_cuda_sort_again(by, td_cuda_bits((uint64_t)rows - 1));
  TD_TRY(TD_LAUNCH(c, row_keys, td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, each,
                   by->items, by->keys));
  return td_cuda_sort(c, by);
}

/* ---- TopK, NthElement ---------------------------------------------------- */

struct chosen {
  int64_t n, k, first; /* of a row: elements, wanted, where they begin */
  const int64_t *items;
  __device__ int64_t operator()(int64_t i) const {
    int64_t row = i / k;
    return items[row * n + first + (i - row * k)];
  }
};

template <class I>
__global__ void write_indices(int64_t count, chosen f, I *to) {
  TD_EACH(i, count) to[i] = (I)(f(i) % f.n);
}

td_status *put_indices(td_kernel_ctx *c, chosen f, td_tensor *y) {
  int64_t n = td_tensor_count(y);
  switch ((int)y->dtype) {
  case TD_INT16:
    return TD_LAUNCH(c, (write_indices<int16_t>), td_cuda_grid(c, n),
                     TD_CUDA_BLOCK, 0, n, f, td_cuda_at<int16_t>(y));
  case TD_INT32:
    return TD_LAUNCH(c, (write_indices<int32_t>), td_cuda_grid(c, n),
                     TD_CUDA_BLOCK, 0, n, f, td_cuda_at<int32_t>(y));
  default:
    return TD_LAUNCH(c, (write_indices<int64_t>), td_cuda_grid(c, n),
                     TD_CUDA_BLOCK, 0, n, f, td_cuda_at<int64_t>(y));
  }
}

td_status *choose(td_kernel_ctx *c, const td_top_plan *p) {
  int64_t count = td_tensor_count(p->values);
  td_cuda_sorting by = {};
  if (count == 0) return nullptr;
  td_status *s = sort_rows(c, p->n, &by);
  chosen f = {p->n, p->k, p->smallest ? p->n - 1 - p->first : p->first,
              by.items};
  if (td_ok(s))
    s = td_cuda_rows(c, f, count, (int64_t)td_dtype_size(p->values->dtype),
                     td_in(c, 0)->data, p->values->data);
  if (td_ok(s) && p->indices) s = put_indices(c, f, p->indices);
  td_cuda_sort_drop(&by);
  return s;
}

td_status *top_run(td_kernel_ctx *c) {
  td_top_plan p;
  TD_TRY(td_top_read(c, &p));
  return choose(c, &p);
}

td_status *nth_run(td_kernel_ctx *c) {
  td_top_plan p;
  TD_TRY(td_nth_read(c, &p));
  return choose(c, &p);
}

/* ---- InTopK -------------------------------------------------------------- */

/* A warp a row: fewer than k are larger than the target. What is not finite
 * cannot be ranked. */
template <class I>
__global__ void in_top(int64_t rows, int64_t n, int64_t k, const float *x,
                       const I *targets, uint8_t *y) {
  unsigned lane = threadIdx.x % 32;
  int64_t warps = (int64_t)gridDim.x * (blockDim.x / 32);
  for (int64_t row = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
       row < rows; row += warps) {
    const float *at = x + row * n;
    int64_t target = (int64_t)targets[row], larger = 0;
    bool bad = target < 0 || target >= n;
    float wanted = bad ? 0 : at[target];
    for (int64_t i = lane; i < n; i += 32) {
      bad |= !(fabsf(at[i]) <= 3.402823466e38f);
      larger += at[i] > wanted;
    }
    bad = __any_sync(0xffffffffu, bad);
    for (unsigned by = 16; by; by /= 2)
      larger += __shfl_xor_sync(0xffffffffu, larger, by);
    if (lane == 0) y[row] = !bad && larger < k;
  }
}

template <class I>
td_status *launch_in_top(td_kernel_ctx *c, const td_in_top_plan *p) {
  return TD_LAUNCH(c, (in_top<I>), td_cuda_grid(c, p->rows * 32), TD_CUDA_BLOCK,
                   0, p->rows, p->classes, p->k,
                   td_cuda_at<const float>(td_in(c, 0)),
                   td_cuda_at<const I>(td_in(c, 1)),
                   td_cuda_at<uint8_t>(p->y));
}

td_status *in_top_run(td_kernel_ctx *c) {
  td_in_top_plan p;
  TD_TRY(td_in_top_read(c, &p));
  if (p.rows == 0) return nullptr;
  return td_in(c, 1)->dtype == TD_INT32 ? launch_in_top<int32_t>(c, &p)
                                        : launch_in_top<int64_t>(c, &p);
}

/* ---- tables -------------------------------------------------------------- */

const td_kernel_def kernels[] = {
    {.op = "TopK",
     .device = "CUDA",
     .types = "T=" TD_CUDA_REALS,
     .run = top_run},
    {.op = "TopKV2",
     .device = "CUDA",
     .types = "T=" TD_CUDA_REALS,
     .run = top_run},
    {.op = "NthElement",
     .device = "CUDA",
     .types = "T=" TD_CUDA_REALS,
     .run = nth_run},
    {.op = "InTopK", .device = "CUDA", .run = in_top_run},
    {.op = "InTopKV2", .device = "CUDA", .run = in_top_run},
    {},
};

} // namespace

TD_CUDA_MODULE(topk, kernels)
