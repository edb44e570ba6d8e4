/* strided_assign.c - W["1:3"] = t: ResourceStridedSliceAssign, and the same in
 * a copy of a tensor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/variable.h"
#include "kernels/cost.h"
#include "kernels/moves.h"
#include "kernels/strided_slice.h"

enum { WHOLE, BEGIN, VALUE = 4 }; /* inputs */

static bool is_empty(const td_shape *s) {
  for (int k = 0; k < s->rank; k++)
    if (s->dim[k] == 0) return true;
  return false;
}

/* Whatever is assigned to nothing changes nothing, as in TensorFlow. */
static td_status *check_value(const td_shape *value, const td_shape *want) {
  td_shape all;
  td_shape_text a, b;
  if (is_empty(want)) return NULL;
  if (td_shape_broadcast(value, want, &all) && td_shape_compatible(&all, want))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "value must broadcast to the shape of the slice, %s, and is "
                  "of shape %s",
                  td_shape_str(want, &a), td_shape_str(value, &b));
}

static td_status *check_infer(td_infer *c, const td_shape *whole) {
  td_shape want;
  TD_TRY(td_strided_slice_ask(c, whole, BEGIN, &want));
  return check_value(td_infer_in(c, VALUE), &want);
}

/* The value repeated until it has the shape of the slice. */
static void repeats(const td_shape *x, const td_shape *to, td_strided_copy *m) {
  int64_t from[TD_MAX_RANK], steps[TD_MAX_RANK];
  int missing = to->rank - x->rank;
  td_strided_copy_init(m);
  td_shape_strides(x, from);
  td_shape_strides(to, steps);
  for (int k = 0; k < to->rank; k++) {
    bool own = k >= missing && x->dim[k - missing] != 1;
    td_strided_copy_loop(m, to->dim[k], own ? from[k - missing] : 0, steps[k]);
  }
}

static td_status *repeat(const td_kernel_ctx *c, const td_tensor *x,
                         const td_tensor *to) {
  td_strided_copy m;
  repeats(&x->shape, &to->shape, &m);
  return td_strided_copy_do(c, &m, td_dtype_size(x->dtype), x->data, to->data);
}

/* The same of strings and objects. */
static td_status *spread(const td_kernel_ctx *c, const td_shape *to,
                         td_array *x) {
  td_strided_copy m;
  repeats(&x->shape, to, &m);
  char *all = td_calloc((size_t)td_shape_count(to), x->size);
  if (!all) return td_oom();
  td_strided_copy_run(c, &m, x->size, x->at, all);
  td_array_drop(x);
  x->own = x->at = all;
  return NULL;
}

/* Of strings and objects, as many elements as the slice has. */
static td_status *take_value(const td_kernel_ctx *c,
                             const td_strided_slice *slice, td_array *x) {
  TD_TRY(td_array_in(td_in(c, VALUE), x));
  if (td_shape_equal(&x->shape, &slice->out)) return NULL;
  return spread(c, &slice->out, x);
}

/* Strings and objects: a new tensor of the old elements and the new ones. */
static td_status *make_changed(const td_kernel_ctx *c, const td_tensor *now,
                               const td_strided_slice *slice, td_tensor *out) {
  td_array x = {0}, y = {0};
  td_status *s = take_value(c, slice, &x);
  if (td_ok(s)) s = td_array_edit(now, &y);
  if (td_ok(s)) s = td_strided_slice_put(c, slice, &now->shape, &x, &y);
  if (td_ok(s)) s = td_array_make(&y, out);
  td_array_drop(&x);
  td_array_drop(&y);
  return s;
}

/* In the memory of the device, as all of it. */
static td_status *write_plain(td_kernel_ctx *c, const td_strided_slice *slice,
                              td_tensor *t) {
  const td_tensor *value = td_in(c, VALUE);
  td_tensor all = {0};
  td_array x = {0}, y = {0};
  td_status *s = NULL;
  if (!td_shape_equal(&value->shape, &slice->out)) {
    s = td_temp(c, value->dtype, &slice->out, &all);
    if (td_ok(s)) s = repeat(c, value, &all);
    value = &all;
  }
  if (td_ok(s)) s = td_array_in(value, &x);
  if (td_ok(s)) s = td_array_in(t, &y);
  if (td_ok(s)) s = td_strided_slice_put(c, slice, &t->shape, &x, &y);
  td_tensor_release(&all);
  return s;
}

/* ---- variables ----------------------------------------------------------- */

static td_status *assign_infer(td_infer *c) {
  td_dtype dtype;
  td_shape whole;
  if (!td_infer_handle(c, WHOLE, &dtype, &whole)) return NULL;
  if (dtype != td_infer_type(c, "T"))
    return td_error(TD_INVALID_ARGUMENT,
                    "the variable holds %s and cannot be changed by %s",
                    td_dtype_name(dtype), td_dtype_name(td_infer_type(c, "T")));
  return check_infer(c, &whole);
}

td_status *td_moves_assign_slice(td_kernel_ctx *c) {
  const td_tensor *value = td_in(c, VALUE), *now;
  td_variable *v;
  td_strided_slice slice;
  td_tensor *x, t;
  TD_TRY(td_var(c, WHOLE, &v));
  TD_TRY(td_var_peek(c, v, &now));
  if (now->dtype != value->dtype)
    return td_error(
        TD_INVALID_ARGUMENT, "variable %s holds %s and cannot be changed by %s",
        v->base.name, td_dtype_name(now->dtype), td_dtype_name(value->dtype));
  TD_TRY(td_strided_slice_read(c, &now->shape, BEGIN, &slice));
  TD_TRY(check_value(&value->shape, &slice.out));
  if (td_shape_count(&slice.out) == 0) return NULL;
  if (td_dtype_is_plain(now->dtype)) {
    TD_TRY(td_var_write(c, v, &x));
    return write_plain(c, &slice, x);
  }
  TD_TRY(make_changed(c, now, &slice, &t));
  td_status *s = td_var_assign(c, v, &t);
  td_tensor_release(&t);
  return s;
}

/* ---- tensors ------------------------------------------------------------- */

static td_status *update_infer(td_infer *c) {
  TD_TRY(check_infer(c, td_infer_in(c, WHOLE)));
  return td_infer_same(c);
}

/* The slice is written into x's own memory where nobody else has it. */
static td_status *update_plain(td_kernel_ctx *c,
                               const td_strided_slice *slice) {
  const td_tensor *x = td_in(c, WHOLE);
  const void *from = x->data;
  td_shape shape = x->shape;
  td_tensor *y;
  TD_TRY(td_out_forward(c, 0, &shape, WHOLE, -1, &y));
  td_strided_copy whole;
  td_strided_copy_init(&whole);
  td_strided_copy_loop(&whole, td_tensor_count(y), 1, 1);
  if (y->data != from)
    TD_TRY(
        td_strided_copy_do(c, &whole, td_dtype_size(y->dtype), from, y->data));
  return write_plain(c, slice, y);
}

td_status *td_moves_update_slice(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, WHOLE), *value = td_in(c, VALUE);
  td_strided_slice slice;
  td_tensor t;
  TD_TRY(td_strided_slice_read(c, &x->shape, BEGIN, &slice));
  TD_TRY(check_value(&value->shape, &slice.out));
  if (td_shape_count(&slice.out) == 0) {
    td_out_pass(c, 0, WHOLE);
    return NULL;
  }
  if (td_dtype_is_plain(x->dtype)) return update_plain(c, &slice);
  TD_TRY(make_changed(c, x, &slice, &t));
  td_out_set(c, 0, &t);
  td_tensor_release(&t);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

#define SLICE "begin: Index, end: Index, strides: Index, value: T -> "
#define ATTRS                                                                  \
  "T: type; Index: {int32, int64}; begin_mask: int = 0; end_mask: int = 0; "   \
  "ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0"

static const td_op_def ops[] = {
    {.type = "ResourceStridedSliceAssign",
     .sig = "ref: resource, " SLICE "; " ATTRS,
     .shape = assign_infer,
     .cost = td_cost_move,
     .doc = "Gives the slice of a variable that StridedSlice would take new "
            "values.",
     .lua = "",
     .flags = TD_STATEFUL | TD_UPDATES | TD_SPARSE,
     .host = "begin, end, strides",
     .section = "Variables and state"},
    {.type = "TensorStridedSliceUpdate",
     .sig = "input: T, " SLICE "output: T; " ATTRS,
     .shape = update_infer,
     .cost = td_cost_move,
     .doc = "A copy of input with value in place of the slice that "
            "StridedSlice would take.",
     .lua = "",
     .host = "begin, end, strides",
     .section = "Variables and state"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ResourceStridedSliceAssign",
     .device = "CPU",
     .run = td_moves_assign_slice,
     .exclusive = "ref"},
    {.op = "TensorStridedSliceUpdate",
     .device = "CPU",
     .run = td_moves_update_slice},
    {0},
};

TD_MODULE(strided_assign, ops, kernels)
