/* build.c - adding nodes.
 *
 * A td_build collects; nothing is checked against the signature before
 * td_build_node, which works in two steps. First, without the lock,
 * resolve.c makes what was collected whole. Then, under the lock, shapes are
 * inferred, a name is found and the node copied into the graph's arena. The
 * graph changes only when nothing can fail any more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/build.h"

#include <string.h>

#include "engine/graph/resolve.h"
#include "engine/graph/device_name.h"
#include "engine/graph/graph_impl.h"
#include "engine/graph/infer_impl.h"

/* ---- collecting ---------------------------------------------------------- */

static void start(td_build *b, td_graph *g, const td_op *op, const char *name) {
  b->graph = g;
  b->op = op;
  b->name = name;
  b->status = NULL;
  b->device = b->origin = "";
  b->flow = 0;
  b->exact_name = b->flat = false;
  b->in = b->in_few;
  b->group = b->group_few;
  b->control = b->control_few;
  b->attr = b->attr_few;
  b->n_in = b->n_group = b->n_control = b->n_attr = 0;
  b->cap_in = TD_COUNT(b->in_few);
  b->cap_group = TD_COUNT(b->group_few);
  b->cap_control = TD_COUNT(b->control_few);
  b->cap_attr = TD_COUNT(b->attr_few);
}

void td_build_op(td_build *b, td_graph *g, const td_op *op, const char *name) {
  start(b, g, op, name);
}

void td_build_init(td_build *b, td_graph *g, const char *op, const char *name) {
  start(b, g, td_op_find(op), name);
  if (b->op) return;
  b->status = td_op_count() == 0 ? td_op_check() : NULL;
  const char *near = td_op_nearest(op);
  if (!b->status)
    b->status = td_error(TD_NOT_FOUND, "no op \"%.100s\"%s%s%s", op,
                         near ? " (did you mean \"" : "", near ? near : "",
                         near ? "\"?)" : "");
}

/* Room for `more` in an array that begins inside the td_build. */
static bool grow(td_build *b, void **at, void *few, int32_t *cap, int32_t len,
                 int64_t more, size_t size) {
  int64_t need = (int64_t)len + more, cap_new = *cap;
  if (b->status || !b->op) return false;
  if (TD_LIKELY(need <= cap_new)) return true;
  while (cap_new < need) cap_new *= 2;
  void *p = NULL;
  if (cap_new <= INT32_MAX && *at == few) {
    p = td_malloc((size_t)cap_new * size);
    if (p) memcpy(p, few, (size_t)len * size);
  } else if (cap_new <= INT32_MAX) {
    p = td_realloc(*at, (size_t)cap_new * size);
  }
  if (!p) {
    b->status = td_oom();
    return false;
  }
  *at = p;
  *cap = (int32_t)cap_new;
  return true;
}

static td_status *check_edge(const td_build *b, td_edge e) {
  if (!e.node && b->op->kind == TD_OP_MERGE) return NULL;
  if (!e.node)
    return td_error(TD_INVALID_ARGUMENT, "%s: input %d is no tensor",
                    b->op->type, b->n_in);
  if (e.node->graph != b->graph)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s: input %d, \"%s:%d\", is of another graph", b->op->type,
                    b->n_in, e.node->name, e.port);
  if (TD_UNLIKELY(e.node->gone)) return td_region_gone_error(e.node);
  if (e.port < 0 || e.port >= e.node->n_out)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s: input %d is output %d of \"%s\", a %s with %d",
                    b->op->type, b->n_in, e.port, e.node->name,
                    e.node->op->type, e.node->n_out);
  return NULL;
}

static void add_edges(td_build *b, const td_edge *edges, int n) {
  if (!grow(b, (void **)&b->in, b->in_few, &b->cap_in, b->n_in, n,
            sizeof *b->in))
    return;
  for (int i = 0; i < n && !b->status; i++) {
    b->status = check_edge(b, edges[i]);
    b->in[b->n_in++] = edges[i];
  }
}

static void add_group(td_build *b, int32_t n) {
  if (b->flat && !b->status)
    b->status = td_error(TD_INVALID_ARGUMENT,
                         "inputs given one by one after flattened ones");
  if (grow(b, (void **)&b->group, b->group_few, &b->cap_group, b->n_group, 1,
           sizeof *b->group))
    b->group[b->n_group++] = n;
}

void td_build_in(td_build *b, td_edge edge) {
  add_group(b, 1);
  add_edges(b, &edge, 1);
}

void td_build_list(td_build *b, const td_edge *edges, int n) {
  add_group(b, n);
  add_edges(b, edges, n);
}

void td_build_flat(td_build *b, const td_edge *edges, int n) {
  if (b->n_group > 0 && !b->status)
    b->status = td_error(TD_INVALID_ARGUMENT,
                         "flattened inputs after those given one by one");
  b->flat = true;
  add_edges(b, edges, n);
}

void td_build_control(td_build *b, td_node *node) {
  if (!grow(b, (void **)&b->control, b->control_few, &b->cap_control,
            b->n_control, 1, sizeof *b->control))
    return;
  if (node->graph != b->graph)
    b->status = td_error(TD_INVALID_ARGUMENT,
                         "%s: control input \"%s\" is of another graph",
                         b->op->type, node->name);
  else if (node->gone)
    b->status = td_region_gone_error(node);
  else
    b->control[b->n_control++] = node;
}

void td_build_attr(td_build *b, const char *name, td_attr value) {
  if (grow(b, (void **)&b->attr, b->attr_few, &b->cap_attr, b->n_attr, 1,
           sizeof *b->attr))
    b->attr[b->n_attr++] = (td_note){name, value};
}

void td_build_drop(td_build *b) {
  td_status_release(b->status);
  if (b->in != b->in_few) td_free(b->in);
  if (b->group != b->group_few) td_free(b->group);
  if (b->control != b->control_few) td_free(b->control);
  if (b->attr != b->attr_few) td_free(b->attr);
  start(b, b->graph, NULL, NULL);
}

/* ---- the node ------------------------------------------------------------ */

/* The same control input twice says nothing new. Many (a group over all
 * variables) are told apart by one bit a node. */
static td_status *drop_doubled_controls(td_resolve *c, td_build *b) {
  enum { FEW = 16 };
  int32_t kept = 0;
  uint8_t *seen = NULL;
  if (b->n_control > FEW) {
    seen = td_arena_alloc(&c->scratch, b->graph->nodes.len / 8 + 1);
    if (!seen) return td_oom();
  }
  for (int32_t i = 0; i < b->n_control; i++) {
    td_node *n = b->control[i];
    bool doubled = false;
    if (seen) {
      uint8_t bit = (uint8_t)(1 << (n->id & 7));
      doubled = seen[n->id >> 3] & bit;
      seen[n->id >> 3] |= bit;
    }
    for (int32_t k = 0; !seen && k < kept; k++)
      doubled = doubled || b->control[k] == n;
    if (!doubled) b->control[kept++] = n;
  }
  b->n_control = kept;
  return NULL;
}

static td_status *infer_shapes(td_resolve *c) {
  td_infer infer = {.op = c->op,
                    .attr = c->attr,
                    .note = c->note,
                    .n_note = c->n_note,
                    .in = c->b->in,
                    .n_in = c->b->n_in,
                    .out = c->out,
                    .n_out = c->n_out};
  return td_infer_run(&infer);
}

/* Default names of the engine's own ops go without their "_". */
static const char *wanted_name(const td_build *b) {
  if (b->name) return b->name;
  return b->op->type + (b->op->type[0] == '_');
}

/* *reserved is the entry of an exact name that waits for its node. */
static td_status *find_name(const td_build *b, const char **out,
                            td_name **reserved) {
  td_names *names = &b->graph->names;
  const char *wanted = wanted_name(b);
  *reserved = NULL;
  TD_TRY(td_names_check(wanted, b->exact_name));
  if (!b->exact_name) {
    *out = td_names_free_one(names, wanted, strlen(wanted), &b->graph->trial);
    return *out ? NULL : td_oom();
  }
  *reserved = td_names_find(names, wanted, strlen(wanted));
  if (*reserved && (*reserved)->node)
    return td_error(TD_ALREADY_EXISTS, "a node \"%s\" exists already", wanted);
  *out = wanted;
  return NULL;
}

static td_status *keep_place(const td_build *b, td_node *n) {
  td_region *r = n->region;
  td_device_name device;
  if (b->device && b->device[0] && strcmp(b->device, r->device) != 0)
    TD_TRY(td_device_name_parse(b->device, &device));
  n->device = td_region_keep(r, &r->device, b->device);
  n->origin = td_region_keep(r, &r->origin, b->origin);
  return n->device && n->origin ? NULL : td_oom();
}

/* Copies what was resolved; on error no tensor is held. */
static td_status *fill_node(const td_resolve *c, td_node *n) {
  const td_build *b = c->b;
  td_arena *arena = &n->region->arena;
  td_status *s = keep_place(b, n);
  n->flow = b->flow;
  if (b->n_in) memcpy(n->in, b->in, (size_t)b->n_in * sizeof *n->in);
  if (b->n_control)
    memcpy(n->control, b->control, (size_t)b->n_control * sizeof *n->control);
  if (c->n_out) memcpy(n->out, c->out, (size_t)c->n_out * sizeof *n->out);
  for (int i = 0; i < c->op->n_attr && td_ok(s); i++)
    s = td_attr_copy(arena, &c->attr[i], &n->attr[i]);
  for (int i = 0; i < c->n_note && td_ok(s); i++) {
    n->note[i].name = td_arena_str(arena, c->note[i].name);
    s = n->note[i].name
            ? td_attr_copy(arena, &c->note[i].value, &n->note[i].value)
            : td_oom();
  }
  n->op = c->op;
  if (!td_ok(s)) td_node_drop_attrs(n);
  return s;
}

/* Under the lock. */
static td_status *add_node(td_resolve *c, td_build *b, td_node **out) {
  td_graph *g = b->graph;
  const char *name;
  td_name *reserved;
  if (g->finalized)
    return td_error(TD_FAILED_PRECONDITION,
                    "%s: the graph is final, no node may be added",
                    b->op->type);
  if (!td_graph_flow_at(g, b->flow))
    return td_error(TD_INVALID_ARGUMENT, "%s: no flow %d", b->op->type,
                    b->flow);
  TD_TRY(drop_doubled_controls(c, b));
  TD_TRY(infer_shapes(c));
  TD_TRY(td_graph_reserve(g, 1)); /* before: it moves the names */
  TD_TRY(find_name(b, &name, &reserved));
  td_node_size size = {.in = b->n_in,
                       .control = b->n_control,
                       .out = c->n_out,
                       .attr = c->op->n_attr,
                       .note = c->n_note,
                       .name = strlen(name)};
  td_node *n = td_node_alloc(g, &size, name);
  if (!n) return td_oom();
  TD_TRY(fill_node(c, n));
  td_graph_adopt(g, n, reserved);
  *out = n;
  return NULL;
}

td_status *td_build_node(td_build *b, td_node **out) {
  td_resolve c;
  td_status *s = b->status;
  b->status = NULL;
  *out = NULL;
  if (td_ok(s)) {
    s = td_resolve_node(&c, b);
    if (td_ok(s)) {
      td_graph_lock(b->graph);
      s = add_node(&c, b, out);
      td_graph_unlock(b->graph);
    }
    td_resolve_deinit(&c);
  }
  if (s)
    s = td_status_at(s, b->op ? b->op->type : NULL,
                     b->op ? wanted_name(b) : b->name, b->origin, NULL);
  td_build_drop(b);
  return s;
}
