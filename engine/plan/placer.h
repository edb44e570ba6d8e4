/* placer.h - which device each node runs on.
 *
 * A session's placer places the whole graph, never one signature, and goes on
 * as the graph grows. Stateful nodes and both ends of every resource edge form
 * colocation groups (with _class "loc:@x"), whose device never changes again in
 * this session.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PLACER_H
#define TD_PLACER_H

#include "engine/device/kernel.h"
#include "engine/graph/frames.h"

TD_BEGIN

typedef struct td_placer td_placer;

typedef struct td_placer_options {
  td_device *const *devices; /* borrowed; [0] is the default */
  int n_devices;
  bool soft; /* a device that cannot be had falls back to one that can */
} td_placer_options;

td_status *td_placer_new(const td_placer_options *o, td_placer **out)
    TD_MUST_USE;
void td_placer_free(td_placer *p);
/* Places the nodes added since last time; sets node->placed in `g` itself (the
 * caller holds its lock). The error is that of the first new node that cannot
 * be placed (-1) and names node, request and devices; the others are placed. */
td_status *td_placer_extend(td_placer *p, td_graph *g) TD_MUST_USE;
/* "MatMul (y) -> CPU:0: colocated with W" a line for every node. The caller
 * holds the lock of `g`. */
void td_placer_explain(const td_placer *p, const td_graph *g, td_str *out);

TD_END
#endif
