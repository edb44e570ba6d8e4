/* where.cu - Where, DynamicPartition and SegmentSum and kin on a card: ops
 * whose shapes depend on data, in two halves (halves.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/row_reduce.cuh"
#include "kernels/cuda/scan.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/row_plans.h"

namespace {

td_status *list_of(td_kernel_ctx *c, int64_t n, td_tensor *t) {
  td_shape all = td_shape_vector(n);
  return td_temp(c, TD_INT64, &all, t);
}

/* ---- Where --------------------------------------------------------------- */

/* Is any bit of an element set, but a sign alone? */
struct is_set {
  const char *at;
  int size, part; /* bytes of an element, and of a number in it */
  bool sign;      /* a sign bit does not count */

  __device__ int64_t operator()(int64_t i) const {
    const char *x = at + i * size;
    bool any = false;
    for (int k = 0; k < size; k++) {
      uint8_t b = (uint8_t)x[k];
      if (sign && k % part == part - 1) b &= 0x7f;
      any |= b != 0;
    }
    return any;
  }
};

is_set set_of(const td_tensor *x) {
  is_set f;
  f.at = td_cuda_at<const char>(x);
  f.size = (int)td_dtype_size(x->dtype);
  f.part = td_dtype_is_complex(x->dtype) ? f.size / 2 : f.size;
  f.sign = td_dtype_is_float(x->dtype) || td_dtype_is_complex(x->dtype);
  return f;
}

struct sizes {
  int rank;
  int64_t at[TD_MAX_RANK];
};

__global__ void write_places(int64_t n, sizes s, const int64_t *before,
                             int64_t *out) {
  TD_EACH(i, n) {
    if (before[i + 1] == before[i]) continue;
    int64_t *to = out + before[i] * s.rank, rest = i;
    for (int k = s.rank - 1; k >= 0; k--) {
      int64_t up = rest / s.at[k];
      to[k] = rest - up * s.at[k];
      rest = up;
    }
  }
}

__global__ void copy_last(int64_t n, const int64_t *from, int64_t *to) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *to = from[n];
}

/* The last of a running sum of n is what is told. */
td_status *tell_last(td_kernel_ctx *c, int64_t n, td_cuda_halves *h) {
  h->n = 1;
  TD_TRY(list_of(c, 1, &h->told));
  return TD_LAUNCH(c, copy_last, 1, 1, 0, n,
                   td_cuda_at<const int64_t>(&h->held[0]),
                   td_cuda_at<int64_t>(&h->told));
}

td_status *where_first(td_kernel_ctx *c, td_cuda_halves *h) {
  const td_tensor *x = td_in(c, 0);
  int64_t n = td_tensor_count(x);
  TD_TRY(td_where_check(&x->shape));
  TD_TRY(list_of(c, n + 1, &h->held[0]));
  TD_TRY(td_cuda_scan(c, n, set_of(x), td_cuda_at<int64_t>(&h->held[0])));
  return tell_last(c, n, h);
}

td_status *where_second(td_kernel_ctx *c, td_cuda_halves *h) {
  const td_tensor *x = td_in(c, 0);
  td_shape shape = td_shape_matrix(h->number[0], x->shape.rank);
  int64_t n = td_tensor_count(x);
  sizes s;
  td_tensor *y;
  TD_TRY(td_out(c, 0, &shape, &y));
  s.rank = x->shape.rank;
  for (int k = 0; k < s.rank; k++) s.at[k] = x->shape.dim[k];
  if (td_tensor_count(y) == 0) return nullptr;
  return TD_LAUNCH(c, write_places, td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, s,
                   td_cuda_at<const int64_t>(&h->held[0]),
                   td_cuda_at<int64_t>(y));
}

void where_start(td_kernel_ctx *c) {
  td_cuda_in_halves(c, where_first, where_second);
}

/* ---- DynamicPartition ---------------------------------------------------- */

/* Rows of no partition are left out. */
__global__ void part_of(int64_t n, int64_t parts, const int32_t *part,
                        int64_t *to, td_cuda_report report) {
  TD_EACH(i, n) {
    bool good = part[i] >= 0 && part[i] < parts;
    if (!good) td_cuda_tell(report, part[i], parts);
    to[i] = good ? part[i] : -1;
  }
}

/* Tells where each part begins; keeps the rows in their order. */
td_status *sort_parts(td_kernel_ctx *c, td_cuda_halves *h, td_tensor *to) {
  int64_t n = td_tensor_count(td_in(c, 1)), parts = c->n_out;
  td_cuda_report report = td_cuda_report_of(
      c, "an element of partitions is %lld, which is not in [0, %lld)");
  h->n = parts + 1;
  TD_TRY(list_of(c, n, to));
  if (n > 0)
    TD_TRY(TD_LAUNCH(c, part_of, td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, parts,
                     td_cuda_at<const int32_t>(td_in(c, 1)),
                     td_cuda_at<int64_t>(to), report));
  return td_cuda_row_order(c, n, td_cuda_at<const int64_t>(to), parts,
                           &h->held[0], &h->told);
}

td_status *partition_first(td_kernel_ctx *c, td_cuda_halves *h) {
  td_shape shape;
  td_tensor to = {};
  TD_TRY(td_dynamic_partition_shape(c, &shape));
  td_status *s = sort_parts(c, h, &to);
  td_tensor_release(&to);
  return s;
}

struct listed {
  const int64_t *row;
  __device__ int64_t operator()(int64_t i) const {
    return row[i];
  }
};

td_status *partition_second(td_kernel_ctx *c, td_cuda_halves *h) {
  const td_tensor *x = td_in(c, 0);
  const int64_t *rows = td_cuda_at<const int64_t>(&h->held[0]);
  td_shape shape;
  TD_TRY(td_dynamic_partition_shape(c, &shape));
  int64_t each = td_shape_span(&shape, 1, shape.rank);
  for (int i = 0; i < c->n_out; i++) {
    int64_t first = h->number[i], n = h->number[i + 1] - first;
    td_tensor *y;
    shape.dim[0] = n;
    TD_TRY(td_out(c, i, &shape, &y));
    TD_TRY(td_cuda_rows(c, listed{rows + first}, n,
                        each * (int64_t)td_dtype_size(x->dtype), x->data,
                        y->data));
  }
  return nullptr;
}

void partition_start(td_kernel_ctx *c) {
  td_cuda_in_halves(c, partition_first, partition_second);
}

/* ---- SegmentSum and kin -------------------------------------------------- */

/* Tells the last id, and what is wrong with their order. */
template <class I>
__global__ void check_ids(int64_t n, const I *id, int64_t *last,
                          td_cuda_report report) {
  TD_EACH(i, n) {
    int64_t at = (int64_t)id[i], before = i ? (int64_t)id[i - 1] : 0;
    if (at < before) td_cuda_tell(report, at, before);
    if (i == n - 1) *last = at < 0 ? -1 : at;
  }
}

td_status *segment_first(td_kernel_ctx *c, td_cuda_halves *h) {
  const td_tensor *ids = td_in(c, 1);
  td_segments_plan p;
  td_cuda_report report = td_cuda_report_of(
      c, "segment_ids must be sorted and not negative: %lld is behind %lld");
  TD_TRY(td_search_sorted_read(c, &p));
  h->n = 1;
  TD_TRY(list_of(c, 1, &h->told));
  int64_t *last = td_cuda_at<int64_t>(&h->told);
  if (p.n == 0)
    return td_cuda_ok(cudaMemsetAsync(last, 0xff, sizeof *last,
                                      td_cuda_stream(c)),
                      "a fill");
  if (ids->dtype == TD_INT32)
    return TD_LAUNCH(c, (check_ids<int32_t>), td_cuda_grid(c, p.n),
                     TD_CUDA_BLOCK, 0, p.n, td_cuda_at<const int32_t>(ids),
                     last, report);
  return TD_LAUNCH(c, (check_ids<int64_t>), td_cuda_grid(c, p.n),
                   TD_CUDA_BLOCK, 0, p.n, td_cuda_at<const int64_t>(ids), last,
                   report);
}

template <class I> struct by_id {
  int64_t segments;
  const I *id;
  __device__ int64_t operator()(int64_t i) const {
    int64_t at = (int64_t)id[i];
    return at >= 0 && at < segments ? at : -1;
  }
};

td_status *segment(td_kernel_ctx *c, td_cuda_halves *h, td_row_reduce_op op,
                   td_row_divisor over) {
  const td_tensor *ids = td_in(c, 1);
  td_segments_plan p;
  td_row_reduce f = {};
  TD_TRY(td_search_sorted_read(c, &p));
  if (h->number[0] == INT64_MAX)
    return td_error(TD_INVALID_ARGUMENT, "an id of 2^63-1 is too large");
  int64_t n = h->number[0] + 1;
  p.out.dim[0] = n;
  if (td_shape_count(&p.out) < 0)
    return td_error(TD_INVALID_ARGUMENT, "a segment id of %lld is too large",
                    (long long)n - 1);
  f.op = op;
  f.n = p.n;
  f.each = p.each;
  f.zero = true;
  if (ids->dtype == TD_INT32)
    return td_cuda_reduce_by(
        c, 0, by_id<int32_t>{n, td_cuda_at<const int32_t>(ids)}, f, over,
        &p.out);
  return td_cuda_reduce_by(
      c, 0, by_id<int64_t>{n, td_cuda_at<const int64_t>(ids)}, f, over, &p.out);
}

#define SEGMENT(name, op, over)                                                \
  td_status *name##_second(td_kernel_ctx *c, td_cuda_halves *h) {              \
    return segment(c, h, op, over);                                            \
  }                                                                            \
  void name##_start(td_kernel_ctx *c) {                                        \
    td_cuda_in_halves(c, segment_first, name##_second);                        \
  }
SEGMENT(sum, TD_ROW_REDUCE_SUM, TD_ROW_BY_ONE)
SEGMENT(mean, TD_ROW_REDUCE_SUM, TD_ROW_BY_COUNT)
SEGMENT(prod, TD_ROW_REDUCE_PROD, TD_ROW_BY_ONE)
SEGMENT(max, TD_ROW_REDUCE_MAX, TD_ROW_BY_ONE)
SEGMENT(min, TD_ROW_REDUCE_MIN, TD_ROW_BY_ONE)

/* ---- tables -------------------------------------------------------------- */

#define NUMBERS TD_CUDA_REALS "|complex64|complex128"
#define ROW(op_, dtypes, start_)                                               \
  {.op = op_,                                                                  \
   .device = "CUDA",                                                           \
   .types = "T=" dtypes,                                                       \
   .start = start_,                                                            \
   .cancel = td_cuda_no_cancel}

const td_kernel_def kernels[] = {
    ROW("Where", TD_CUDA_PLAIN, where_start),
    ROW("DynamicPartition", TD_CUDA_PLAIN, partition_start),
    ROW("SegmentSum", NUMBERS, sum_start),
    ROW("SegmentMean", NUMBERS, mean_start),
    ROW("SegmentProd", NUMBERS, prod_start),
    ROW("SegmentMax", TD_CUDA_REALS, max_start),
    ROW("SegmentMin", TD_CUDA_REALS, min_start),
    {},
};

} // namespace

TD_CUDA_MODULE(where, kernels)
