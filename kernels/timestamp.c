/* timestamp.c - Timestamp: what time it is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"
#include "engine/device/kernel.h"
#include "kernels/cost.h"

static td_status *timestamp_run(td_kernel_ctx *c) {
  td_shape scalar = td_shape_scalar();
  td_tensor *y;
  TD_TRY(td_out(c, 0, &scalar, &y));
  *(double *)y->data = (double)td_clock_wall_us() / 1e6;
  return NULL;
}

static const td_op_def ops[] = {
    {.type = "Timestamp",
     .sig = "-> ts: double",
     .shape = td_infer_scalars,
     .cost = td_cost_none,
     .doc = "Seconds since 1970, when the node runs.",
     .example = "td.timestamp().dtype  --> float64",
     .host = "*",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP,
     .section = "Graph plumbing, feeds/fetches, no-ops"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Timestamp", .device = "CPU", .run = timestamp_run},
    {0},
};

TD_MODULE(timestamp, ops, kernels)
