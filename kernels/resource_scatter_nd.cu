/* resource_scatter_nd.cu - slices of variables on a card, named by index vectors:
 * the numbers of the slices first, then as rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/row_updates.cuh"
#include "kernels/resource_scatter.h"

namespace {

struct sizes {
  int64_t at[TD_MAX_RANK];
  int depth;
};

/* A vector that names no slice becomes -1. */
template <class I>
__global__ void number(int64_t n, const I *indices, sizes of, int64_t *rows,
                       td_cuda_report told) {
  TD_EACH(i, n) {
    int64_t row = 0;
    for (int k = 0; k < of.depth && row >= 0; k++) {
      int64_t at = indices[i * of.depth + k];
      bool bad = at < 0 || at >= of.at[k];
      if (bad) td_rows_tell(told, at, of.at[k]);
      row = bad ? -1 : row * of.at[k] + at;
    }
    rows[i] = row;
  }
}

struct slices {
  td_tensor rows; /* owned */
  int64_t count, each;
};

/* The slices of a tensor of shape `of`; those that are not there are -1. */
td_status *number_all(td_kernel_ctx *c, const td_shape *of, td_cuda_report told,
                      slices *out) {
  const td_tensor *indices = td_in(c, 1);
  int rank = indices->shape.rank;
  sizes s = {};
  s.depth = (int)indices->shape.dim[rank - 1];
  for (int k = 0; k < s.depth; k++) s.at[k] = of->dim[k];
  out->count = td_shape_span(of, 0, s.depth);
  out->each = td_shape_span(of, s.depth, of->rank);
  int64_t n = td_shape_span(&indices->shape, 0, rank - 1);
  td_shape vector = td_shape_vector(n);
  TD_TRY(td_temp(c, TD_INT64, &vector, &out->rows));
  if (n == 0) return nullptr;
  int64_t *rows = td_cuda_at<int64_t>(&out->rows);
  if (indices->dtype == TD_INT32)
    return TD_LAUNCH(c, (number<int32_t>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                     n, td_cuda_at<const int32_t>(indices), s, rows, told);
  return TD_LAUNCH(c, (number<int64_t>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0,
                   n, td_cuda_at<const int64_t>(indices), s, rows, told);
}

/* ---- ResourceGatherNd ---------------------------------------------------- */

template <class W>
__global__ void gather(int64_t n, int64_t each, const int64_t *rows, const W *x,
                       W *y) {
  TD_EACH(i, n) {
    int64_t row = rows[i / each];
    y[i] = row < 0 ? W{} : x[row * each + i % each];
  }
}

template <class W>
td_status *gather_of(td_kernel_ctx *c, const slices *s, const td_tensor *x,
                     td_tensor *y) {
  int64_t n = td_tensor_count(y);
  return TD_LAUNCH(c, (gather<W>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n,
                   s->each, td_cuda_at<const int64_t>(&s->rows),
                   td_cuda_at<const W>(x), td_cuda_at<W>(y));
}

td_status *gather_by_size(td_kernel_ctx *c, const slices *s, const td_tensor *x,
                          td_tensor *y) {
  switch (td_dtype_size(x->dtype)) {
  case 1:
    return gather_of<uint8_t>(c, s, x, y);
  case 2:
    return gather_of<uint16_t>(c, s, x, y);
  case 4:
    return gather_of<uint32_t>(c, s, x, y);
  case 8:
    return gather_of<uint64_t>(c, s, x, y);
  default:
    return gather_of<td_pack<uint64_t>>(c, s, x, y);
  }
}

td_status *gather_run(td_kernel_ctx *c) {
  const td_tensor *x;
  td_tensor *y;
  td_shape shape;
  slices s = {};
  TD_TRY(td_gather_resource_nd_begin(c, &x, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  td_status *st = number_all(c, &x->shape,
                             td_cuda_report_of(c, TD_ROWS_TEXT), &s);
  if (td_ok(st)) st = gather_by_size(c, &s, x, y);
  td_tensor_release(&s.rows);
  return st;
}

/* ---- ResourceScatterNd --------------------------------------------------- */

template <class F>
td_status *scatter_all(td_kernel_ctx *c, const td_tensor *x, bool ignore) {
  td_cuda_report none = {};
  td_cuda_report told = ignore ? none : td_cuda_report_of(c, TD_ROWS_TEXT);
  slices s = {};
  td_status *st = number_all(c, &x->shape, told, &s);
  td_row_updates u = {x->data, td_in(c, 2)->data, s.count, s.each, s.each, none};
  if (td_ok(st)) st = td_row_updates_launch<F>(c, x->dtype, &s.rows, u);
  td_tensor_release(&s.rows);
  return st;
}

template <class F> td_status *run(td_kernel_ctx *c) {
  const td_tensor *now;
  td_tensor *x;
  td_variable *v;
  bool ignore = false;
  TD_TRY(td_resource_scatter_nd_begin(c, &v, &now, &ignore));
  if (td_tensor_count(td_in(c, 2)) == 0) return nullptr;
  TD_TRY(td_var_write(c, v, &x));
  return scatter_all<F>(c, x, ignore);
}

/* ---- rows ---------------------------------------------------------------- */

#define REALS                                                                  \
  "half|bfloat16|float|double|int8|uint8|int16|uint16|int32|uint32|int64|"     \
  "uint64"
#define SCATTER(name, F)                                                       \
  {.op = name,                                                                 \
   .device = "CUDA",                                                           \
   .types = "T=" REALS,                                                        \
   .run = run<F>,                                                              \
   .exclusive = "ref"}

const td_kernel_def kernels[] = {
    {.op = "ResourceGatherNd",
     .device = "CUDA",
     .types = "dtype=" REALS "|bool|complex64|complex128",
     .run = gather_run,
     .shared = "resource"},
    SCATTER("ResourceScatterNdUpdate", td_rows_new),
    SCATTER("ResourceScatterNdAdd", td_rows_sum),
    SCATTER("ResourceScatterNdSub", td_rows_difference),
    SCATTER("ResourceScatterNdMin", td_rows_smaller),
    SCATTER("ResourceScatterNdMax", td_rows_larger),
    {},
};

} // namespace

TD_CUDA_MODULE(resource_scatter_nd, kernels)
