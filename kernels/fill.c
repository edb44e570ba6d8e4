/* fill.c - Fill, ZerosLike, OnesLike, Empty: one element everywhere.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/checks.h"
#include "kernels/cost.h"
#include "kernels/strided_copy.h"
#include "kernels/operand.h"
#include "kernels/array.h"
#include "kernels/variant.h"

#include <string.h>

/* n elements of output, all the one at `x`. */
static void fill_all(const td_kernel_ctx *c, const td_array *y, const void *x) {
  td_strided_copy m;
  td_strided_copy_init(&m);
  td_strided_copy_loop(&m, td_shape_count(&y->shape), 0, 1);
  td_strided_copy_run(c, &m, y->size, x, y->at);
}

/* ---- Fill ---------------------------------------------------------------- */

static td_status *fill_infer(td_infer *c) {
  td_shape shape;
  TD_TRY(td_infer_rank(c, 1, 0, "value", NULL));
  TD_TRY(td_infer_rank(c, 0, 1, "dims", NULL));
  TD_TRY(td_infer_shape_from(c, 0, &shape));
  td_infer_out(c, 0, shape);
  return NULL;
}

static bool fill_value(td_infer *c, int out, td_small *v) {
  td_small dims, x;
  (void)out;
  if (!td_infer_small(c, 0, &dims) || !td_infer_small(c, 1, &x)) return false;
  if (dims.count > 1 || !td_operand_known(&dims) || x.count != 1) return false;
  int64_t n = dims.count ? dims.at[0] : 1;
  if (n < 0 || n > TD_SMALL_MAX) return false;
  *v = (td_small){.rank = dims.count, .count = (int)n};
  for (int k = 0; k < n; k++) {
    v->at[k] = x.at[0];
    v->known[k] = x.known[0];
  }
  return true;
}

/* Programs of old gave a size as a scalar and the value as a vector of one. As
 * in TensorFlow that runs, where it is not seen before. */
static td_status *fill_dims(const td_tensor *t, td_shape *shape) {
  td_tensor vector = *t;
  if (t->shape.rank == 0) vector.shape = td_shape_vector(1);
  return td_operand_shape(&vector, "dims", shape);
}

td_status *td_fill_check(const td_kernel_ctx *c, td_shape *out) {
  const td_tensor *value = td_in(c, 1);
  td_shape_text text;
  TD_TRY(fill_dims(td_in(c, 0), out));
  if (value->shape.rank <= 1 && td_tensor_count(value) == 1) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "value must be a scalar, not of %s",
                  td_shape_str(&value->shape, &text));
}

static td_status *fill_run(td_kernel_ctx *c) {
  td_shape shape;
  td_array x = {0}, y = {0};
  TD_TRY(td_fill_check(c, &shape));
  td_status *s = td_array_in(td_in(c, 1), &x);
  if (td_ok(s)) s = td_array_out(c, 0, &shape, &y);
  if (td_ok(s)) {
    fill_all(c, &y, x.at);
    s = td_array_done(c, 0, &y);
  }
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}

/* ---- ZerosLike, OnesLike ------------------------------------------------- */

/* Takes the memory of its input where it may. */
static td_status *like_run(td_kernel_ctx *c, const void *x) {
  td_array y = {0};
  td_dtype dtype = td_in(c, 0)->dtype;
  if (td_dtype_is_plain(dtype)) {
    td_tensor *t;
    TD_TRY(td_out_like(c, 0, 0, &t));
    y = (td_array){
        .at = t->data, .size = td_dtype_size(dtype), .shape = t->shape};
    fill_all(c, &y, x);
    return NULL;
  }
  TD_TRY(td_array_out(c, 0, &td_in(c, 0)->shape, &y));
  td_status *s = td_array_done(c, 0, &y);
  td_array_drop(&y);
  return s;
}

static td_status *zeros_run(td_kernel_ctx *c) {
  static const char zero[16];
  if (td_in(c, 0)->dtype == TD_VARIANT) return td_variant_zeros_run(c);
  return like_run(c, zero);
}

static td_status *ones_run(td_kernel_ctx *c) {
  td_tensor one;
  TD_TRY(td_tensor_scalar_i(td_in(c, 0)->dtype, 1, &one));
  td_status *s = like_run(c, one.data);
  td_tensor_release(&one);
  return s;
}

static bool like_value(td_infer *c, td_small *v, int64_t x) {
  if (!td_infer_small(c, 0, v)) return false;
  for (int k = 0; k < v->count; k++) {
    v->at[k] = x;
    v->known[k] = true;
  }
  return true;
}

static bool zeros_value(td_infer *c, int out, td_small *v) {
  (void)out;
  return like_value(c, v, 0);
}

static bool ones_value(td_infer *c, int out, td_small *v) {
  (void)out;
  return like_value(c, v, 1);
}

/* ---- Empty --------------------------------------------------------------- */

static td_status *empty_infer(td_infer *c) {
  td_shape shape;
  TD_TRY(td_infer_rank(c, 0, 1, "shape", NULL));
  TD_TRY(td_infer_shape_from(c, 0, &shape));
  td_infer_out(c, 0, shape);
  return NULL;
}

/* Zeros whatever `init` says: what memory held before is nobody's business. */
static td_status *empty_run(td_kernel_ctx *c) {
  td_shape shape;
  td_array y;
  int64_t count;
  TD_TRY(td_operand_shape(td_in(c, 0), "shape", &shape));
  TD_TRY(td_array_count(&shape, &count));
  TD_TRY(td_array_out(c, 0, &shape, &y));
  if (count) memset(y.at, 0, (size_t)count * y.size);
  td_status *s = td_array_done(c, 0, &y);
  td_array_drop(&y);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Fill",
     .sig = "dims: index_type, value: T -> output: T; "
            "T: type; index_type: {int32, int64} = int32",
     .shape = fill_infer,
     .cost = td_cost_fill,
     .value = fill_value,
     .doc = "A tensor of shape dims with every element value.",
     .host = "dims",
     .section = "Array"},
    {.type = "ZerosLike",
     .sig = "x: T -> y: T; T: type",
     .shape = td_infer_same,
     .cost = td_cost_fill,
     .value = zeros_value,
     .doc = "Zeros (false, empty strings, lists of zeros) in the shape of x.",
     .flags = TD_NO_GRADIENT,
     .example = "td.zeros_like(td.tensor{1, 2})  --> 0 0",
     .section = "Array"},
    {.type = "OnesLike",
     .sig = "x: T -> y: T; T: {bfloat16, half, float, double, int8, uint8, "
            "int16, uint16, int32, uint32, int64, uint64, complex64, "
            "complex128, bool}",
     .shape = td_infer_same,
     .cost = td_cost_fill,
     .value = ones_value,
     .doc = "Ones (true) in the shape of x.",
     .flags = TD_NO_GRADIENT,
     .example = "td.ones_like(td.tensor{5, 6})  --> 1 1",
     .section = "Array"},
    {.type = "Empty",
     .sig = "shape: int32 -> output: dtype; dtype: type; init: bool = false",
     .shape = empty_infer,
     .cost = td_cost_fill,
     .doc = "A tensor to be filled; it holds zeros, with init or without.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .host = "shape",
     .example = "td.empty({2}, {dtype = \"float32\"})  --> 0 0",
     .section = "Array"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Fill", .device = "CPU", .run = fill_run},
    {.op = "ZerosLike", .device = "CPU", .run = zeros_run},
    {.op = "OnesLike", .device = "CPU", .run = ones_run},
    {.op = "Empty",
     .device = "CPU",
     .types = "dtype=bool|string|half|bfloat16|float|double|int8|uint8|int16|"
              "uint16|int32|"
              "uint32|int64|uint64|complex64|complex128",
     .run = empty_run},
    {0},
};

TD_MODULE(fill, ops, kernels)
