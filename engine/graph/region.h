/* region.h - parts of a graph that can be taken out again.
 *
 * A notebook builds the nodes of a cell into a region. Say cell 3 makes node "w"
 * and cell 4 uses it. When cell 3 is about to run again, its region is retired:
 * node "w" is called "w.old" from then on, so that the name is free for the new
 * one, and everything that uses it, here cell 4, goes on working. A sweep takes
 * out the nodes of retired regions that no other node uses: none now, but once
 * cell 4 has run again and uses the new "w", "w.old" goes. The memory of a
 * region is freed when the graph has no node, name or function of it and nobody
 * else holds it. Functions (graphdef/function.h) belong to regions as nodes do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REGION_H
#define TD_REGION_H

#include "engine/graph/graph.h"

TD_BEGIN

typedef struct td_region td_region;

/* Caller owns the result, which does not keep `g` alive. */
td_status *td_region_new(td_graph *g, td_region **out) TD_MUST_USE;
/* The root region, of nodes that live as long as their graph, is not counted. */
td_region *td_region_retain(td_region *r);
void td_region_release(td_region *r);

/* What this thread adds to the region's graph is of `r` from now on; NULL: of
 * the root region. */
void td_region_enter(td_region *r);
td_region *td_region_current(void); /* the one entered, or NULL. Borrowed */

/* Its nodes are called "x.old" from now on, and the names it reserved are free.
 * `by` ("cell In[3] ran again") is said to who uses one of its nodes once that
 * is gone. On error some nodes have their new names. */
td_status *td_region_retire(td_region *r, const char *by) TD_MUST_USE;
bool td_region_retired(const td_region *r);
/* It is retired no more; the next sweep gives its nodes their names back. */
void td_region_restore(td_region *r);
bool td_region_is_root(const td_region *r);
/* Has `n` a name that ends in ".old" for now? */
bool td_region_has_old_name(const td_node *n);

/* Takes out the nodes of retired regions that no other node uses, and their
 * functions that nobody calls; the nodes left get their names back where these
 * are free. Frees flows that nobody is in. *n: how many nodes are gone. On
 * error none is, and names may stay as they are. */
td_status *td_region_sweep(td_graph *g, int32_t *n) TD_MUST_USE;
/* Nodes of whose ids `unused` says so (NULL: of none) go as well, whatever
 * their region is, unless other nodes use them. */
td_status *td_region_sweep_unused(td_graph *g, const bool *unused,
                                  int32_t *n) TD_MUST_USE;

/* The regions of the list and those of nodes and functions that use, directly or
 * through others, what is of them; some more than once. `users` has room for as
 * many as `g` has nodes and functions. Borrowed. */
td_status *td_region_users(td_graph *g, td_region *const *list, int n,
                           td_region **users, int *n_users) TD_MUST_USE;

/* The variable whose handle `n` makes is called `name` from now on. */
td_status *td_region_rename_variable(td_node *n, const char *name) TD_MUST_USE;

typedef struct td_region_stats {
  int32_t nodes, functions;
  size_t bytes; /* that they take, constants included */
} td_region_stats;
td_region_stats td_region_read_stats(td_region *r);

/* The error about a node that is gone. */
td_status *td_region_gone_error(const td_node *n) TD_MUST_USE;

TD_END
#endif
