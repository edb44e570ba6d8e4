/* cost.h - what runs take: cost functions that rows of many families share.
 *
 * A row without one is element-wise (infer.h). Formulas are of textbooks and
 * count an addition, a product, a comparison or a function such as exp as one.
 * Those of one family are in its file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COST_H
#define TD_COST_H

#include "engine/graph/op.h"

TD_BEGIN

/* Nothing: hands its input on, or looks at no element. */
void td_cost_none(td_infer *c, td_cost *cost);
/* Moves what comes in to where it goes out; computes nothing. */
void td_cost_move(td_infer *c, td_cost *cost);
/* Takes out of its input as much as it gives: rows, slices. */
void td_cost_take(td_infer *c, td_cost *cost);
/* Writes its outputs; of inputs it sees sizes or a scalar. */
void td_cost_fill(td_infer *c, td_cost *cost);
/* One for each element of the first input: reductions. */
void td_cost_reduce(td_infer *c, td_cost *cost);

/* k for each element of input (output) i. */
void td_cost_per_input(td_infer *c, td_cost *cost, double k, int i);
void td_cost_per_output(td_infer *c, td_cost *cost, double k, int i);

/* A cost function `name` of so many for each element. */
#define TD_COST_INPUT(name, k, i)                                              \
  static void name(td_infer *c, td_cost *cost) {                               \
    td_cost_per_input(c, cost, k, i);                                          \
  }
#define TD_COST_OUTPUT(name, k, i)                                             \
  static void name(td_infer *c, td_cost *cost) {                               \
    td_cost_per_output(c, cost, k, i);                                         \
  }

TD_END
#endif
