/* resource_scatter.cu - rows of variables on a card, gathered and changed in
 * place. Updates of one row are done in their order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resource_scatter.h"
#include "kernels/cuda/row_updates.cuh"

namespace {

/* ---- ResourceGather ------------------------------------------------------ */

/* The table is {batch, rows, row}, the indices {batch, per_batch}; a row is of
 * `words` W. A row that there is not becomes 0. */
template <class W, class I>
__global__ void gather(int64_t n, int64_t words, const I *indices,
                       int64_t per_batch, int64_t rows, const W *x, W *y,
                       td_cuda_report told) {
  TD_EACH(i, n * words) {
    int64_t k = i / words, j = i % words, row = indices[k];
    if (row < 0 || row >= rows) {
      td_rows_tell(told, row, rows);
      y[i] = W{};
    } else {
      y[i] = x[(k / per_batch * rows + row) * words + j];
    }
  }
}

template <class W, class I>
td_status *launch_gather(td_kernel_ctx *c, const td_tensor *x, int axis,
                         td_tensor *y, int64_t bytes) {
  const td_tensor *indices = td_in(c, 1);
  int64_t n = td_tensor_count(indices), words = bytes / (int64_t)sizeof(W);
  int64_t per_batch = td_shape_span(&indices->shape, axis, indices->shape.rank);
  return TD_LAUNCH(c, (gather<W, I>), td_cuda_grid(c, n * words), TD_CUDA_BLOCK,
                   0, n, words, td_cuda_at<const I>(indices), per_batch,
                   x->shape.dim[axis], td_cuda_at<const W>(x), td_cuda_at<W>(y),
                   td_cuda_report_of(c, TD_ROWS_TEXT));
}

/* As large a word as rows are whole in, and both ends aligned for. */
template <class I>
td_status *gather_by(td_kernel_ctx *c, const td_tensor *x, int axis,
                     td_tensor *y, int64_t bytes) {
  uintptr_t all = (uintptr_t)x->data | (uintptr_t)y->data | (uintptr_t)bytes;
  if (all % 16 == 0)
    return launch_gather<td_pack<uint32_t>, I>(c, x, axis, y, bytes);
  if (all % 4 == 0) return launch_gather<uint32_t, I>(c, x, axis, y, bytes);
  return launch_gather<uint8_t, I>(c, x, axis, y, bytes);
}

td_status *gather_run(td_kernel_ctx *c) {
  const td_tensor *x;
  td_tensor *y;
  td_shape shape;
  int axis;
  TD_TRY(td_gather_resource_begin(c, &x, &axis, &shape));
  TD_TRY(td_out(c, 0, &shape, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  int64_t bytes = td_shape_span(&x->shape, axis + 1, x->shape.rank) *
                  (int64_t)td_dtype_size(x->dtype);
  return td_in(c, 1)->dtype == TD_INT32
             ? gather_by<int32_t>(c, x, axis, y, bytes)
             : gather_by<int64_t>(c, x, axis, y, bytes);
}

/* ---- divisors ------------------------------------------------------------ */

#define DIVIDE_TEXT                                                            \
  "an index is out of range, or an update is 0, by which nothing can be "      \
  "divided: %lld, of %lld"

template <class S>
__global__ void find_zeros(int64_t n, const S *updates, td_cuda_report told) {
  TD_EACH(i, n) {
    typename td_num<S>::in y = td_num<S>::load(updates[i]);
    if (y == 0) td_cuda_tell(told, i, n);
  }
}

#define ZEROS(kind, ...)                                                       \
  case TD_ELEMENT_##kind:                                                      \
    return TD_LAUNCH(c, (find_zeros<td_##kind>), td_cuda_grid(c, n),           \
                     TD_CUDA_BLOCK, 0, n, td_cuda_at<const td_##kind>(t),      \
                     told);

/* TensorFlow divides by 0 of no dtype here. */
td_status *look_for_zeros(td_kernel_ctx *c, const td_tensor *t,
                          td_cuda_report told) {
  int64_t n = td_tensor_count(t);
  if (n == 0) return nullptr;
  switch ((int)t->dtype) {
    EACH_REALS(ZEROS) HALVES_REALS(ZEROS)
  default:
    return td_cuda_no_type(c, 2);
  }
}

/* ---- ResourceScatter ----------------------------------------------------- */

template <class F> constexpr bool divides = false;
template <> constexpr bool divides<td_rows_quotient> = true;

template <class F> td_status *run(td_kernel_ctx *c) {
  const td_tensor *indices = td_in(c, 1), *updates = td_in(c, 2);
  td_variable *v;
  td_tensor *x;
  TD_TRY(td_resource_scatter_begin(c, divides<F>, &v));
  td_cuda_report told =
      td_cuda_report_of(c, divides<F> ? DIVIDE_TEXT : TD_ROWS_TEXT);
  if (divides<F>) TD_TRY(look_for_zeros(c, updates, told));
  if (td_tensor_count(indices) == 0) return nullptr;
  TD_TRY(td_var_write(c, v, &x));
  int64_t each = td_shape_span(&x->shape, 1, x->shape.rank);
  td_row_updates u = {x->data,
                      updates->data,
                      x->shape.dim[0],
                      each,
                      updates->shape.rank == 0 ? 0 : each,
                      told};
  return td_row_updates_launch<F>(c, x->dtype, indices, u);
}

/* ---- rows ---------------------------------------------------------------- */

#define TYPES                                                                  \
  "dtype=half|bfloat16|float|double|int8|int16|int32|int64|"                   \
  "uint8|uint16|uint32|uint64"
#define SCATTER(name, F)                                                       \
  {.op = name,                                                                 \
   .device = "CUDA",                                                           \
   .types = TYPES,                                                             \
   .run = run<F>,                                                              \
   .exclusive = "resource"}

const td_kernel_def kernels[] = {
    {.op = "ResourceGather",
     .device = "CUDA",
     .types = TYPES "|bool|complex64|complex128",
     .run = gather_run,
     .shared = "resource"},
    SCATTER("ResourceScatterAdd", td_rows_sum),
    SCATTER("ResourceScatterSub", td_rows_difference),
    SCATTER("ResourceScatterMul", td_rows_product),
    SCATTER("ResourceScatterDiv", td_rows_quotient),
    SCATTER("ResourceScatterMin", td_rows_smaller),
    SCATTER("ResourceScatterMax", td_rows_larger),
    SCATTER("ResourceScatterUpdate", td_rows_new),
    {},
};

} // namespace

TD_CUDA_MODULE(resource_scatter, kernels)
