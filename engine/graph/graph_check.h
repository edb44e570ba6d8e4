/* graph_check.h - the order of a graph's nodes, and what must hold of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GRAPH_CHECK_H
#define TD_GRAPH_CHECK_H

#include "engine/graph/graph.h"

TD_BEGIN

/* Ids so that inputs come first (back edges aside), stable by id. Caller owns
 * *order (td_free). Error names a cycle that passes no NextIteration. */
td_status *td_graph_order(const td_graph *g, int32_t **order) TD_MUST_USE;
/* Everything that must hold: names, edges in range, dtypes agree, attributes
 * whole, control edges not doubled. For tests between passes. */
td_status *td_graph_verify(const td_graph *g) TD_MUST_USE;

TD_END
#endif
