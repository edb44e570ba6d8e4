/* region.h - parts of a graph that can be taken out again.
 *
 * A notebook's cell builds into a region. Before it runs again its region is
 * put aside: names are free for the new nodes, everything goes on working. A
 * sweep then takes out what nobody else uses. Memory goes once no node of the
 * region is left and nobody holds it. Functions (function.h) are of regions
 * too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REGION_H
#define TD_REGION_H

#include "engine/graph/graph.h"

TD_BEGIN

typedef struct td_region td_region;

/* Caller owns the result, which does not keep `g` alive. */
td_status *td_region_new(td_graph *g, td_region **out) TD_MUST_USE;
/* That of nodes that go with the graph is not counted. */
td_region *td_region_retain(td_region *r);
void td_region_release(td_region *r);

/* What this thread adds to the region's graph is of `r` from now on; NULL: of
 * the graph. */
void td_region_enter(td_region *r);
td_region *td_region_here(void); /* the one entered, or NULL. Borrowed */

/* Nodes of `r` are called "x.old" from now on, and its reserved names are free.
 * `by` ("cell In[3] ran again") is said where one of them is used once it is
 * gone. On error some
 * have their new names. */
td_status *td_region_put_aside(td_region *r, const char *by) TD_MUST_USE;
bool td_region_aside(const td_region *r);
/* Of nodes that go with the graph? */
bool td_region_is_root(const td_region *r);

/* Has it a name that ends in ".old" for now? */
bool td_region_is_old(const td_node *n);
/* Takes out the nodes of regions put aside that no other node uses, and the
 * functions that nobody calls; the nodes left get their names back where these
 * are free. Frees flows that nobody is in. *n: how many nodes are gone. On
 * error nothing is, and names may stay.
 */
td_status *td_region_sweep(td_graph *g, int32_t *n) TD_MUST_USE;

/* The regions of nodes and functions that are of a region of the list or use,
 * by way of others, what is; some more than once. `users` has room for as many
 * as `g` has nodes and functions. Borrowed. */
td_status *td_region_users(td_graph *g, td_region *const *list, int n,
                           td_region **users, int *n_users) TD_MUST_USE;

/* The variable whose handle `n` makes is called `name` from now on. */
td_status *td_region_rename_variable(td_node *n, const char *name) TD_MUST_USE;
/* It is put aside no more; the next sweep gives its nodes their names back. */
void td_region_take_back(td_region *r);

typedef struct td_region_stats {
  int32_t nodes, functions;
  size_t bytes; /* of them and constants */
} td_region_stats;
td_region_stats td_region_read_stats(td_region *r);

/* The error about a node that is gone. */
td_status *td_region_gone(const td_node *n) TD_MUST_USE;
/* A graph goes, and with it what its regions know of it. */
void td_region_leave(td_graph *g);

TD_END
#endif
