/* assert.c - Assert: an error that shows tensors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel.h"
#include "kernels/cost.h"
#include "kernels/print.h"

static td_status *infer(td_infer *c) {
  return td_infer_rank(c, 0, 0, "condition", NULL);
}

static td_status *failed(const td_kernel_ctx *c) {
  int64_t summarize = td_node_int(td_ctx_node(c), "summarize");
  td_str line;
  td_str_init(&line);
  for (int i = 1; i < c->n_in; i++) {
    td_str_addc(&line, ' ');
    td_print_tensor(&line, td_in(c, i), summarize);
  }
  td_status *s = line.failed ? td_oom()
                             : td_error(TD_INVALID_ARGUMENT,
                                        "assertion failed:%s", td_str_c(&line));
  td_str_deinit(&line);
  return s;
}

static td_status *run(td_kernel_ctx *c) {
  const td_tensor *condition = td_in(c, 0);
  td_shape_text text;
  if (condition->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "condition must be a scalar, not of %s",
                    td_shape_str(&condition->shape, &text));
  return *(const bool *)condition->data ? NULL : failed(c);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Assert",
     .sig = "condition: bool, data: T ->; T: list(type) >= 1; "
            "summarize: int = 3",
     .shape = infer,
     .cost = td_cost_none,
     .doc = "An error that prints data unless condition is true.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .host = "*",
     .section = "Graph plumbing, feeds/fetches, no-ops"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Assert", .device = "CPU", .run = run, .flags = TD_KERNEL_INLINE},
    {0},
};

TD_MODULE(assert, ops, kernels)
