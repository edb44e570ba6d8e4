/* scatter_nd.cu - ScatterNd, TensorScatterUpdate, UnsortedSegmentSum and
 * InplaceUpdate and kin on a card: rows reduced by number.
 *
 * An index out of range is told (td_cuda_tell); what was to go there is left
 * out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"
#include "kernels/cuda/row_reduce.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/row_plans.h"

namespace {

/* ---- by index vectors ---------------------------------------------------- */

/* Of an index vector, k indices. */
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
td_status *scatter(td_kernel_ctx *c, bool onto, const td_scatter_plan *p,
                   td_row_reduce_op op) {
  int at = onto ? 1 : 0;
  by_vector<I> f = {};
  td_row_reduce r = {};
  f.k = p->k;
  for (int j = 0; j < f.k; j++) f.size[j] = p->shape.dim[j];
  f.index = td_cuda_at<const I>(td_in(c, at));
  f.ignore = p->ignore;
  f.report =
      td_cuda_report_of(c, "an index is %lld, which is not in [0, %lld)");
  r.op = op;
  r.n = p->n;
  r.each = p->each;
  r.onto = onto;
  return td_cuda_reduce_by(c, at + 1, f, r, TD_ROW_BY_ONE, &p->shape);
}

td_status *scatter_nd(td_kernel_ctx *c, bool onto, td_row_reduce_op op) {
  td_scatter_plan p;
  int at = onto ? 1 : 0;
  TD_TRY(td_scatter_nd_read(c, onto, &p));
  switch ((int)td_in(c, at)->dtype) {
  case TD_INT16:
    return scatter<int16_t>(c, onto, &p, op);
  case TD_UINT16:
    return scatter<uint16_t>(c, onto, &p, op);
  case TD_INT32:
    return scatter<int32_t>(c, onto, &p, op);
  case TD_INT64:
    return scatter<int64_t>(c, onto, &p, op);
  default:
    return td_cuda_no_type(c, at);
  }
}

/* ---- by segment ---------------------------------------------------------- */

template <class I> struct by_id {
  int64_t segments;
  const I *id;
  td_cuda_report report;

  __device__ int64_t operator()(int64_t i) const {
    int64_t at = (int64_t)id[i];
    if (at < segments) return at < 0 ? -1 : at;
    td_cuda_tell(report, at, segments);
    return -1;
  }
};

template <class I>
td_status *segments(td_kernel_ctx *c, const td_segments_plan *p,
                    td_row_reduce_op op) {
  by_id<I> f = {p->segments, td_cuda_at<const I>(td_in(c, 1)),
                td_cuda_report_of(c, "an element of segment_ids is %lld, which "
                                     "is not below num_segments, %lld")};
  td_row_reduce r = {};
  r.op = op;
  r.n = p->n;
  r.each = p->each;
  return td_cuda_reduce_by(c, 0, f, r, TD_ROW_BY_ONE, &p->out);
}

td_status *unsorted(td_kernel_ctx *c, td_row_reduce_op op) {
  td_segments_plan p;
  TD_TRY(td_unsorted_read(c, &p));
  switch ((int)td_in(c, 1)->dtype) {
  case TD_INT16:
    return segments<int16_t>(c, &p, op);
  case TD_INT32:
    return segments<int32_t>(c, &p, op);
  case TD_INT64:
    return segments<int64_t>(c, &p, op);
  default:
    return td_cuda_no_type(c, 1);
  }
}

/* ---- InplaceUpdate and kin ----------------------------------------------- */

/* Numbers wrap round. */
struct wrapped {
  int64_t rows;
  const int32_t *index;
  __device__ int64_t operator()(int64_t i) const {
    return (index[i] % rows + rows) % rows;
  }
};

template <td_row_reduce_op op> td_status *inplace_run(td_kernel_ctx *c) {
  td_shape shape = td_in(c, 0)->shape;
  td_row_reduce r = {};
  TD_TRY(td_inplace_check(c));
  r.op = op;
  r.n = shape.dim[0] ? td_tensor_count(td_in(c, 1)) : 0;
  r.each = td_shape_span(&shape, 1, shape.rank);
  r.onto = true;
  wrapped f = {shape.dim[0], td_cuda_at<const int32_t>(td_in(c, 1))};
  return td_cuda_reduce_by(c, 2, f, r, TD_ROW_BY_ONE, &shape);
}

/* ---- tables -------------------------------------------------------------- */

#define RUN(name, call)                                                        \
  td_status *name(td_kernel_ctx *c) {                                          \
    return call;                                                               \
  }
RUN(scatter_sum, scatter_nd(c, false, TD_ROW_REDUCE_SUM))
RUN(onto_set, scatter_nd(c, true, TD_ROW_REDUCE_SET))
RUN(onto_sum, scatter_nd(c, true, TD_ROW_REDUCE_SUM))
RUN(onto_sub, scatter_nd(c, true, TD_ROW_REDUCE_SUB))
RUN(onto_max, scatter_nd(c, true, TD_ROW_REDUCE_MAX))
RUN(onto_min, scatter_nd(c, true, TD_ROW_REDUCE_MIN))
RUN(unsorted_sum, unsorted(c, TD_ROW_REDUCE_SUM))
RUN(unsorted_prod, unsorted(c, TD_ROW_REDUCE_PROD))
RUN(unsorted_max, unsorted(c, TD_ROW_REDUCE_MAX))
RUN(unsorted_min, unsorted(c, TD_ROW_REDUCE_MIN))

#define NUMBERS TD_CUDA_REALS "|complex64|complex128"
#define ROW(op_, dtypes, run_)                                                 \
  {.op = op_, .device = "CUDA", .types = "T=" dtypes, .run = run_}

const td_kernel_def kernels[] = {
    ROW("ScatterNd", "bool|" NUMBERS, scatter_sum),
    ROW("ScatterNdNonAliasingAdd", "bool|" NUMBERS, onto_sum),
    ROW("TensorScatterUpdate", TD_CUDA_PLAIN, onto_set),
    ROW("TensorScatterAdd", NUMBERS, onto_sum),
    ROW("TensorScatterSub", NUMBERS, onto_sub),
    ROW("TensorScatterMax", TD_CUDA_REALS, onto_max),
    ROW("TensorScatterMin", TD_CUDA_REALS, onto_min),
    ROW("UnsortedSegmentSum", NUMBERS, unsorted_sum),
    ROW("UnsortedSegmentProd", NUMBERS, unsorted_prod),
    ROW("UnsortedSegmentMax", TD_CUDA_REALS, unsorted_max),
    ROW("UnsortedSegmentMin", TD_CUDA_REALS, unsorted_min),
    ROW("InplaceUpdate", "bool|" NUMBERS, inplace_run<TD_ROW_REDUCE_SET>),
    ROW("InplaceAdd", NUMBERS, inplace_run<TD_ROW_REDUCE_SUM>),
    ROW("InplaceSub", NUMBERS, inplace_run<TD_ROW_REDUCE_SUB>),
    {},
};

} // namespace

TD_CUDA_MODULE(scatter_nd, kernels)
