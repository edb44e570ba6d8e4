/* plan.h - from a graph, feeds and fetches to one graph per device.
 *
 * The whole graph is placed, as it grows. Then come the passes of pass.def,
 * from prune to partition, each on a copy that the plan owns; those that the
 * result does not need can be switched off by name. With TIDE_DUMP=dir every
 * pass writes the graph after it and what it changed and why.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PLAN_H
#define TD_PLAN_H

#include "engine/plan/placer.h"

TD_BEGIN

/* ---- passes (pass.def) ---- */

/* The name of the i-th pass that can be switched off; NULL at the end. */
const char *td_plan_pass_name(int i);
/* Its bit in `passes_off`; 0 when there is no such pass, or it always runs. */
unsigned td_plan_pass_bit(const char *name);

/* ---- a plan ---- */

typedef struct td_plan_request {
  td_graph *graph;      /* the user's; locked only while it is copied */
  const td_edge *feeds; /* _Arg i gives feed i */
  int n_feeds;
  const td_edge *fetches; /* _Retval i takes fetch i */
  int n_fetches;
  td_node *const *targets;
  int n_targets;
  td_placer *placer;
  td_device *const *devices; /* those of the placer; NULL: removed */
  int n_devices;
  unsigned passes_off; /* bits of those that do not run */
  bool verify;         /* td_graph_verify between passes */
  bool partial;        /* feeds and fetches are _Recv and _Send of the client,
                          so that they may come one by one */
  const char *dump;    /* directory, or NULL */
} td_plan_request;

typedef struct td_part {
  td_graph *graph;   /* with _Arg, _Retval, _Send, _Recv; inputs come first,
                        then the urgent; node->order is the id */
  td_device *device; /* retained */
} td_part;

/* An edge of the rendezvous: who sends over it to whom. */
typedef struct td_plan_edge {
  char *name;                 /* "edge_3_x" */
  const td_device *from, *to; /* borrowed: the request's. Both the device of
                                 the part when the other end is the client */
  bool narrow; /* its source's note "_wire" asks for 16 bits between processes */
} td_plan_edge;

typedef struct td_plan {
  td_part *parts;
  int n_parts;
  int32_t n_edges;     /* partial: feeds are edges 0 .. n_feeds-1, fetches
                          n_feeds .. n_feeds+n_fetches-1 */
  td_plan_edge *edges; /* by number */
  int64_t folded, merged, pruned; /* nodes, for traces and tests */
} td_plan;

/* Errors: a fetch that needs a placeholder which is not fed (names the fetch
 * and the shortest path), an edge of another graph or inside a loop, a needed
 * node that cannot be placed or a needed loop half built; mistakes elsewhere in
 * the graph do not matter. A fetch of a fed edge is the feed itself. A
 * signature that needs nothing has no parts. */
td_status *td_plan_new(const td_plan_request *r, td_plan **out) TD_MUST_USE;
void td_plan_free(td_plan *p);

/* Attributes the partition puts on _Send/_Recv beyond TensorFlow's: _edge
 * (int); on a _Recv whose value may be dead _may_die (bool). Compiling a part
 * needs nothing but the part (part.h): td_frames_check accepts it, as it is or
 * read back from GraphDef bytes. */

TD_END
#endif
