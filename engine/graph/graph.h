/* graph.h - a graph: its nodes, their names, its flows.
 *
 * A graph grows (build.h), and gives up nodes by regions (region.h). A node
 * never changes once added, except that a Merge gets its back edge later, a
 * retired region other names, and the planner, on graphs of its own, rewires
 * (node_edit.h, graph_edit.h). Functions that add to a graph take its lock
 * themselves; those that read do not: the one thread that builds needs none,
 * every other reader holds td_graph_lock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GRAPH_H
#define TD_GRAPH_H

#include "engine/graph/node.h"

TD_BEGIN

/* A place in control flow, set by whoever builds (Lua's cond, while_loop). */
typedef struct td_flow {
  int32_t parent;   /* index in the graph's list; 0 is the root */
  char kind;        /* 'r' root, 'c' cond branch, 'w' loop, 0 free again */
  const char *name;
} td_flow;

td_status *td_graph_new(td_graph **out) TD_MUST_USE;
td_graph *td_graph_retain(td_graph *g);
void td_graph_release(td_graph *g);

void td_graph_lock(td_graph *g);
void td_graph_unlock(td_graph *g);
/* Grows with every change. */
uint64_t td_graph_version(const td_graph *g);
/* How often nodes were taken out (td_region_sweep). Atomic. */
uint64_t td_graph_removals(const td_graph *g);
/* What the next node gets. */
uint64_t td_graph_next_serial(const td_graph *g);
/* No further node may be added. */
void td_graph_finalize(td_graph *g);

int32_t td_graph_size(const td_graph *g);
td_node *td_graph_node(const td_graph *g, int32_t id); /* never NULL in range */
td_node *td_graph_find(const td_graph *g, const char *name); /* or NULL */
/* "x", "x:1", "^x": checks name and port; the error offers the nearest name.
 * `port` -1 for a control reference. */
td_status *td_graph_edge(const td_graph *g, const char *ref, td_edge *out)
    TD_MUST_USE;
/* `wanted`, or with _1, _2 ... when taken; the name is then reserved. Borrowed;
 * valid while `g` lives. */
td_status *td_graph_unique(td_graph *g, const char *wanted, const char **out)
    TD_MUST_USE;

/* The graph-level seed (td.seed); false until set. */
void td_graph_set_seed(td_graph *g, int64_t seed);
bool td_graph_seed(const td_graph *g, int64_t *seed);

td_status *td_graph_flow(td_graph *g, int32_t parent, char kind,
                         const char *name, int32_t *out) TD_MUST_USE;
const td_flow *td_graph_flow_at(const td_graph *g, int32_t flow);

TD_END
#endif
