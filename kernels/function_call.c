/* function_call.c - calls of the functions that a graph carries.
 *
 * A call has no kernel: the planner puts the function's body in its place, so
 * that its nodes are placed, folded and merged with all others. What is left
 * here is the signature.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel.h"

#define SIGNATURE                                                              \
  "args: Tin -> output: Tout; Tin: list(type) >= 0; Tout: list(type) >= 0; "   \
  "f: func; config: string = \"\"; config_proto: string = \"\"; "              \
  "executor_type: string = \"\""

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
    {0},
};

static const td_kernel_def kernels[] = {{0}};

TD_MODULE(function_call, ops, kernels)
