/* node_edit.c - changing what is there.
 *
 * First the few changes a growing graph allows (a Merge's back edge, a control
 * edge, a narrower shape), each under the lock. Then what planners do to nodes
 * of their own graphs. Memory of what is replaced goes with the node's region;
 * tensors go at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/node_edit.h"

#include <string.h>

#include "engine/graph/device_name.h"
#include "engine/graph/graph_impl.h"
#include "engine/graph/infer_impl.h"

/* ---- a growing graph ----------------------------------------------------- */

static td_status *check_open(const td_graph *g) {
  return g->finalized ? td_error(TD_FAILED_PRECONDITION,
                                 "the graph is final and cannot change")
                      : NULL;
}

static td_status *check_back_edge(const td_node *merge, int i, td_edge from) {
  td_shape_text a, b;
  const char *name = merge->name;
  if (merge->op->kind != TD_OP_MERGE || i < 0 || i >= merge->n_in ||
      merge->in[i].node)
    return td_error(TD_INVALID_ARGUMENT,
                    "\"%s\" (%s) has no open input %d for a back edge", name,
                    merge->op->type, i);
  if (!from.node || from.node->op->kind != TD_OP_NEXT ||
      from.node->graph != merge->graph || from.port != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "the back edge of \"%s\" must come from a NextIteration of "
                    "the same graph, not \"%s\"",
                    name, from.node ? from.node->name : "");
  if (td_edge_dtype(from) != merge->out[0].dtype)
    return td_error(TD_INVALID_ARGUMENT,
                    "loop variable \"%s\" is %s, but comes back as %s", name,
                    td_dtype_name(merge->out[0].dtype),
                    td_dtype_name(td_edge_dtype(from)));
  if (!td_shape_allows(&merge->out[0].shape, td_edge_shape(from)))
    return td_error(TD_INVALID_ARGUMENT,
                    "loop variable \"%s\" has shape %s, but comes back with "
                    "%s: give a shape_invariants entry that allows both",
                    name, td_shape_str(&merge->out[0].shape, &a),
                    td_shape_str(td_edge_shape(from), &b));
  return NULL;
}

td_status *td_node_set_back_edge(td_node *merge, int i, td_edge from) {
  td_graph *g = merge->graph;
  td_graph_lock(g);
  td_status *s = check_open(g);
  if (td_ok(s)) s = check_back_edge(merge, i, from);
  if (td_ok(s)) {
    merge->in[i] = from;
    td_graph_touch(g);
  }
  td_graph_unlock(g);
  return td_node_blame(s, merge);
}

static td_status *push_control(td_node *node, td_node *before) {
  size_t n = (size_t)node->n_control;
  for (size_t i = 0; i < n; i++)
    if (node->control[i] == before) return NULL;
  td_node **more = td_arena_alloc(&node->region->arena, (n + 1) * sizeof *more);
  if (!more) return td_oom();
  if (n) memcpy(more, node->control, n * sizeof *more);
  more[n] = before;
  node->control = more;
  node->n_control++;
  td_graph_touch(node->graph);
  return NULL;
}

td_status *td_node_add_control(td_node *node, td_node *before) {
  td_graph *g = node->graph;
  if (node->gone || before->gone)
    return td_region_gone_error(node->gone ? node : before);
  if (before->graph != g || before == node)
    return td_error(TD_INVALID_ARGUMENT,
                    "no control edge from \"%s\" to \"%s\": %s", before->name,
                    node->name,
                    before == node ? "they are one" : "of two graphs");
  td_graph_lock(g);
  td_status *s = check_open(g);
  if (td_ok(s)) s = push_control(node, before);
  td_graph_unlock(g);
  return s;
}

td_status *td_node_set_shape(td_node *n, int port, const td_shape *shape) {
  td_shape_text a, b;
  td_status *s = NULL;
  if (port < 0 || port >= n->n_out)
    return td_error(TD_INVALID_ARGUMENT, "\"%s\" has no output %d", n->name,
                    port);
  td_graph_lock(n->graph);
  td_shape *now = &n->out[port].shape;
  if (td_shape_merge(now, shape, now))
    td_graph_touch(n->graph);
  else
    s = td_error(TD_INVALID_ARGUMENT, "\"%s:%d\" has shape %s, which is not %s",
                 n->name, port, td_shape_str(now, &a), td_shape_str(shape, &b));
  td_graph_unlock(n->graph);
  return td_node_blame(s, n);
}

/* ---- rewiring ------------------------------------------------------------ */

void td_node_set_in(td_node *n, int i, td_edge e) {
  n->in[i] = e;
  td_graph_touch(n->graph);
}

void td_node_drop_control(td_node *n, int i) {
  size_t behind = (size_t)(n->n_control - i - 1);
  memmove(&n->control[i], &n->control[i + 1], behind * sizeof *n->control);
  n->n_control--;
  td_graph_touch(n->graph);
}

td_status *td_node_set_device(td_node *n, const char *device) {
  td_device_name parsed;
  if (device[0]) TD_TRY(td_device_name_parse(device, &parsed));
  const char *kept = td_region_keep(n->region, &n->region->device, device);
  if (!kept) return td_oom();
  n->device = kept;
  td_graph_touch(n->graph);
  return NULL;
}

td_status *td_node_set_note(td_node *n, const char *name, td_attr value) {
  td_arena *arena = &n->region->arena;
  size_t count = (size_t)n->n_note, at = 0;
  while (at < count && strcmp(n->note[at].name, name) != 0) at++;
  td_note *notes = n->note, fresh = {0};
  if (at == count) {
    notes = td_arena_alloc(arena, (count + 1) * sizeof *notes);
    if (!notes) return td_oom();
    if (count) memcpy(notes, n->note, count * sizeof *notes);
  }
  fresh.name = td_arena_str(arena, name);
  if (!fresh.name) return td_oom();
  TD_TRY(td_attr_copy(arena, &value, &fresh.value));
  if (at < count) td_attr_drop(&notes[at].value);
  notes[at] = fresh;
  n->note = notes;
  n->n_note = (int32_t)(at == count ? count + 1 : count);
  td_graph_touch(n->graph);
  return NULL;
}

/* What set_shape added is kept where it still fits. */
td_status *td_node_infer(td_node *n) {
  td_arena scratch;
  td_arena_init(&scratch);
  td_result *out =
      td_arena_alloc(&scratch, (size_t)n->n_out * sizeof(td_result));
  if (!out) return td_oom();
  for (int i = 0; i < n->n_out; i++) out[i] = n->out[i];
  td_infer c = {.op = n->op,
                .attr = n->attr,
                .note = n->note,
                .n_note = n->n_note,
                .in = n->in,
                .n_in = n->n_in,
                .out = out,
                .n_out = n->n_out};
  td_status *s = td_infer_run(&c);
  for (int i = 0; i < n->n_out && td_ok(s); i++)
    if (!td_shape_merge(&n->out[i].shape, &out[i].shape, &n->out[i].shape))
      n->out[i].shape = out[i].shape;
  td_arena_deinit(&scratch);
  return td_node_blame(s, n);
}
