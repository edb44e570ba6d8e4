/* node.h - a node, its edges, and reading them.
 *
 * A node is plain data that everybody reads and nobody writes: adding one is
 * for build.h, the few changes there are for node_edit.h. A td_node pointer
 * stays valid while the region of the node does, which for most is the graph.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_NODE_H
#define TD_NODE_H

#include "engine/graph/op.h"

TD_BEGIN

typedef struct td_graph td_graph;
typedef struct td_node td_node;

/* Output `port` of a node; a control edge has no port. */
typedef struct td_edge {
  td_node *node;
  int32_t port;
} td_edge;

typedef struct td_result {
  td_dtype dtype;
  td_shape shape;
} td_result;

/* An attribute beyond the signature: "_class" and other annotations. */
typedef struct td_note {
  const char *name;
  td_attr value;
} td_note;

struct td_node {
  const char *name;
  const td_op *op;
  td_graph *graph;
  int32_t id;      /* its index in the graph */
  int32_t n_in;    /* data inputs, lists flattened */
  int32_t n_control;
  int32_t n_out;
  td_edge *in;     /* a Merge's missing back edge has node NULL */
  td_node **control;
  td_result *out;
  td_attr *attr;   /* op->n_attr of them, defaults filled in */
  td_note *note;
  int32_t n_note;
  int32_t flow;    /* index of its td_flow */
  uint64_t serial; /* its number among all the graph ever had, kept by copies;
                      0: a planner's own */
  struct td_region *region; /* what it can be taken out with (region.h) */
  const char *other; /* of "x" and "x.old" (region.h) the one that it is not
                        called now; NULL: it never had another */
  bool gone;       /* taken out by td_region_sweep: nobody may use it */
  const char *device; /* wanted: "" or a full or partial device string */
  const char *origin; /* "train.lua:12", or "" */

  /* Set by td_frames_check (graph/frames.h) on the whole graph. */
  int32_t frame;   /* static frame, 0 is the root */
  bool may_die;    /* a dead value can reach it */
  bool may_stop;   /* a loop's Merge: it may die and the loop go on */

  /* The planner's, in its working copy; never set in a user's graph. */
  int32_t placed;  /* index of its device, -1: not yet */
  int32_t order;   /* its rank in the schedule */
};

const td_attr *td_node_attr(const td_node *n, const char *name); /* or NULL */
int64_t td_node_int(const td_node *n, const char *name);
bool td_node_bool(const td_node *n, const char *name);
float td_node_float(const td_node *n, const char *name);
const char *td_node_string(const td_node *n, const char *name); /* or "" */
td_dtype td_node_type(const td_node *n, const char *name);
/* Tensors of argument `arg`: first flattened index and how many. */
void td_node_in_range(const td_node *n, int arg, int *begin, int *count);
void td_node_out_range(const td_node *n, int arg, int *begin, int *count);
/* The argument that flattened input (output) i belongs to. */
const td_arg *td_node_in_arg(const td_node *n, int i);
const td_arg *td_node_out_arg(const td_node *n, int i);
static inline td_dtype td_edge_dtype(td_edge e) {
  return e.node->out[e.port].dtype;
}
static inline const td_shape *td_edge_shape(td_edge e) {
  return &e.node->out[e.port].shape;
}
/* Where an error happened: adds op, node, origin. `s` may be NULL. */
td_status *td_node_blame(td_status *s, const td_node *n) TD_MUST_USE;

TD_END
#endif
