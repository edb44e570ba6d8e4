/* tensor_array.c - arrays of tensors: what loops read from and write to.
 *
 * The array itself is step_array.h's; here are the ops of one element, in
 * tensor_array_whole.c those of many. Each takes and gives a flow, a scalar
 * without meaning: who takes what another gave comes after it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/step_array.h"
#include "kernels/strided_copy.h"
#include "kernels/tensor_array.h"

/* ---- making -------------------------------------------------------------- */

static td_status *out_handle(td_kernel_ctx *c, td_step_array *a) {
  td_tensor handle;
  TD_TRY(td_tensor_object(TD_RESOURCE, td_step_array_object(a), &handle));
  c->out[0] = handle;
  return NULL;
}

/* A plain output of zeros, in the memory of the kernel's device. */
static td_status *zero(const td_kernel_ctx *c, td_tensor *y) {
  static const _Alignas(16) char none[16];
  td_strided_copy m;
  int64_t n = td_tensor_count(y);
  if (n == 0) return NULL;
  td_strided_copy_init(&m);
  td_strided_copy_loop(&m, n, 0, 1);
  return td_strided_copy_spread(c, &m, td_dtype_size(y->dtype), none, y->data);
}

td_status *td_arrays_make(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  const char *name = td_node_string(n, "tensor_array_name");
  td_shape scalar = td_shape_scalar();
  td_step_array *a = NULL;
  td_tensor *flow;
  int64_t size = 0;
  td_step_array_spec spec = {
      .name = name[0] ? name : n->name,
      .dtype = td_node_type(n, "dtype"),
      .each = *td_attr_as_shape(td_node_attr(n, "element_shape")),
      .grows = td_node_bool(n, "dynamic_size"),
      .clears = td_node_bool(n, "clear_after_read"),
      .identical = td_node_bool(n, "identical_element_shapes")};
  TD_TRY(td_operand_scalar(td_in(c, 0), "size", &size));
  TD_TRY(td_out(c, 1, &scalar, &flow));
  TD_TRY(zero(c, flow));
  TD_TRY(td_step_array_new(&spec, size, &a));
  return out_handle(c, a);
}

static td_status *twin_of(td_kernel_ctx *c, const td_shape *before) {
  td_step_array *a = NULL, *t = NULL;
  TD_TRY(td_step_array_find(c, TD_INVALID, &a));
  TD_TRY(td_step_array_twin(a, td_node_string(td_ctx_node(c), "source"), before,
                            &t));
  TD_TRY(out_handle(c, t));
  td_out_pass(c, 1, 1);
  return NULL;
}

static td_status *grad_run(td_kernel_ctx *c) {
  td_shape none = td_shape_scalar();
  return twin_of(c, &none);
}

static td_status *grad_shape_run(td_kernel_ctx *c) {
  td_shape before;
  TD_TRY(td_operand_shape(td_in(c, 2), "shape_to_prepend", &before));
  return twin_of(c, &before);
}

static td_status *size_run(td_kernel_ctx *c) {
  td_shape scalar = td_shape_scalar();
  td_step_array *a = NULL;
  td_tensor *y;
  int64_t size = 0;
  TD_TRY(td_step_array_find(c, TD_INVALID, &a));
  TD_TRY(td_step_array_size(a, &size));
  TD_TRY(td_out(c, 0, &scalar, &y));
  *(int32_t *)y->data = (int32_t)size;
  return NULL;
}

static td_status *close_run(td_kernel_ctx *c) {
  td_step_array *a = NULL;
  TD_TRY(td_step_array_find(c, TD_INVALID, &a));
  td_step_array_close(a);
  return NULL;
}

/* ---- one element --------------------------------------------------------- */

td_status *td_arrays_write(td_kernel_ctx *c, td_step_array_add add) {
  const td_tensor *t = td_in(c, 2);
  td_step_array *a = NULL;
  int64_t i = 0;
  TD_TRY(td_step_array_find(c, t->dtype, &a));
  TD_TRY(td_operand_scalar(td_in(c, 1), "index", &i));
  TD_TRY(td_step_array_write(c, a, i, t, add));
  td_out_pass(c, 0, 3);
  return NULL;
}

static td_status *write_run(td_kernel_ctx *c) {
  return td_arrays_write(c, NULL);
}

static td_status *out_zeros(td_kernel_ctx *c, const td_shape *shape) {
  td_array y;
  if (td_dtype_is_plain(td_ctx_node(c)->out[0].dtype)) {
    td_tensor *t;
    TD_TRY(td_array_count(shape, NULL));
    TD_TRY(td_out(c, 0, shape, &t));
    return zero(c, t);
  }
  TD_TRY(td_array_out(c, 0, shape, &y));
  int64_t count = td_shape_count(shape);
  if (count) memset(y.at, 0, (size_t)count * y.size);
  td_status *s = td_array_done(c, 0, &y);
  td_array_drop(&y);
  return s;
}

td_status *td_arrays_read(td_kernel_ctx *c) {
  td_step_array *a = NULL;
  td_tensor t = {.dtype = TD_INVALID};
  int64_t i = 0;
  TD_TRY(td_step_array_find(c, td_ctx_node(c)->out[0].dtype, &a));
  TD_TRY(td_operand_scalar(td_in(c, 1), "index", &i));
  TD_TRY(td_step_array_read(c, a, i, &t));
  if (!td_tensor_valid(&t)) return out_zeros(c, &t.shape);
  c->out[0] = t;
  return NULL;
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *make_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "size", NULL));
  return td_infer_scalars(c);
}

static td_status *check_flow(td_infer *c, int i) {
  return td_infer_rank(c, i, 0, "flow_in", NULL);
}

static td_status *grad_infer(td_infer *c) {
  TD_TRY(check_flow(c, 1));
  return td_infer_scalars(c);
}

static td_status *size_infer(td_infer *c) {
  TD_TRY(check_flow(c, 1));
  return td_infer_scalars(c);
}

static td_status *write_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 1, 0, "index", NULL));
  TD_TRY(check_flow(c, 3));
  return td_infer_scalars(c);
}

static td_status *read_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 1, 0, "index", NULL));
  return check_flow(c, 2);
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .section = "Data flow: queues, stacks, arrays, accumulators", .lua = ""

static const td_op_def ops[] = {
    {.type = "TensorArrayV3",
     .sig = "size: int32 -> handle: resource, flow: float; dtype: type; "
            "element_shape: shape = ?; dynamic_size: bool = false; "
            "clear_after_read: bool = true; "
            "identical_element_shapes: bool = false; "
            "tensor_array_name: string = \"\"",
     .shape = make_infer,
     .cost = td_cost_none,
     .doc = "An array of tensors, for one step.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     .host = "size",
     SECTION},
    {.type = "TensorArrayGradV3",
     .sig = "handle: resource, flow_in: float -> grad_handle: resource, "
            "flow_out: float; source: string",
     .shape = grad_infer,
     .cost = td_cost_none,
     .doc = "The array of gradients of an array, one for each source.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     SECTION},
    {.type = "TensorArrayGradWithShape",
     .sig = "handle: resource, flow_in: float, shape_to_prepend: int32 -> "
            "grad_handle: resource, flow_out: float; source: string",
     .shape = grad_infer,
     .cost = td_cost_none,
     .doc = "The same, whose elements have more dimensions in front.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     .host = "shape_to_prepend",
     .section = "Data flow: queues, stacks, arrays, accumulators",
     .lua = ""},
    {.type = "TensorArrayWriteV3",
     .sig = "handle: resource, index: int32, value: T, flow_in: float -> "
            "flow_out: float; T: type",
     .shape = write_infer,
     .cost = td_cost_none,
     .doc = "Puts value into an array, once for each index.",
     .flags = TD_STATEFUL,
     .host = "index",
     SECTION},
    {.type = "TensorArrayReadV3",
     .sig = "handle: resource, index: int32, flow_in: float -> value: dtype; "
            "dtype: type",
     .shape = read_infer,
     .cost = td_cost_none,
     .doc = "An element of an array; zeros where none was written.",
     .flags = TD_STATEFUL,
     .host = "index",
     SECTION},
    {.type = "TensorArraySizeV3",
     .sig = "handle: resource, flow_in: float -> size: int32",
     .shape = size_infer,
     .cost = td_cost_none,
     .doc = "The number of elements of an array.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     .host = "size",
     SECTION},
    {.type = "TensorArrayCloseV3",
     .sig = "handle: resource ->",
     .shape = td_infer_none,
     .cost = td_cost_none,
     .doc = "Lets go of all elements of an array, and of the array.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     SECTION},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "TensorArrayV3", .device = "CPU", .run = td_arrays_make},
    {.op = "TensorArrayGradV3",
     .device = "CPU",
     .run = grad_run,
     .flags = TD_KERNEL_INLINE},
    {.op = "TensorArrayGradWithShape",
     .device = "CPU",
     .run = grad_shape_run,
     .flags = TD_KERNEL_INLINE},
    {.op = "TensorArrayWriteV3", .device = "CPU", .run = write_run},
    {.op = "TensorArrayReadV3", .device = "CPU", .run = td_arrays_read},
    {.op = "TensorArraySizeV3",
     .device = "CPU",
     .run = size_run,
     .flags = TD_KERNEL_INLINE},
    {.op = "TensorArrayCloseV3",
     .device = "CPU",
     .run = close_run,
     .flags = TD_KERNEL_INLINE},
    {0},
};

TD_MODULE(tensor_array, ops, kernels)
