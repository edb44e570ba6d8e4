/* node_edit.h - changing a node that is in a graph.
 *
 * The first three are what a growing graph allows, and take its lock. The others
 * are for planners, on graphs of their own, which nobody else sees.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_NODE_EDIT_H
#define TD_NODE_EDIT_H

#include "engine/graph/node.h"

TD_BEGIN

/* Gives Merge `merge` its input `i`, which must come from a NextIteration. The
 * output shape of the Merge must already allow it. */
td_status *td_node_set_back_edge(td_node *merge, int i,
                                 td_edge from) TD_MUST_USE;
/* Adds a control edge to an existing node; the caller knows it makes no cycle
 * (td.while_loop; the planner). */
td_status *td_node_add_control(td_node *node, td_node *before) TD_MUST_USE;
/* Narrows a placeholder-like output: td.set_shape; error when contradicting. */
td_status *td_node_set_shape(td_node *n, int port, const td_shape *shape)
    TD_MUST_USE;

/* Input i becomes `e`, of the same dtype. Shapes stay as they are: see
 * td_node_infer. */
void td_node_set_in(td_node *n, int i, td_edge e);
/* Control input i goes; the last one takes its place. */
void td_node_drop_control(td_node *n, int i);
td_status *td_node_set_device(td_node *n, const char *device) TD_MUST_USE;
/* Replaces an annotation of that name, or adds one. */
td_status *td_node_set_note(td_node *n, const char *name, td_attr value)
    TD_MUST_USE;
/* Runs the shape function again after its inputs changed. */
td_status *td_node_infer(td_node *n) TD_MUST_USE;

TD_END
#endif
