/* search_sorted.cu - LowerBound, UpperBound, Bucketize on a card.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/upload.cuh"
#include "kernels/row_plans.h"

#include <string.h>

namespace {

/* How many of n sorted numbers are below x or, `over`, not above it. */
template <class S, class X>
__device__ inline int64_t search(int64_t n, const S *sorted, bool over, X x) {
  int64_t low = 0, high = n;
  while (low < high) {
    int64_t mid = low + (high - low) / 2;
    auto there = td_num<S>::load(sorted[mid]);
    if (over ? !(x < there) : there < x)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

/* ---- LowerBound, UpperBound ---------------------------------------------- */

template <class T, class R>
__global__ void bounds(int64_t count, int64_t each, int64_t n, bool over,
                       const T *sorted, const T *x, R *y) {
  TD_EACH(i, count)
  y[i] = (R)search(n, sorted + i / each * n, over, td_num<T>::load(x[i]));
}

template <class T> td_status *launch(td_kernel_ctx *c, bool over) {
  const td_tensor *sorted = td_in(c, 0), *x = td_in(c, 1);
  const td_shape *s = &x->shape;
  td_tensor *y = &c->out[0];
  int64_t count = td_tensor_count(x), n = sorted->shape.dim[1];
  const T *from = td_cuda_at<const T>(sorted);
  if (y->dtype == TD_INT32)
    return TD_LAUNCH(c, (bounds<T, int32_t>), td_cuda_grid(c, count),
                     TD_CUDA_BLOCK, 0, count, s->dim[1], n, over, from,
                     td_cuda_at<const T>(x), td_cuda_at<int32_t>(y));
  return TD_LAUNCH(c, (bounds<T, int64_t>), td_cuda_grid(c, count),
                   TD_CUDA_BLOCK, 0, count, s->dim[1], n, over, from,
                   td_cuda_at<const T>(x), td_cuda_at<int64_t>(y));
}

#define CASE(kind, ...)                                                        \
  case TD_ELEMENT_##kind:                                                      \
    return launch<td_##kind>(c, over);
td_status *run(td_kernel_ctx *c, bool over) {
  td_tensor *y;
  TD_TRY(td_bound_check(c));
  TD_TRY(td_out(c, 0, &td_in(c, 1)->shape, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  switch ((int)td_in(c, 1)->dtype) {
    EACH_REALS(CASE) HALVES_REALS(CASE)
  default:
    return td_cuda_no_type(c, 1);
  }
}

td_status *lower_run(td_kernel_ctx *c) {
  return run(c, false);
}
td_status *upper_run(td_kernel_ctx *c) {
  return run(c, true);
}

/* ---- Bucketize ----------------------------------------------------------- */

/* Two boundaries to a number. */
struct packed {
  const float *at;
  int n;
  int64_t operator()(int64_t i) const {
    float two[2] = {at[2 * i], 2 * i + 1 < n ? at[2 * i + 1] : 0};
    int64_t v;
    memcpy(&v, two, sizeof v);
    return v;
  }
};

template <class T>
__global__ void buckets(int64_t count, int64_t n, const float *sorted,
                        const T *x, int32_t *y) {
  TD_EACH(i, count) y[i] = (int32_t)search(n, sorted, true, x[i]);
}

template <class T>
td_status *launch_buckets(td_kernel_ctx *c, int n, const td_tensor *list,
                          td_tensor *y) {
  int64_t count = td_tensor_count(y);
  return TD_LAUNCH(c, (buckets<T>), td_cuda_grid(c, count), TD_CUDA_BLOCK, 0,
                   count, (int64_t)n, td_cuda_at<const float>(list),
                   td_cuda_at<const T>(td_in(c, 0)), td_cuda_at<int32_t>(y));
}

td_status *bucket_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  td_tensor *y, list = {};
  const float *at;
  int n;
  TD_TRY(td_bucketize_read(c, &at, &n));
  TD_TRY(td_out(c, 0, &x->shape, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  td_status *s = td_cuda_upload(c, (n + 1) / 2, packed{at, n}, &list);
  if (td_ok(s))
    switch ((int)x->dtype) {
    case TD_FLOAT32:
      s = launch_buckets<float>(c, n, &list, y);
      break;
    case TD_FLOAT64:
      s = launch_buckets<double>(c, n, &list, y);
      break;
    case TD_INT32:
      s = launch_buckets<int32_t>(c, n, &list, y);
      break;
    default:
      s = launch_buckets<int64_t>(c, n, &list, y);
      break;
    }
  td_tensor_release(&list);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

const td_kernel_def kernels[] = {
    {.op = "LowerBound",
     .device = "CUDA",
     .types = "T=" TD_CUDA_REALS,
     .run = lower_run},
    {.op = "UpperBound",
     .device = "CUDA",
     .types = "T=" TD_CUDA_REALS,
     .run = upper_run},
    {.op = "Bucketize",
     .device = "CUDA",
     .types = TYPES_LONG,
     .run = bucket_run},
    {},
};

} // namespace

TD_CUDA_MODULE(search_sorted, kernels)
