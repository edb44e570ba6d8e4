/* control_flow.c - Switch, Merge, the loop primitives; NoOp, ControlTrigger.
 *
 * Only values pass through here. Which nodes run, with which inputs dead and in
 * which frame and iteration, is the executor's business; it knows these ops by
 * kind. No kernel looks at what it passes on, so all run on the thread that
 * made them ready, on every device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel.h"

/* ---- passing on: Enter, Exit, NextIteration, LoopCond -------------------- */

static td_status *pass(td_kernel_ctx *c) {
  td_out_pass(c, 0, 0);
  return NULL;
}

/* With the note "_invariant" the loop variable keeps that shape. What it begins
 * with may be known less well here than where the loop was built: it must not
 * contradict. */
static td_status *enter_infer(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  const td_shape *invariant = td_infer_attr_shape(c, "_invariant");
  td_shape_text a, b;
  if (invariant && !td_shape_compatible(invariant, in))
    return td_error(TD_INVALID_ARGUMENT,
                    "the loop variable begins with shape %s, which its "
                    "invariant %s does not allow",
                    td_shape_str(in, &a), td_shape_str(invariant, &b));
  if (td_infer_int(c, "parallel_iterations") < 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "parallel_iterations must be at least 1, is %lld",
                    (long long)td_infer_int(c, "parallel_iterations"));
  td_infer_out(c, 0, invariant ? *invariant : *in);
  return NULL;
}

static td_status *cond_infer(td_infer *c) {
  td_shape shape;
  TD_TRY(td_infer_rank(c, 0, 0, "the loop's condition", &shape));
  td_infer_out(c, 0, shape);
  return NULL;
}

/* ---- Switch -------------------------------------------------------------- */

static td_status *switch_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 1, 0, "pred", NULL));
  return td_infer_same(c);
}

static td_status *switch_run(td_kernel_ctx *c) {
  const td_tensor *pred = td_in(c, 1);
  td_shape_text text;
  if (pred->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "pred must be a scalar, not of %s",
                    td_shape_str(&pred->shape, &text));
  td_out_pass(c, *(const bool *)pred->data ? 1 : 0, 0);
  return NULL;
}

/* ---- Merge --------------------------------------------------------------- */

/* A loop's back edge comes later and must then fit: until it does, the shape is
 * that of the inputs there are. */
static td_status *merge_infer(td_infer *c) {
  td_shape shape = td_shape_unknown();
  bool first = true;
  for (int i = 0; i < td_infer_inputs(c); i++) {
    const td_shape *in = td_infer_in(c, i);
    if (!in) continue;
    shape = first ? *in : td_shape_widen(&shape, in);
    first = false;
  }
  td_infer_out(c, 0, shape);
  td_infer_out(c, 1, td_shape_scalar());
  return NULL;
}

static td_status *merge_run(td_kernel_ctx *c) {
  td_shape scalar = td_shape_scalar();
  td_tensor *index;
  int live = 0;
  while (live < c->n_in && !td_tensor_valid(td_in(c, live))) live++;
  if (live == c->n_in)
    return td_error(TD_INTERNAL, "Merge was run without a live input");
  TD_TRY(td_out(c, 1, &scalar, &index));
  *(int32_t *)index->data = live;
  td_out_pass(c, 0, live);
  return NULL;
}

/* ---- NoOp, ControlTrigger ------------------------------------------------ */

static td_status *nothing(td_kernel_ctx *c) {
  (void)c;
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION .section = "Control flow", .lua = ""

static const td_op_def ops[] = {
    {.type = "Switch",
     .sig = "data: T, pred: bool -> output_false: T, output_true: T; T: type",
     .shape = switch_infer,
     .doc = "Passes data to one of its outputs, as pred says; the other is "
            "dead.",
     .kind = TD_OP_SWITCH,
     .flags = TD_CHEAP,
     .host = "pred",
     SECTION},
    {.type = "Merge",
     .sig = "inputs: N*T -> output: T, value_index: int32; T: type; "
            "N: int >= 1",
     .shape = merge_infer,
     .doc = "Passes on the first of its inputs that is not dead, and its "
            "index.",
     .kind = TD_OP_MERGE,
     .flags = TD_CHEAP,
     .host = "value_index",
     SECTION},
    {.type = "Enter",
     .sig = "data: T -> output: T; T: type; frame_name: string; "
            "is_constant: bool = false; parallel_iterations: int = 10",
     .shape = enter_infer,
     .doc = "Brings a value into a loop; constant: into each iteration.",
     .kind = TD_OP_ENTER,
     .flags = TD_CHEAP,
     SECTION},
    {.type = "Exit",
     .sig = "data: T -> output: T; T: type",
     .shape = td_infer_same,
     .doc = "Takes a value out of a loop.",
     .kind = TD_OP_EXIT,
     .flags = TD_CHEAP,
     SECTION},
    {.type = "NextIteration",
     .sig = "data: T -> output: T; T: type",
     .shape = td_infer_same,
     .doc = "Hands a value to the next iteration of its loop.",
     .kind = TD_OP_NEXT,
     .flags = TD_CHEAP,
     SECTION},
    {.type = "LoopCond",
     .sig = "input: bool -> output: bool",
     .shape = cond_infer,
     .doc = "The condition a loop goes on by.",
     .kind = TD_OP_COND,
     .flags = TD_CHEAP,
     .host = "*",
     SECTION},
    {.type = "NoOp",
     .sig = "->",
     .shape = td_infer_none,
     .doc = "Does nothing; a place for control edges.",
     .kind = TD_OP_NOOP,
     .flags = TD_CHEAP | TD_NO_GRADIENT,
     .section = "Graph plumbing, feeds/fetches, no-ops"},
    {.type = "ControlTrigger",
     .sig = "->",
     .shape = td_infer_none,
     .doc = "Does nothing, even where its control inputs are dead.",
     .kind = TD_OP_TRIGGER,
     .flags = TD_CHEAP,
     SECTION},
    {0},
};

#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE

static const td_kernel_def kernels[] = {
    {.op = "Switch", .run = switch_run, CPU},
    {.op = "Merge", .run = merge_run, CPU},
    {.op = "Enter", .run = pass, CPU},
    {.op = "Exit", .run = pass, CPU},
    {.op = "NextIteration", .run = pass, CPU},
    {.op = "LoopCond", .run = pass, CPU},
    {.op = "NoOp", .run = nothing, CPU},
    {.op = "ControlTrigger", .run = nothing, CPU},
    {0},
};

TD_MODULE(control_flow, ops, kernels)
