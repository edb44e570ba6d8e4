/* build.h - adding a node to a graph.
 *
 *   td_build b;
 *   td_build_init(&b, g, "MatMul", "y");
 *   td_build_in(&b, a);
 *   td_build_in(&b, w);
 *   td_build_attr(&b, "transpose_b", td_attr_bool(true));
 *   TD_TRY(td_build_node(&b, &node));
 *
 * Errors are kept and returned by td_build_node, which also ends `b`. The graph
 * is locked only inside td_build_node.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BUILD_H
#define TD_BUILD_H

#include "engine/graph/graph.h"

TD_BEGIN

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

TD_END
#endif
