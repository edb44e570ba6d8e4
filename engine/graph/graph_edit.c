/* graph_edit.c - nodes enter and leave a planner's graph.
 *
 * Memory of what is dropped goes with its region; tensors go at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/graph_edit.h"

#include <string.h>

#include "engine/graph/graph_impl.h"

void td_graph_scratch(td_graph *g) {
  g->scratch = true;
}

/* All but edges, into memory of `g`; not yet adopted. */
static td_status *copy_node(td_graph *g, const td_node *n, const char *name,
                            int n_control, td_node **out) {
  td_node_size size = {.in = n->n_in,
                       .control = n_control,
                       .out = n->n_out,
                       .attr = n->op->n_attr,
                       .note = n->n_note,
                       .name = strlen(name)};
  td_node *copy = td_node_alloc(g, &size, name);
  if (!copy) return td_oom();
  if (n->n_out) memcpy(copy->out, n->out, (size_t)n->n_out * sizeof *copy->out);
  copy->flow = n->flow;
  copy->frame = n->frame;
  copy->may_die = n->may_die;
  copy->may_stop = n->may_stop;
  copy->placed = n->placed;
  copy->order = n->order;
  copy->serial = n->serial;
  td_region *r = copy->region;
  copy->device = td_region_keep(r, &r->device, n->device);
  copy->origin = td_region_keep(r, &r->origin, n->origin);
  if (!copy->device || !copy->origin) return td_oom();
  TD_TRY(td_node_copy_attrs(n, copy));
  *out = copy;
  return NULL;
}

td_status *td_graph_clone_node(td_graph *g, const td_node *n, const char *name,
                               const td_edge *in, td_node *const *control,
                               int n_control, td_node **out) {
  td_node *copy = NULL;
  *out = NULL;
  TD_TRY(td_names_check(name, true));
  TD_TRY(td_graph_reserve(g, 1));
  td_name *taken = td_names_find(&g->names, name, strlen(name));
  if (taken && taken->node)
    return td_error(TD_ALREADY_EXISTS, "a node \"%s\" exists already", name);
  TD_TRY(copy_node(g, n, name, n_control, &copy));
  if (n->n_in) memcpy(copy->in, in, (size_t)n->n_in * sizeof *in);
  if (n_control)
    memcpy(copy->control, control, (size_t)n_control * sizeof *control);
  if (!td_graph_flow_at(g, copy->flow)) copy->flow = 0;
  td_graph_adopt(g, copy, taken);
  *out = copy;
  return NULL;
}

void td_graph_remove(td_graph *g, const bool *drop) {
  size_t kept = 0, all = g->nodes.len;
  td_names_clear_nodes(&g->names, NULL);
  for (size_t i = 0; i < all; i++) {
    td_node *n = g->nodes.at[i];
    if (drop[i]) {
      td_node_drop_attrs(n);
      continue;
    }
    n->id = (int32_t)kept;
    g->nodes.at[kept++] = n;
    td_names_add(&g->names, n->name, strlen(n->name), n);
  }
  g->nodes.len = kept;
  td_graph_touch(g);
}
