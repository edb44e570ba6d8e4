/* placeholder.c - Placeholder, PlaceholderWithDefault: tensors that are fed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel.h"
#include "kernels/cost.h"

static td_status *placeholder_infer(td_infer *c) {
  td_infer_out(c, 0, *td_infer_attr_shape(c, "shape"));
  return NULL;
}

/* It only runs where nobody fed it. */
static td_status *placeholder_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  td_shape_text shape;
  return td_error(TD_INVALID_ARGUMENT, "you must feed placeholder %s (%s %s)",
                  n->name, td_dtype_name(n->out[0].dtype),
                  td_shape_str(&n->out[0].shape, &shape));
}

static td_status *check_default(const td_shape *in, const td_shape *want) {
  td_shape_text a, b;
  if (td_shape_compatible(in, want)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a default of shape %s for a placeholder of shape %s",
                  td_shape_str(in, &a), td_shape_str(want, &b));
}

static td_status *default_infer(td_infer *c) {
  const td_shape *want = td_infer_attr_shape(c, "shape");
  TD_TRY(check_default(td_infer_in(c, 0), want));
  td_infer_out(c, 0, *want);
  return NULL;
}

static td_status *default_run(td_kernel_ctx *c) {
  const td_attr *want = td_node_attr(td_ctx_node(c), "shape");
  TD_TRY(check_default(&td_in(c, 0)->shape, td_attr_as_shape(want)));
  td_out_pass(c, 0, 0);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

#define SECTION .section = "Graph plumbing, feeds/fetches, no-ops"

static const td_op_def ops[] = {
    {.type = "Placeholder",
     .sig = "-> output: dtype; dtype: type; shape: shape = ?",
     .shape = placeholder_infer,
     .doc = "A tensor that must be fed.",
     .kind = TD_OP_PLACEHOLDER,
     .flags = TD_CHEAP | TD_NO_FOLD,
     SECTION},
    {.type = "PlaceholderWithDefault",
     .sig = "input: dtype -> output: dtype; dtype: type; shape: shape",
     .shape = default_infer,
     .cost = td_cost_none,
     .doc = "Passes its input on unless something else is fed.",
     .flags = TD_CHEAP,
     SECTION},
    {0},
};

#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE

static const td_kernel_def kernels[] = {
    {.op = "Placeholder", .run = placeholder_run, CPU},
    {.op = "PlaceholderWithDefault", .run = default_run, CPU},
    {0},
};

TD_MODULE(placeholder, ops, kernels)
