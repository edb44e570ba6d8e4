/* placer.h - which device each node runs on.
 *
 * A session's placer places the whole graph, never one signature, and goes on
 * as the graph grows. It knows places by itself and never writes to the graph,
 * which other sessions place in their own way. Stateful nodes and both ends of
 * every resource edge form colocation groups (with _class "loc:@x"), whose
 * device never changes again in this session. All others are free: they are
 * placed anew when devices come or go.
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
  const char *first; /* devices that are tried before others: a type, or as a
                        request ("/job:worker/task:1"); NULL: none */
  bool spread; /* groups without a request go by a hash of a name (tests) */
} td_placer_options;

td_status *td_placer_new(const td_placer_options *o, td_placer **out)
    TD_MUST_USE;
void td_placer_free(td_placer *p);
/* Another device, after all others, for all nodes that are not bound to one. */
td_status *td_placer_add_device(td_placer *p, td_device *d) TD_MUST_USE;
/* Device `i` is used no more, nor is its index. Who needs a group that is bound
 * to it fails, naming it; with `drop`, as what it kept is dropped, such groups
 * are placed anew. */
void td_placer_remove_device(td_placer *p, int32_t i, bool drop);
/* Device `i` cannot be had for now. It keeps its index, its nodes, and those
 * that would be placed there: who needs one fails with `why`'s message. Retains
 * `why`. */
void td_placer_lose_device(td_placer *p, int32_t i, td_status *why);
/* `d` takes the place of device `i`, lost or not, with what is bound to it; the
 * name is the same, the kernels may be others. */
td_status *td_placer_replace_device(td_placer *p, int32_t i,
                                    td_device *d) TD_MUST_USE;
/* Places the nodes added since last time (the caller holds the lock of `g`).
 * The error is that of the first new node that cannot be placed and names node,
 * request and devices; the others are placed. */
td_status *td_placer_extend(td_placer *p, const td_graph *g) TD_MUST_USE;
/* The index of the device of a node that was placed, -1: nowhere, or where
 * there is no device any more, or for now. */
int32_t td_placer_where(td_placer *p, const td_node *n);
/* "MatMul (y) -> CPU:0: colocated with W" a line for every node. The caller
 * holds the lock of `g`. */
void td_placer_explain(const td_placer *p, const td_graph *g, td_str *out);

TD_END
#endif
