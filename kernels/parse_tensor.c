/* parse_tensor.c - ParseTensor, SerializeTensor: a tensor as the bytes of a
 * TensorProto.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/io/serialized.h"
#include "kernels/cost.h"
#include "kernels/text.h"

static td_status *parse_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "serialized", NULL));
  return td_infer_any(c);
}

static td_status *parse_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  td_dtype want = td_ctx_node(c)->out[0].dtype;
  td_shape_text text;
  td_tensor y;
  if (x->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "serialized must be a scalar, not of shape %s",
                    td_shape_str(&x->shape, &text));
  TD_TRY(td_serialized_read(td_text_at(x, 0), &y));
  td_status *s = NULL;
  if (y.dtype == want)
    td_out_set(c, 0, &y);
  else
    s = td_error(TD_INVALID_ARGUMENT,
                 "serialized is a tensor of %s, and out_type is %s",
                 td_dtype_name(y.dtype), td_dtype_name(want));
  td_tensor_release(&y);
  return s;
}

static td_status *serialize_run(td_kernel_ctx *c) {
  td_shape scalar = td_shape_scalar();
  char *bytes;
  size_t len;
  td_tensor y;
  TD_TRY(td_serialized_write(td_in(c, 0), &bytes, &len));
  const char *at = bytes;
  td_status *s = td_tensor_strings(&scalar, &at, &len, &y);
  td_free(bytes);
  if (!td_ok(s)) return s;
  td_out_set(c, 0, &y);
  td_tensor_release(&y);
  return NULL;
}

#define ROW                                                                    \
  .cost = td_cost_move, .flags = TD_NO_GRADIENT,                               \
  .section = "I/O: readers, checkpoints, files"

static const td_op_def ops[] = {
    {.type = "ParseTensor",
     .sig = "serialized: string -> output: out_type; out_type: type",
     .shape = parse_infer,
     .lua = "",
     .doc = "The tensor that SerializeTensor made a string of.",
     ROW},
    {.type = "SerializeTensor",
     .sig = "tensor: T -> serialized: string; T: type",
     .shape = td_infer_scalars,
     .host = "tensor",
     .doc = "A tensor as one string, the bytes of a TensorProto.",
     .example = "td.parse_tensor(td.serialize_tensor({1.5, 2}), \"float32\")  "
                "--> 1.5 2",
     ROW},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ParseTensor", .device = "CPU", .run = parse_run},
    {.op = "SerializeTensor", .device = "CPU", .run = serialize_run},
    {0},
};

TD_MODULE(parse_tensor, ops, kernels)
