/* identity.c - Identity and its kin, and EnsureShape: the input handed on.
 *
 * They move their input to the output, or share it: nothing is copied.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel.h"
#include "kernels/cost.h"

static td_status *pass_all(td_kernel_ctx *c) {
  for (int i = 0; i < c->n_out; i++) td_out_pass(c, i, i);
  return NULL;
}

static td_status *each_same(td_infer *c) {
  for (int i = 0; i < td_infer_outputs(c); i++)
    td_infer_out(c, i, *td_infer_in(c, i));
  return NULL;
}

/* ---- EnsureShape --------------------------------------------------------- */

static td_status *wrong_shape(const td_shape *in, const td_shape *want) {
  td_shape_text a, b;
  return td_error(TD_INVALID_ARGUMENT, "the tensor must be of shape %s, not %s",
                  td_shape_str(want, &b), td_shape_str(in, &a));
}

static td_status *ensure_infer(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  const td_shape *want = td_infer_attr_shape(c, "shape");
  td_shape shape;
  if (!td_shape_merge(in, want, &shape)) return wrong_shape(in, want);
  td_infer_out(c, 0, shape);
  return NULL;
}

static td_status *ensure_run(td_kernel_ctx *c) {
  const td_shape *want = td_node_attr(td_ctx_node(c), "shape")->shape;
  const td_shape *in = &td_in(c, 0)->shape;
  if (!td_shape_compatible(in, want)) return wrong_shape(in, want);
  td_out_pass(c, 0, 0);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

#define SECTION .section = "Graph plumbing, feeds/fetches, no-ops"

static const td_op_def ops[] = {
    {.type = "Identity",
     .sig = "input: T -> output: T; T: type",
     .shape = td_infer_same,
     .doc = "The input.",
     .kind = TD_OP_IDENTITY,
     .flags = TD_CHEAP,
     .example = "td.identity(td.tensor{1, 2})  --> {1, 2}",
     SECTION},
    {.type = "IdentityN",
     .sig = "input: T -> output: T; T: list(type) >= 1",
     .shape = each_same,
     .doc = "The inputs, each as it is.",
     .kind = TD_OP_IDENTITY,
     .flags = TD_CHEAP,
     .example = "td.identity_n({{1, 2}, {3}})[1]  --> 1 2",
     SECTION},
    {.type = "StopGradient",
     .sig = "input: T -> output: T; T: type",
     .shape = td_infer_same,
     .doc = "The input, as a constant to gradients.",
     .kind = TD_OP_IDENTITY,
     .flags = TD_CHEAP | TD_NO_GRADIENT,
     .example = "td.stop_gradient(td.tensor{1, 2})  --> {1, 2}",
     SECTION},
    {.type = "PreventGradient",
     .sig = "input: T -> output: T; T: type; message: string = \"\"",
     .shape = td_infer_same,
     .doc = "The input; asking for a gradient through it is an error.",
     .lua = "",
     .kind = TD_OP_IDENTITY,
     .flags = TD_CHEAP,
     SECTION},
    {.type = "EnsureShape",
     .sig = "input: T -> output: T; shape: shape; T: type",
     .shape = ensure_infer,
     .cost = td_cost_none,
     .doc = "The input, or an error when it is not of that shape.",
     .flags = TD_CHEAP,
     .example = "td.ensure_shape(td.tensor{1, 2}, {shape = {-1}})  --> {1, 2}",
     SECTION},
    {.type = "Snapshot",
     .sig = "input: T -> output: T; T: type",
     .shape = td_infer_same,
     .cost = td_cost_none,
     .doc = "The input as it is now; values never change here.",
     .flags = TD_CHEAP,
     .lua = "",
     .section = "Graph plumbing, feeds/fetches, no-ops"},
    {.type = "DeepCopy",
     .sig = "x: T -> y: T; T: type",
     .shape = td_infer_same,
     .cost = td_cost_none,
     .doc = "The input: values are never changed, so a share is as good as a "
            "copy.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .lua = "",
     .section = "Graph plumbing, feeds/fetches, no-ops"},
    {.type = "GuaranteeConst",
     .sig = "input: T -> output: T; T: type",
     .shape = td_infer_same,
     .cost = td_cost_none,
     .doc = "The input, which its maker promises never to change.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .lua = "",
     .section = "Graph plumbing, feeds/fetches, no-ops"},
    {0},
};

#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE

static const td_kernel_def kernels[] = {
    {.op = "Identity", .run = pass_all, CPU},
    {.op = "IdentityN", .run = pass_all, CPU},
    {.op = "StopGradient", .run = pass_all, CPU},
    {.op = "PreventGradient", .run = pass_all, CPU},
    {.op = "EnsureShape", .run = ensure_run, CPU},
    {.op = "Snapshot", .run = pass_all, CPU},
    {.op = "DeepCopy", .run = pass_all, CPU},
    {.op = "GuaranteeConst", .run = pass_all, CPU},
    {0},
};

TD_MODULE(identity, ops, kernels)
