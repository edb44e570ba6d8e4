/* far_graph.h - a signature as a graph: of a session whose master is elsewhere.
 *
 * A signature of such a session is one part with all nodes that feeds, fetches
 * and targets are made of, as the user's graph has them: nothing is placed,
 * folded or cut. Its ends say what the signature is:
 *
 *   _Arg i               feed i, by number; nobody takes it
 *   _Retval n + i        takes the edge that is fed, where n fetches are
 *   _Retval i            takes fetch i
 *   NoOp TD_FAR_TARGETS  runs after the targets; its note _seed is the graph's
 *
 * Nodes are known by their serials, so that who keeps the session finds those
 * that it has. What only this process can run is a Placeholder there, which a
 * step must feed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FAR_GRAPH_H
#define TD_FAR_GRAPH_H

#include "engine/run/session.h"

TD_BEGIN

#define TD_FAR_TARGETS "_far_targets"

/* UNIMPLEMENTED names a node that must run in this process, or whose op is not
 * known. `elsewhere` is
 * the master's task, for messages. Locks `g`. Caller owns the result. */
td_status *td_far_graph(td_graph *g, const td_signature *sig,
                        const char *elsewhere, td_graph **out) TD_MUST_USE;

TD_END
#endif
