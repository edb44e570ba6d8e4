/* function_call.c - calls of the functions that a graph carries, and branches
 * and loops whose bodies are functions.
 *
 * These have no kernels: the planner puts the functions' bodies in their place
 * (engine/plan/inline.c, lower.c), so that their nodes are placed, folded and
 * merged with all others. What is left here are the signatures. What conditions
 * go through is here too: ToBool.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel.h"

#define SIGNATURE                                                              \
  "args: Tin -> output: Tout; Tin: list(type) >= 0; Tout: list(type) >= 0; "   \
  "f: func; config: string = \"\"; config_proto: string = \"\"; "              \
  "executor_type: string = \"\""

/* ---- shapes -------------------------------------------------------------- */

/* What output_shapes says, if it says anything. */
static td_status *said_infer(td_infer *c) {
  const td_attr *said = td_infer_attr(c, "output_shapes");
  if (said->len > 0 && said->len != td_infer_outputs(c))
    return td_error(TD_INVALID_ARGUMENT,
                    "output_shapes must be a shape for each of the %d results, "
                    "or empty, has %d",
                    td_infer_outputs(c), said->len);
  for (int i = 0; i < td_infer_outputs(c); i++)
    td_infer_out(c, i, said->len ? said->shapes[i] : td_shape_unknown());
  return NULL;
}

static td_status *case_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "branch_index", NULL));
  return said_infer(c);
}

/* ---- ToBool -------------------------------------------------------------- */

static bool is_true(const td_tensor *t) {
  size_t len = 0;
  if (t->shape.rank > 0) return td_tensor_count(t) > 0;
  if (t->dtype == TD_STRING) return td_tensor_str(t, 0, &len) && len > 0;
  if (t->dtype == TD_COMPLEX64)
    return ((const float *)t->data)[0] != 0 || ((const float *)t->data)[1] != 0;
  if (t->dtype == TD_COMPLEX128)
    return ((const double *)t->data)[0] != 0 ||
           ((const double *)t->data)[1] != 0;
  return td_tensor_get_f(t, 0) != 0;
}

static td_status *bool_run(td_kernel_ctx *c) {
  td_shape scalar = td_shape_scalar();
  td_dtype t = td_in(c, 0)->dtype;
  td_tensor *y;
  if (t == TD_RESOURCE || t == TD_VARIANT)
    return td_error(TD_INVALID_ARGUMENT, "a %s is neither true nor false",
                    td_dtype_name(t));
  TD_TRY(td_out(c, 0, &scalar, &y));
  *(bool *)y->data = is_true(td_in(c, 0));
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

#define IF(op, flag)                                                           \
  {                                                                            \
    .type = op,                                                                \
    .sig = "cond: Tcond, input: Tin -> output: Tout; Tcond: type; "            \
           "Tin: list(type) >= 0; Tout: list(type) >= 0; then_branch: func; "  \
           "else_branch: func; output_shapes: list(shape) = {}",               \
    .shape = said_infer,                                                       \
    .doc = "The results of function then_branch, or else_branch, of input.",   \
    .lua = "", .kind = TD_OP_IF, .flags = flag, .section = "Functions"         \
  }
#define CASE(op, flag)                                                         \
  {                                                                            \
    .type = op,                                                                \
    .sig = "branch_index: int32, input: Tin -> output: Tout; "                 \
           "Tin: list(type) >= 0; Tout: list(type) >= 0; "                     \
           "branches: list(func) >= 1; output_shapes: list(shape) = {}",       \
    .shape = case_infer,                                                       \
    .doc = "The results of one of the functions of input; the last for "       \
           "numbers that have none.",                                          \
    .lua = "", .kind = TD_OP_CASE, .flags = flag, .section = "Functions"       \
  }
#define WHILE(op, flag)                                                        \
  {                                                                            \
    .type = op,                                                                \
    .sig = "input: T -> output: T; T: list(type) >= 0; cond: func; "           \
           "body: func; output_shapes: list(shape) = {}; "                     \
           "parallel_iterations: int = 10",                                    \
    .shape = said_infer,                                                       \
    .doc = "The results of function body of its own results, and at first of " \
           "input, as long as function cond of them is true.",                 \
    .lua = "", .kind = TD_OP_WHILE, .flags = flag, .section = "Functions"      \
  }

static const td_op_def ops[] = {
    {.type = "PartitionedCall",
     .sig = SIGNATURE,
     .shape = td_infer_any,
     .doc = "The results of function f of its arguments.",
     .lua = "",
     .kind = TD_OP_CALL,
     .section = "Functions"},
    {.type = "StatefulPartitionedCall",
     .sig = SIGNATURE,
     .shape = td_infer_any,
     .doc = "The results of function f, which draws, reads or updates.",
     .lua = "",
     .kind = TD_OP_CALL,
     .flags = TD_STATEFUL,
     .section = "Functions"},
    IF("If", TD_STATEFUL),
    IF("StatelessIf", 0),
    CASE("Case", TD_STATEFUL),
    CASE("StatelessCase", 0),
    WHILE("While", TD_STATEFUL),
    WHILE("StatelessWhile", 0),
    {.type = "ToBool",
     .sig = "input: T -> output: bool; T: type",
     .shape = td_infer_scalars,
     .doc = "Is the number not 0, the string not empty, a tensor not without "
            "elements?",
     .flags = TD_NO_GRADIENT | TD_CHEAP,
     .host = "*",
     .lua = "",
     .section = "Functions"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "ToBool", .device = "CPU", .run = bool_run},
    {0},
};

TD_MODULE(function_call, ops, kernels)
