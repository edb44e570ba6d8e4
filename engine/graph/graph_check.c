/* graph_check.c - the order of a graph's nodes, and all that must hold in it.
 *
 * The order is a walk in depth, by ids, that leaves every node after its
 * inputs: a graph already in order keeps its order. The walk has its own stack,
 * since a chain of a million nodes must not overflow the thread's. Edges from a
 * NextIteration into a Merge go to the next round of a loop and do not count.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/graph_check.h"

#include <string.h>

#include "engine/graph/graph_impl.h"

/* ---- order --------------------------------------------------------------- */

enum { WHITE, OPEN, DONE };

typedef struct step {
  const td_node *node;
  int32_t next; /* its input, then control input, to look at next */
} step;

typedef struct walk {
  uint8_t *color; /* by id */
  step *stack;    /* the open nodes, each an input of the one below */
  int32_t depth;
  int32_t *order;
  int32_t done;
} walk;

static bool is_back_edge(const td_node *from, const td_node *to) {
  return from->op->kind == TD_OP_NEXT && to->op->kind == TD_OP_MERGE;
}

/* Input k of all, control inputs last; NULL for a missing or a back edge. */
static const td_node *before(const td_node *n, int32_t k) {
  if (k >= n->n_in) return n->control[k - n->n_in];
  const td_node *from = n->in[k].node;
  return from && !is_back_edge(from, n) ? from : NULL;
}

static td_status *cycle(const walk *w, const td_node *again) {
  td_str m = {0};
  int32_t i = w->depth - 1, shown = 0;
  td_str_addf(&m, "a cycle that passes no NextIteration: \"%s\"", again->name);
  for (; i >= 0 && w->stack[i].node != again; i--, shown++)
    if (shown < 8) td_str_addf(&m, " <- \"%s\"", w->stack[i].node->name);
  if (shown > 8) td_str_addf(&m, " <- %d more", shown - 8);
  td_str_addf(&m, " <- \"%s\"", again->name);
  td_status *s =
      m.failed ? td_oom() : td_error(TD_INVALID_ARGUMENT, "%s", td_str_c(&m));
  td_str_deinit(&m);
  return s;
}

static void open_node(walk *w, const td_node *n) {
  w->color[n->id] = OPEN;
  w->stack[w->depth++] = (step){n, 0};
}

static td_status *visit(walk *w, const td_node *root) {
  open_node(w, root);
  while (w->depth > 0) {
    step *top = &w->stack[w->depth - 1];
    if (top->next == top->node->n_in + top->node->n_control) {
      w->color[top->node->id] = DONE;
      w->order[w->done++] = top->node->id;
      w->depth--;
      continue;
    }
    const td_node *from = before(top->node, top->next++);
    if (!from || w->color[from->id] == DONE) continue;
    if (w->color[from->id] == OPEN) return cycle(w, from);
    open_node(w, from);
  }
  return NULL;
}

td_status *td_graph_order(const td_graph *g, int32_t **order) {
  size_t n = g->nodes.len;
  td_status *s = NULL;
  walk w = {.color = td_calloc(n, 1),
            .stack = td_calloc(n, sizeof(step)),
            .order = td_calloc(n, sizeof(int32_t))};
  if (!w.color || !w.stack || !w.order) s = td_oom();
  for (size_t i = 0; i < n && td_ok(s); i++)
    if (w.color[i] == WHITE) s = visit(&w, g->nodes.at[i]);
  td_free(w.color);
  td_free(w.stack);
  if (td_ok(s)) {
    *order = w.order;
    return NULL;
  }
  td_free(w.order);
  *order = NULL;
  return s;
}

/* ---- verify -------------------------------------------------------------- */

static td_status *wrong(const td_node *n, const char *what, int i) {
  return td_node_blame(td_error(TD_INTERNAL, "graph: node \"%s\" (%s): %s %d",
                                n->name, n->op ? n->op->type : "no op", what,
                                i),
                       n);
}

static bool is_here(const td_graph *g, const td_node *n) {
  return n->graph == g && td_graph_node(g, n->id) == n;
}

/* dtype of tensor `i` of an argument. */
static td_dtype dtype_of(const td_node *n, const td_arg *arg, int i) {
  if (arg->type_list) return n->attr[arg->type_attr].types[i];
  return arg->type_attr >= 0 ? n->attr[arg->type_attr].type : arg->type;
}

static td_status *verify_attrs(const td_node *n) {
  for (int i = 0; i < n->op->n_attr; i++) {
    const td_attr_def *def = &n->op->attr[i];
    const td_attr *a = &n->attr[i];
    if (a->kind != def->kind || a->is_list != def->is_list || a->len < 0)
      return wrong(n, "bad attribute", i);
  }
  for (int i = 0; i < n->n_note; i++)
    if (!n->note[i].name || n->note[i].name[0] != '_')
      return wrong(n, "bad annotation", i);
  return NULL;
}

static td_status *verify_inputs(const td_graph *g, const td_node *n) {
  int begin = 0, count = 0;
  for (int k = 0; k < n->op->n_in; k++) {
    td_node_in_range(n, k, &begin, &count);
    for (int i = begin; i < begin + count; i++) {
      if (i >= n->n_in) return wrong(n, "missing input", i);
      td_edge e = n->in[i];
      if (!e.node && n->op->kind == TD_OP_MERGE) continue;
      if (!e.node || !is_here(g, e.node) || e.port < 0 ||
          e.port >= e.node->n_out)
        return wrong(n, "bad input", i);
      if (td_edge_dtype(e) != dtype_of(n, &n->op->in[k], i - begin))
        return wrong(n, "bad dtype of input", i);
    }
  }
  return begin + count == n->n_in ? NULL : wrong(n, "inputs", n->n_in);
}

static td_status *verify_outputs(const td_node *n) {
  int begin = 0, count = 0;
  for (int k = 0; k < n->op->n_out; k++) {
    td_node_out_range(n, k, &begin, &count);
    for (int i = begin; i < begin + count; i++)
      if (i >= n->n_out ||
          n->out[i].dtype != dtype_of(n, &n->op->out[k], i - begin))
        return wrong(n, "bad output", i);
  }
  return begin + count == n->n_out ? NULL : wrong(n, "outputs", n->n_out);
}

/* seen[id] is the last node, + 1, that had `id` as a control input. */
static td_status *verify_controls(const td_graph *g, const td_node *n,
                                  int32_t *seen) {
  for (int i = 0; i < n->n_control; i++) {
    const td_node *c = n->control[i];
    if (!c || !is_here(g, c) || c == n) return wrong(n, "bad control input", i);
    if (seen[c->id] == n->id + 1) return wrong(n, "doubled control input", i);
    seen[c->id] = n->id + 1;
  }
  return NULL;
}

static td_status *verify_node(const td_graph *g, int32_t id, int32_t *seen) {
  const td_node *n = g->nodes.at[id];
  if (!n->op || n->graph != g || n->id != id) return wrong(n, "bad id at", id);
  TD_TRY(td_names_check(n->name, true));
  if (td_graph_find(g, n->name) != n) return wrong(n, "name of another at", id);
  if (!n->device || !n->origin || !td_graph_flow_at(g, n->flow))
    return wrong(n, "no device, origin or flow at", id);
  TD_TRY(verify_attrs(n));
  TD_TRY(verify_inputs(g, n));
  TD_TRY(verify_outputs(n));
  return verify_controls(g, n, seen);
}

td_status *td_graph_verify(const td_graph *g) {
  int32_t *order = NULL, n = td_graph_size(g);
  int32_t *seen = td_calloc((size_t)n, sizeof *seen);
  td_status *s = seen ? NULL : td_oom();
  for (int32_t i = 0; i < n && td_ok(s); i++) s = verify_node(g, i, seen);
  td_free(seen);
  if (td_ok(s)) s = td_graph_order(g, &order);
  td_free(order);
  return s;
}
