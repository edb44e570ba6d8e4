/* count_up_to.c - ResourceCountUpTo: a variable that counts, until a limit ends
 * the loop of steps that reads it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/variable.h"
#include "kernels/cost.h"

static td_status *check_scalar(const td_shape *s) {
  td_shape_text text;
  if (s->rank <= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a variable that counts must be a scalar, not of shape %s",
                  td_shape_str(s, &text));
}

static td_status *count_run(td_kernel_ctx *c) {
  td_variable *v;
  const td_tensor *old;
  td_tensor *to, *y;
  td_shape scalar = td_shape_scalar();
  int64_t limit = td_node_int(td_ctx_node(c), "limit");
  TD_TRY(td_var(c, 0, &v));
  TD_TRY(td_var_peek(c, v, &old));
  TD_TRY(check_scalar(&old->shape));
  if (old->dtype != td_kernel_type(c->kernel, 0))
    return td_error(TD_INVALID_ARGUMENT, "variable %s holds %s, not %s",
                    v->base.name, td_dtype_name(old->dtype),
                    td_dtype_name(td_kernel_type(c->kernel, 0)));
  int64_t now = td_tensor_get_i(old, 0);
  if (now >= limit)
    return td_error(TD_OUT_OF_RANGE,
                    "variable %s has reached the limit of %lld", v->base.name,
                    (long long)limit);
  TD_TRY(td_out(c, 0, &scalar, &y));
  TD_TRY(td_var_write(c, v, &to));
  td_tensor_set_i(y, 0, now);
  td_tensor_set_i(to, 0, now + 1); /* at most the limit */
  return NULL;
}

/* An int32 that counts to more would begin anew. */
static td_status *count_infer(td_infer *c) {
  td_dtype dtype, t = td_infer_type(c, "T");
  td_shape shape;
  int64_t limit = td_infer_int(c, "limit");
  if (t == TD_INT32 && limit > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "limit is %lld, to which an int32 does not count",
                    (long long)limit);
  td_infer_out(c, 0, td_shape_scalar());
  if (!td_infer_handle(c, 0, &dtype, &shape)) return NULL;
  if (dtype != t)
    return td_error(TD_INVALID_ARGUMENT,
                    "the variable holds %s and cannot count in %s",
                    td_dtype_name(dtype), td_dtype_name(t));
  return check_scalar(&shape);
}

static const td_op_def ops[] = {
    {.type = "ResourceCountUpTo",
     .sig = "resource: resource -> output: T; limit: int; T: {int32, int64}",
     .shape = count_infer,
     .cost = td_cost_none,
     .doc = "The value of a variable, which then grows by 1; out_of_range when "
            "it is the limit.",
     .lua = "",
     .flags = TD_STATEFUL | TD_UPDATES | TD_NO_GRADIENT,
     .section = "Variables and state"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ResourceCountUpTo",
     .device = "CPU",
     .run = count_run,
     .exclusive = "resource"},
    {0},
};

TD_MODULE(count_up_to, ops, kernels)
