/* graph.h - nodes, edges, and how they are added.
 *
 * A graph grows, and gives up nodes by regions (region.h). A node never changes
 * once added, except that a Merge gets its back edge later, a retired region
 * other names, and the planner, on graphs of its own, rewires. Functions that
 * add to a graph take its lock themselves; those that read do not: the one
 * thread that builds needs none, every other reader holds td_graph_lock. The
 * td_node pointers stay valid while their region does: that of most is the
 * graph.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GRAPH_H
#define TD_GRAPH_H

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

/* A place in control flow, set by whoever builds (Lua's cond, while_loop). */
typedef struct td_flow {
  int32_t parent;   /* index in the graph's list; 0 is the root */
  char kind;        /* 'r' root, 'c' cond branch, 'w' loop, 0 free again */
  const char *name;
} td_flow;

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

  /* The planner's. */
  int32_t placed;  /* index of its device, -1: not yet */
  int32_t order;   /* its rank in the schedule */
};

/* ---- graphs ---- */

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

/* ---- adding a node ----
 *
 *   td_build b;
 *   td_build_init(&b, g, "MatMul", "y");
 *   td_build_in(&b, a);
 *   td_build_in(&b, w);
 *   td_build_attr(&b, "transpose_b", td_attr_bool(true));
 *   TD_TRY(td_build_node(&b, &node));
 *
 * Errors are kept and returned by td_build_node, which also ends `b`. The graph
 * is locked only inside td_build_node. */
typedef struct td_build {
  td_graph *graph;
  const td_op *op;
  const char *name;
  td_status *status;
  const char *device, *origin; /* borrowed until td_build_node */
  int32_t flow;
  bool exact_name; /* taken: an error instead of _1 */
  td_edge in_few[8], *in;
  int32_t n_in, cap_in;
  int32_t group_few[8], *group; /* tensors given for each argument so far */
  int32_t n_group, cap_group;
  bool flat;
  td_node *control_few[4], **control;
  int32_t n_control, cap_control;
  td_note attr_few[6], *attr;
  int32_t n_attr, cap_attr;
} td_build;

/* `op` by registered type; `name` NULL: the op's type. */
void td_build_init(td_build *b, td_graph *g, const char *op, const char *name);
void td_build_op(td_build *b, td_graph *g, const td_op *op, const char *name);
void td_build_in(td_build *b, td_edge edge); /* or a list of one */
/* One list argument (N*T, list(type)). */
void td_build_list(td_build *b, const td_edge *edges, int n);
/* All inputs flattened, as in GraphDef: list lengths then follow from
 * attributes. Not to be mixed with the two above. A Merge's input may be
 * {NULL, 0}: its back edge follows; its dtype must then come from T. */
void td_build_flat(td_build *b, const td_edge *edges, int n);
void td_build_control(td_build *b, td_node *node);
/* Copied only by td_build_node. Names outside the signature must start with
 * "_". An int is taken for a float, an empty list for one of any kind. */
void td_build_attr(td_build *b, const char *name, td_attr value);
/* Deduces types and numbers, fills defaults, checks everything, infers shapes.
 * Ends `b` in any case. Borrowed result; valid while the graph lives. */
td_status *td_build_node(td_build *b, td_node **out) TD_MUST_USE;
void td_build_drop(td_build *b); /* ends `b` without a node */

/* Gives Merge `merge` its input `i`, which must come from a NextIteration. The
 * output shape of the Merge must already allow it. */
td_status *td_graph_back_edge(td_node *merge, int i, td_edge from) TD_MUST_USE;
/* Adds a control edge to an existing node; the caller knows it makes no cycle
 * (td.while_loop; the planner). */
td_status *td_graph_add_control(td_node *node, td_node *before) TD_MUST_USE;
/* Narrows a placeholder-like output: td.set_shape; error when contradicting. */
td_status *td_node_set_shape(td_node *n, int port, const td_shape *shape)
    TD_MUST_USE;

/* ---- reading a node ---- */

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
/* What is known of an int32/int64 scalar or short vector before running: whole
 * when it is constant, else in part. False when nothing is. */
bool td_edge_small(td_edge e, td_small *v);
/* Where an error happened: adds op, node, origin. `s` may be NULL. */
td_status *td_node_blame(td_status *s, const td_node *n) TD_MUST_USE;

/* ---- rewriting: graphs that the planner owns (graph_edit.c) ---- */

/* Copies one node of any graph into `g`, inputs given (n->n_in of them; a
 * node NULL among them is to be set with td_node_set_in). Shapes, frame,
 * may_die, may_stop and placed are copied, nothing is inferred. */
td_status *td_graph_clone_node(td_graph *g, const td_node *n, const char *name,
                               const td_edge *in, td_node *const *control,
                               int n_control, td_node **out) TD_MUST_USE;
/* A graph whose own nodes have serial 0. */
void td_graph_scratch(td_graph *g);
void td_node_set_in(td_node *n, int i, td_edge e);
void td_node_drop_control(td_node *n, int i);
/* Drops the nodes with drop[id]; renumbers. None of the rest may use them. */
void td_graph_remove(td_graph *g, const bool *drop);
td_status *td_node_set_device(td_node *n, const char *device) TD_MUST_USE;
td_status *td_node_set_note(td_node *n, const char *name, td_attr value)
    TD_MUST_USE;
/* Runs the shape function again after its inputs changed. */
td_status *td_node_infer(td_node *n) TD_MUST_USE;
/* Ids so that inputs come first (back edges aside), stable by id. Caller owns
 * *order (td_free). Error names a cycle that passes no NextIteration. */
td_status *td_graph_order(const td_graph *g, int32_t **order) TD_MUST_USE;
/* Everything that must hold: names, edges in range, dtypes agree, attributes
 * whole, control edges not doubled. For tests between passes. */
td_status *td_graph_verify(const td_graph *g) TD_MUST_USE;

TD_END
#endif
