/* costs.h - how long nodes took, by session, node and device.
 *
 * A program keeps the time of each node beside the node, where the executor
 * looks. Here is what outlives the program: it begins with what is known, and
 * what it measures is told here as well. So a signature that left the cache and
 * comes again, or another one with the same nodes, starts with times known.
 *
 * A node is known by its name and serial: one that took the place of another of
 * its name begins anew. Those that planners make have serial 0 and are known by
 * name alone. Of nodes that no program has the times are kept, up to a number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COSTS_H
#define TD_COSTS_H

#include "engine/device/device.h"
#include "engine/graph/node.h"

TD_BEGIN

typedef struct td_costs td_costs;

/* Of one node on one device. */
typedef struct td_measured {
  int32_t ns;      /* atomic, a decaying average; 0: not known */
  int32_t refs;    /* the table's: programs that have it */
  uint64_t serial; /* the table's */
} td_measured;

/* Shared by a session and its programs. Caller owns the result. */
td_status *td_costs_new(td_costs **out) TD_MUST_USE;
td_costs *td_costs_retain(td_costs *c);
void td_costs_release(td_costs *c);
/* Finds or makes. Borrowed; valid until it is put back. */
td_status *td_costs_get(td_costs *c, const td_device *d, const td_node *n,
                        td_measured **out) TD_MUST_USE;
/* Puts `n` of them back at once; NULL ones are skipped. */
void td_costs_put(td_costs *c, td_measured *const *at, int32_t n);

TD_END
#endif
