/* uses_impl.h - who uses the nodes of a graph. Inside engine/plan only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_USES_IMPL_H
#define TD_USES_IMPL_H

#include "engine/graph/graph.h"

typedef struct td_use {
  int32_t node; /* id of the consumer */
  int32_t in;   /* which of its inputs, -1: a control input */
} td_use;

/* The uses of node `id` are at[begin[id]] to at[begin[id + 1] - 1]. */
typedef struct td_uses {
  int32_t *begin;
  td_use *at;
} td_uses;

/* Caller ends *out with td_uses_deinit, unless there was an error. */
td_status *td_uses_init(const td_graph *g, td_uses *out) TD_MUST_USE;
void td_uses_deinit(td_uses *u);

#endif
