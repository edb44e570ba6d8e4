/* graph_edit.h - making and changing a graph that a planner owns.
 *
 * Nobody else sees such a graph, so nothing here locks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GRAPH_EDIT_H
#define TD_GRAPH_EDIT_H

#include "engine/graph/graph.h"

TD_BEGIN

/* The nodes that `g` gets from now on have serial 0, as no user made them. */
void td_graph_scratch(td_graph *g);
/* Copies one node of any graph into `g`, inputs given (n->n_in of them; a
 * node NULL among them is to be set with td_node_set_in). Shapes, frame,
 * may_die, may_stop, placed and serial are copied, nothing is inferred. */
td_status *td_graph_clone_node(td_graph *g, const td_node *n, const char *name,
                               const td_edge *in, td_node *const *control,
                               int n_control, td_node **out) TD_MUST_USE;
/* Drops the nodes with drop[id]; renumbers. None of the rest may use them. */
void td_graph_remove(td_graph *g, const bool *drop);

TD_END
#endif
