/* cost.c - cost functions that rows of many families share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"

void td_cost_none(td_infer *c, td_cost *cost) {
  (void)c;
  *cost = (td_cost){0, 0};
}

void td_cost_move(td_infer *c, td_cost *cost) {
  (void)c;
  cost->flops = 0;
}

static double given(const td_infer *c) {
  double bytes = 0;
  for (int i = 0; i < td_infer_outputs(c); i++)
    bytes += td_infer_out_bytes(c, i);
  return bytes;
}

void td_cost_take(td_infer *c, td_cost *cost) {
  *cost = (td_cost){0, 2 * given(c)};
}

void td_cost_fill(td_infer *c, td_cost *cost) {
  *cost = (td_cost){0, given(c)};
}

void td_cost_reduce(td_infer *c, td_cost *cost) {
  td_cost_per_input(c, cost, 1, 0);
}

void td_cost_per_input(td_infer *c, td_cost *cost, double k, int i) {
  cost->flops = k * td_infer_in_count(c, i);
}

void td_cost_per_output(td_infer *c, td_cost *cost, double k, int i) {
  cost->flops = k * td_infer_out_count(c, i);
}
