/* bincount.c - how many fall where: Bincount, DenseBincount,
 * HistogramFixedWidth.
 *
 * Counting is one pass on one thread: what is counted is soon in memory, and
 * sums of weights keep their order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/array.h"
#include "kernels/checks.h"
#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/element.h"

/* ---- bins ---------------------------------------------------------------- */

/* Adds weight i (1 where there are none) to bin `at` of y. */
#define ADD(kind)                                                              \
  case TD_ELEMENT_##kind: {                                                    \
    const td_##kind *w = weights ? weights->data : NULL;                       \
    ((td_##kind *)y)[at] += w ? w[i] : 1;                                      \
    break;                                                                     \
  }

static void add(td_dtype t, const td_tensor *weights, int64_t i, void *y,
                int64_t at) {
  switch ((int)t) {
    ADD(i32)
    ADD(i64)
    ADD(f32)
    ADD(f64)
  }
}

#define SET(kind)                                                              \
  case TD_ELEMENT_##kind:                                                      \
    ((td_##kind *)y)[at] = 1;                                                  \
    break;

static void set(td_dtype t, void *y, int64_t at) {
  switch ((int)t) {
    SET(i32)
    SET(i64)
    SET(f32)
    SET(f64)
  }
}

static td_status *check_size(int64_t size) {
  if (size >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "size must not be negative, is %lld",
                  (long long)size);
}

static td_status *check_weights(const td_shape *x, const td_shape *weights) {
  td_shape_text a, b;
  td_shape none = td_shape_vector(0);
  if (td_shape_compatible(x, weights) || td_shape_compatible(weights, &none))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "weights must be of the shape of what is counted, %s, or "
                  "have no elements, not be of shape %s",
                  td_shape_str(x, &a), td_shape_str(weights, &b));
}

/* The rows of `x` into rows of bins of output 0. */
static td_status *count_rows(td_kernel_ctx *c, int64_t rows, int64_t size,
                             bool binary, const td_shape *shape) {
  const td_tensor *x = td_in(c, 0), *weights = td_in(c, 2);
  int64_t n = td_tensor_count(x);
  td_tensor *y;
  for (int64_t i = 0; i < n; i++)
    if (td_tensor_get_i(x, i) < 0)
      return td_error(TD_INVALID_ARGUMENT,
                      "element %lld is %lld: it must not be negative",
                      (long long)i, (long long)td_tensor_get_i(x, i));
  TD_TRY(td_out(c, 0, shape, &y));
  size_t bytes = (size_t)td_shape_count(shape) * td_dtype_size(y->dtype);
  if (bytes) memset(y->data, 0, bytes);
  if (td_tensor_count(weights) == 0) weights = NULL;
  for (int64_t i = 0; i < n; i++) {
    int64_t value = td_tensor_get_i(x, i);
    if (value >= size) continue;
    int64_t at = i / (n / rows) * size + value;
    if (binary)
      set(y->dtype, y->data, at);
    else
      add(y->dtype, weights, i, y->data, at);
  }
  return NULL;
}

/* The size where it is known, else -1. */
static td_status *ask_size(td_infer *c, int64_t *size) {
  td_small v;
  *size = -1;
  TD_TRY(td_infer_rank(c, 1, 0, "size", NULL));
  if (!td_infer_small(c, 1, &v) || !v.known[0]) return NULL;
  *size = v.at[0];
  return check_size(*size);
}

/* ---- Bincount ------------------------------------------------------------ */

static td_status *bincount_infer(td_infer *c) {
  int64_t size;
  TD_TRY(ask_size(c, &size));
  TD_TRY(check_weights(td_infer_in(c, 0), td_infer_in(c, 2)));
  td_infer_out(c, 0, td_shape_vector(size));
  return NULL;
}

/* ---- DenseBincount ------------------------------------------------------- */

static td_status *check_input(const td_shape *x) {
  td_shape_text text;
  if (x->rank <= 2) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "input must be of rank 2 at most, not of shape %s",
                  td_shape_str(x, &text));
}

static td_shape dense_shape(const td_shape *x, int64_t size) {
  if (x->rank < 0) return td_shape_unknown();
  return x->rank == 2 ? td_shape_matrix(x->dim[0], size)
                      : td_shape_vector(size);
}

static td_status *dense_infer(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0);
  int64_t size;
  TD_TRY(ask_size(c, &size));
  TD_TRY(check_input(x));
  TD_TRY(check_weights(x, td_infer_in(c, 2)));
  td_infer_out(c, 0, dense_shape(x, size));
  return NULL;
}

td_status *td_bincount_check(const td_kernel_ctx *c, bool dense, int64_t *rows,
                             int64_t *size, td_shape *out) {
  const td_shape *x = &td_in(c, 0)->shape;
  TD_TRY(td_operand_scalar(td_in(c, 1), "size", size));
  TD_TRY(check_size(*size));
  if (dense) TD_TRY(check_input(x));
  TD_TRY(check_weights(x, &td_in(c, 2)->shape));
  *rows = dense && x->rank == 2 ? x->dim[0] : 1;
  *out = dense ? dense_shape(x, *size) : td_shape_vector(*size);
  return td_array_count(out, NULL);
}

static td_status *bincount_run(td_kernel_ctx *c) {
  int64_t rows, size = 0;
  td_shape shape;
  TD_TRY(td_bincount_check(c, false, &rows, &size, &shape));
  return count_rows(c, rows, size, false, &shape);
}

static td_status *dense_run(td_kernel_ctx *c) {
  int64_t rows, size = 0;
  td_shape shape;
  TD_TRY(td_bincount_check(c, true, &rows, &size, &shape));
  return count_rows(c, rows, size,
                    td_node_bool(td_ctx_node(c), "binary_output"), &shape);
}

/* ---- HistogramFixedWidth ------------------------------------------------- */

static td_status *check_range(const td_shape *range) {
  td_shape_text text;
  td_shape two = td_shape_vector(2);
  if (td_shape_compatible(range, &two)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "value_range must be a vector of 2, not of shape %s",
                  td_shape_str(range, &text));
}

static td_status *check_bins(int64_t bins) {
  if (bins > 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "nbins must be positive, is %lld",
                  (long long)bins);
}

static td_status *histogram_infer(td_infer *c) {
  td_small v;
  int64_t bins = -1;
  TD_TRY(check_range(td_infer_in(c, 1)));
  TD_TRY(td_infer_rank(c, 2, 0, "nbins", NULL));
  if (td_infer_small(c, 2, &v) && v.known[0]) {
    bins = v.at[0];
    TD_TRY(check_bins(bins));
  }
  td_infer_out(c, 0, td_shape_vector(bins));
  return NULL;
}

/* The bin of x; what lies outside counts in the first or the last, NaN in the
 * first. */
static int64_t bin_of(double x, double low, double width, int64_t bins) {
  double at = (x - low) / width;
  if (!(at >= 0)) return 0;
  return at < (double)bins ? (int64_t)at : bins - 1;
}

td_status *td_histogram_check(const td_kernel_ctx *c, double *low, double *high,
                              int64_t *bins) {
  const td_tensor *range = td_in(c, 1);
  TD_TRY(check_range(&range->shape));
  TD_TRY(td_operand_scalar(td_in(c, 2), "nbins", bins));
  TD_TRY(check_bins(*bins));
  *low = td_tensor_get_f(range, 0);
  *high = td_tensor_get_f(range, 1);
  if (*low < *high) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "value_range must be increasing, is {%g, %g}", *low, *high);
}

static td_status *histogram_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  int64_t bins = 0, n = td_tensor_count(x);
  double low, high;
  td_tensor *y;
  TD_TRY(td_histogram_check(c, &low, &high, &bins));
  td_shape shape = td_shape_vector(bins);
  TD_TRY(td_out(c, 0, &shape, &y));
  memset(y->data, 0, (size_t)bins * td_dtype_size(y->dtype));
  double width = (high - low) / (double)bins;
  for (int64_t i = 0; i < n; i++)
    add(y->dtype, NULL, i, y->data,
        bin_of(td_tensor_get_f(x, i), low, width, bins));
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

#define BINS "T: {int32, int64, float, double}"

static const td_op_def ops[] = {
    {.type = "Bincount",
     .sig = "arr: int32, size: int32, weights: T -> bins: T; " BINS,
     .shape = bincount_infer,
     .cost = td_cost_reduce,
     .doc = "How often each of 0 .. size - 1 occurs in arr, or the sums of the "
            "weights beside them; larger numbers are left out.",
     .host = "size",
     .example = "td.bincount({0, 2, 2}, 3, {1, 1, 1})  --> 1 0 2",
     .section = "Reductions, ranges, segments"},
    {.type = "DenseBincount",
     .sig = "input: Tidx, size: Tidx, weights: T -> output: T; "
            "Tidx: {int32, int64}; " BINS "; binary_output: bool = false",
     .shape = dense_infer,
     .cost = td_cost_reduce,
     .doc = "Bincount of a vector or of each row of a matrix; binary_output: "
            "1 for what occurs.",
     .lua = "",
     .host = "size",
     .section = "Reductions, ranges, segments"},
    {.type = "HistogramFixedWidth",
     .sig = "values: T, value_range: T, nbins: int32 -> out: dtype; " BINS
            "; dtype: {int32, int64} = int32",
     .shape = histogram_infer,
     .cost = td_cost_reduce,
     .doc = "How many values fall into each of nbins equal parts of "
            "value_range; those outside count at its ends.",
     .host = "value_range, nbins",
     .example = "td.histogram_fixed_width(td.tensor{-1.0, 0.0, 1.5, 2.0, 5.0}, "
                "{0, 5}, 5)  --> 2 1 1 0 1",
     .section = "Reductions, ranges, segments"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Bincount",
     .device = "CPU",
     .types = "T=int32|int64|float|double",
     .run = bincount_run},
    {.op = "DenseBincount",
     .device = "CPU",
     .types = "T=int32|int64|float|double",
     .run = dense_run},
    {.op = "HistogramFixedWidth",
     .device = "CPU",
     .types = "T=int32|int64|float|double",
     .run = histogram_run},
    {0},
};

TD_MODULE(bincount, ops, kernels)
