/* gather.cu - Gather, GatherV2, GatherNd on a card. An index out of range is
 * told (td_cuda_tell), its rows are zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/gather_nd.h"
#include "kernels/row_plans.h"

namespace {

/* ---- Gather, GatherV2 ---------------------------------------------------- */

/* Row i of {batch, outer, each}. */
template <class I> struct by_index {
  int64_t outer, along, each;
  const I *index;
  td_cuda_report report;

  __device__ int64_t operator()(int64_t i) const {
    int64_t plane = i / each, k = i - plane * each;
    int64_t at = (int64_t)index[plane / outer * each + k];
    if (at >= 0 && at < along) return plane * along + at;
    td_cuda_tell(report, at, along);
    return -1;
  }
};

template <class I>
td_status *gather(td_kernel_ctx *c, const td_gather_plan *p, td_tensor *y) {
  int64_t size = (int64_t)td_dtype_size(y->dtype), count = td_tensor_count(y);
  by_index<I> f = {p->outer, p->along, p->each,
                   td_cuda_at<const I>(td_in(c, 1)),
                   td_cuda_report_of(c, "an index is %lld, which is not in "
                                        "[0, %lld)")};
  return td_cuda_rows(c, f, count / p->inner, p->inner * size,
                      td_in(c, 0)->data, y->data);
}

td_status *gather_run(td_kernel_ctx *c) {
  td_gather_plan p;
  td_tensor *y;
  TD_TRY(td_gather_read(c, &p));
  TD_TRY(td_out(c, 0, &p.out, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  switch ((int)td_in(c, 1)->dtype) {
  case TD_INT16:
    return gather<int16_t>(c, &p, y);
  case TD_INT32:
    return gather<int32_t>(c, &p, y);
  case TD_INT64:
    return gather<int64_t>(c, &p, y);
  default:
    return td_cuda_no_type(c, 1);
  }
}

/* ---- GatherNd ------------------------------------------------------------ */

/* Row i of the index vectors, k indices each. */
template <class I> struct by_vector {
  int k;
  int64_t size[TD_MAX_RANK];
  const I *index;
  bool ignore;
  td_cuda_report report;

  __device__ int64_t operator()(int64_t i) const {
    int64_t row = 0;
    for (int j = 0; j < k; j++) {
      int64_t at = (int64_t)index[i * k + j];
      if (at < 0 || at >= size[j]) {
        if (!ignore) td_cuda_tell(report, at, size[j]);
        return -1;
      }
      row = row * size[j] + at;
    }
    return row;
  }
};

template <class I>
td_status *gather_nd(td_kernel_ctx *c, bool ignore, td_tensor *y) {
  const td_shape *of = &td_in(c, 0)->shape, *s = &td_in(c, 1)->shape;
  by_vector<I> f = {};
  f.k = (int)s->dim[s->rank - 1];
  for (int j = 0; j < f.k; j++) f.size[j] = of->dim[j];
  f.index = td_cuda_at<const I>(td_in(c, 1));
  f.ignore = ignore;
  f.report =
      td_cuda_report_of(c, "an index is %lld, which is not in [0, %lld)");
  int64_t each = td_shape_span(of, f.k, of->rank);
  return td_cuda_rows(c, f, td_shape_span(s, 0, s->rank - 1),
                      each * (int64_t)td_dtype_size(y->dtype),
                      td_in(c, 0)->data, y->data);
}

td_status *gather_nd_run(td_kernel_ctx *c) {
  td_shape out;
  td_tensor *y;
  bool ignore = false;
  TD_TRY(td_gather_nd_read(c, &ignore, &out));
  TD_TRY(td_out(c, 0, &out, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  switch ((int)td_in(c, 1)->dtype) {
  case TD_INT16:
    return gather_nd<int16_t>(c, ignore, y);
  case TD_INT32:
    return gather_nd<int32_t>(c, ignore, y);
  case TD_INT64:
    return gather_nd<int64_t>(c, ignore, y);
  default:
    return td_cuda_no_type(c, 1);
  }
}

/* ---- tables -------------------------------------------------------------- */

#define ROW(op_, run_)                                                         \
  {.op = op_,                                                                  \
   .device = "CUDA",                                                           \
   .types = "Tparams=" TD_CUDA_PLAIN,                                          \
   .run = run_}

const td_kernel_def kernels[] = {
    ROW("Gather", gather_run),
    ROW("GatherV2", gather_run),
    ROW("GatherNd", gather_nd_run),
    {},
};

} // namespace

TD_CUDA_MODULE(gather, kernels)
