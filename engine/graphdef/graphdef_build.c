/* graphdef_build.c - nodes of a file, built in an order that works.
 *
 * Depth first from the file's order, so that a file whose inputs come first
 * keeps its order. Back edges, from a NextIteration into a Merge, are left open
 * and closed last.
 *
 * A file does not say how a loop variable's shape changes. While nodes are
 * built a loop's Merge says nothing of it, so that no check on the way sees a
 * shape that the second iteration does not have. Then all Merges begin with
 * their Enter's shape and are widened to what comes back, and what follows is
 * inferred again, until nothing changes: the least shapes that hold in every
 * iteration. Where a node fails even so (its loop may never turn), or there is
 * no end to it, loop variables go without.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/graph/build.h"
#include "engine/graph/node_edit.h"
#include "engine/graphdef/graphdef_read_impl.h"

/* ---- attributes ---------------------------------------------------------- */

/* Colocation names nodes of the file: they get the prefix too. */
static td_status *prefix_class(td_import *m, td_attr *a) {
  static const char loc[] = "loc:@";
  size_t skip = sizeof loc - 1, before = strlen(m->o->prefix);
  if (!a->is_list || a->kind != TD_ATTR_STRING) return NULL;
  for (int i = 0; i < a->len; i++) {
    td_bytes *b = (td_bytes *)&a->ss[i];
    if (b->len <= skip || memcmp(b->at, loc, skip) != 0) continue;
    if (!td_names_find(&m->names, b->at + skip, b->len - skip)) continue;
    char *text = td_arena_alloc(&m->arena, b->len + before + 2);
    if (!text) return td_oom();
    char *p = stpcpy(stpcpy(stpcpy(text, loc), m->o->prefix), "/");
    memcpy(p, b->at + skip, b->len - skip);
    *b = (td_bytes){text, b->len + before + 1};
  }
  return NULL;
}

/* So that a file read twice gives two loops. */
static td_status *prefix_frame(td_import *m, td_attr *a) {
  size_t before = strlen(m->o->prefix);
  if (a->is_list || a->kind != TD_ATTR_STRING) return NULL;
  char *text = td_arena_alloc(&m->arena, before + a->s.len + 2);
  if (!text) return td_oom();
  memcpy(stpcpy(stpcpy(text, m->o->prefix), "/"), a->s.at, a->s.len);
  *a = td_attr_bytes(text, before + 1 + a->s.len);
  return NULL;
}

/* What this attribute means here. */
static td_status *adapt(td_import *m, const td_item *n, const char *key,
                        td_attr *a) {
  static const td_shape unknown = {.rank = -1};
  if (m->o->prefix && !m->is_body && strcmp(key, "_class") == 0)
    return prefix_class(m, a);
  if (m->o->prefix && n->op->kind == TD_OP_ENTER &&
      strcmp(key, "frame_name") == 0)
    return prefix_frame(m, a);
  /* Before version 22 a Placeholder without shape wrote an empty one. */
  if (m->producer < 22 && n->op->kind == TD_OP_PLACEHOLDER &&
      a->kind == TD_ATTR_SHAPE && !a->is_list && a->shape->rank == 0)
    a->shape = &unknown;
  return NULL;
}

/* A later version's attribute that says nothing. */
static bool is_news(const td_import *m, const Td__AttrEntry *e, int known) {
  return known < 0 && e->key[0] != '_' && m->producer > TD_GRAPHDEF_VERSION &&
         td_graphdef_attr_unset(e->value);
}

static td_status *read_attr(td_import *m, const td_item *n,
                            const Td__AttrEntry *e, td_build *b, td_attr *a) {
  int known = td_op_attr(n->op, e->key);
  *a = (td_attr){0};
  if (is_news(m, e, known)) return NULL;
  const td_attr_def *def = known < 0 ? NULL : &n->op->attr[known];
  td_status *s = td_graphdef_attr_in(&m->arena, e->value, def, &m->fill, a);
  if (td_ok(s)) s = adapt(m, n, e->key, a);
  if (td_ok(s)) {
    td_build_attr(b, e->key, *a);
    return NULL;
  }
  td_code code = td_status_code(s);
  td_status *where = code == TD_RESOURCE_EXHAUSTED
                         ? s
                         : td_error(code, "attribute %.100s: %s", e->key,
                                    td_status_message(s));
  if (where != s) td_status_release(s);
  return where;
}

/* ---- one node ------------------------------------------------------------ */

static bool is_back_edge(const td_import *m, const td_item *n, int i) {
  const td_source *in = &n->in[i];
  return n->op->kind == TD_OP_MERGE && in->item >= 0 &&
         m->item[in->item].op->kind == TD_OP_NEXT;
}

static td_node *node_of(const td_import *m, const td_source *s) {
  return s->item >= 0 ? m->item[s->item].node : td_graph_node(m->g, s->stand);
}

static td_status *give_edges(td_import *m, td_item *n, td_build *b) {
  td_edge *in = td_arena_alloc(&m->arena, (size_t)n->n_in * sizeof *in);
  if (!in) return td_oom();
  for (int i = 0; i < n->n_in; i++) {
    if (is_back_edge(m, n, i))
      n->loop = m->loops = true;
    else
      in[i] = (td_edge){node_of(m, &n->in[i]), n->in[i].port};
  }
  if (n->foreign) td_import_foreign_inputs(n, in);
  td_build_flat(b, in, n->n_in);
  for (int i = 0; i < n->n_control; i++)
    td_build_control(b, node_of(m, &n->control[i]));
  return NULL;
}

/* A number in the file makes thousands of them. */
static td_status *take_outputs(td_import *m, const td_node *n) {
  if (n->n_out <= 1) return NULL;
  return td_graphdef_take_fill(
      "outputs", (size_t)(n->n_out - 1) * sizeof *n->out, &m->fill);
}

static td_status *build_node(td_import *m, td_item *n) {
  size_t n_attr = n->def->n_attr;
  td_build b;
  td_attr *attr = td_arena_alloc(&m->arena, n_attr * sizeof *attr);
  if (!attr) return td_oom();
  td_build_op(&b, m->g, n->op, n->name);
  b.device = m->o->clear_devices ? "" : n->def->device;
  b.exact_name = true;
  td_status *s = give_edges(m, n, &b);
  for (size_t i = 0; i < n_attr && td_ok(s); i++) {
    const Td__AttrEntry *e = n->def->attr[i];
    if (i && strcmp(n->def->attr[i - 1]->key, e->key) == 0)
      s = td_error(TD_INVALID_ARGUMENT, "attribute %.100s comes twice", e->key);
    else
      s = read_attr(m, n, e, &b, &attr[i]);
  }
  if (td_ok(s))
    s = td_build_node(&b, &n->node);
  else
    td_build_drop(&b);
  for (size_t i = 0; i < n_attr; i++) td_attr_drop(&attr[i]);
  if (td_ok(s)) s = take_outputs(m, n->node);
  if (td_ok(s) && n->loop) n->node->out[0].shape = td_shape_unknown();
  return td_import_blame(s, n);
}

/* ---- the order ----------------------------------------------------------- */

enum { NEW, OPEN, BUILT };

typedef struct step {
  int32_t item;
  int32_t next; /* its input, then control input, to look at next */
} step;

/* The item that input k of all, control inputs last, waits for; or -1. */
static int32_t waits_for(const td_import *m, const td_item *n, int32_t k) {
  if (k >= n->n_in) return n->control[k - n->n_in].item;
  return is_back_edge(m, n, k) ? -1 : n->in[k].item;
}

static td_status *cycle(const td_import *m, const step *stack, int32_t depth,
                        int32_t again) {
  td_str t = {0};
  int shown = 0;
  td_str_addf(&t, "a cycle that passes no NextIteration: \"%s\"",
              m->item[again].name);
  for (int32_t i = depth - 1; stack[i].item != again; i--, shown++)
    if (shown < 8) td_str_addf(&t, " <- \"%s\"", m->item[stack[i].item].name);
  if (shown > 8) td_str_addf(&t, " <- %d more", shown - 8);
  td_str_addf(&t, " <- \"%s\"", m->item[again].name);
  td_status *s =
      t.failed ? td_oom() : td_error(TD_INVALID_ARGUMENT, "%s", td_str_c(&t));
  td_str_deinit(&t);
  return td_import_blame(s, &m->item[again]);
}

static td_status *build_from(td_import *m, int32_t first, step *stack) {
  int32_t depth = 0;
  stack[depth++] = (step){first, 0};
  m->item[first].state = OPEN;
  while (depth > 0) {
    step *top = &stack[depth - 1];
    td_item *n = &m->item[top->item];
    if (top->next == n->n_in + n->n_control) {
      TD_TRY(build_node(m, n));
      n->state = BUILT;
      depth--;
      continue;
    }
    int32_t before = waits_for(m, n, top->next++);
    if (before < 0 || m->item[before].state == BUILT) continue;
    if (m->item[before].state == OPEN) return cycle(m, stack, depth, before);
    m->item[before].state = OPEN;
    stack[depth++] = (step){before, 0};
  }
  return NULL;
}

/* ---- shapes in loops ------------------------------------------------------
 */

/* A round over the nodes costs little where nothing changes. Beyond so many the
 * loop variables that still change, and all others, say nothing any more. */
enum { ROUNDS = 64 };

/* The way to the narrowest shapes that hold in every iteration. */
typedef struct settling {
  const td_import *m;
  const td_item **loop; /* by node id: of a loop's Merge, else NULL */
  bool *known; /* by node id: its shapes hold for what is known of its inputs */
  bool *stale; /* by node id: in this round they changed, or what they are from
                  did */
} settling;

static bool any_input(const bool *flag, const td_node *n, bool wanted) {
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].node && flag[n->in[i].node->id] == wanted) return true;
  return false;
}

/* The Merge of a loop allows what comes in, and so far back. */
static bool widen(settling *t, td_node *n) {
  const td_item *item = t->loop[n->id];
  td_shape *out = &n->out[0].shape;
  bool changed = false;
  for (int i = 0; i < item->n_in; i++) {
    td_edge e = {node_of(t->m, &item->in[i]), item->in[i].port};
    if (!t->known[e.node->id] || e.port >= e.node->n_out) continue;
    if (t->known[n->id] && td_shape_allows(out, td_edge_shape(e))) continue;
    *out = t->known[n->id] ? td_shape_widen(out, td_edge_shape(e))
                           : *td_edge_shape(e);
    t->known[n->id] = changed = true;
  }
  return changed;
}

/* What fails now may do better with what is to come, so that nobody builds on
 * it yet. */
static bool infer_again(td_node *n) {
  for (int i = 0; i < n->n_out; i++) n->out[i].shape = td_shape_unknown();
  td_status *s = td_node_infer(n);
  td_status_release(s);
  return td_ok(s);
}

/* All nodes once, in the order of building; true when a loop's variable has
 * changed. */
static bool round_of(settling *t) {
  bool changed = false;
  for (int32_t id = t->m->o->n_inputs; id < td_graph_size(t->m->g); id++) {
    td_node *n = td_graph_node(t->m->g, id);
    if (t->loop[id]) {
      t->stale[id] = widen(t, n);
      changed = changed || t->stale[id];
      continue;
    }
    bool ready = !any_input(t->known, n, false);
    t->stale[id] = any_input(t->stale, n, true) || (ready && !t->known[id]);
    if (t->stale[id]) t->known[id] = ready && infer_again(n);
  }
  return changed;
}

/* At first what follows a loop's Merge is not known. */
static void begin_settling(settling *t) {
  for (int32_t i = 0; i < t->m->n_item; i++)
    if (t->m->item[i].loop) t->loop[t->m->item[i].node->id] = &t->m->item[i];
  for (int32_t id = 0; id < td_graph_size(t->m->g); id++)
    t->known[id] =
        !t->loop[id] && !any_input(t->known, td_graph_node(t->m->g, id), false);
}

static bool all_known(const settling *t) {
  for (int32_t id = 0; id < td_graph_size(t->m->g); id++)
    if (!t->known[id]) return false;
  return true;
}

/* As it was built: no loop variable has a known shape. */
static void give_up(settling *t) {
  for (int32_t id = 0; id < td_graph_size(t->m->g); id++) {
    td_node *n = td_graph_node(t->m->g, id);
    t->stale[id] = t->loop[id] || any_input(t->stale, n, true);
    if (t->loop[id]) n->out[0].shape = td_shape_unknown();
    if (t->stale[id] && !t->loop[id]) infer_again(n);
  }
}

static td_status *settle_shapes(const td_import *m) {
  size_t n = (size_t)td_graph_size(m->g);
  settling t = {.m = m,
                .loop = td_calloc(n, sizeof *t.loop),
                .known = td_calloc(n, sizeof *t.known),
                .stale = td_calloc(n, sizeof *t.stale)};
  bool room = t.loop && t.known && t.stale, changed = true;
  if (room) {
    begin_settling(&t);
    for (int i = 0; i < ROUNDS && changed; i++) changed = round_of(&t);
    if (changed || !all_known(&t)) give_up(&t);
  }
  td_free(t.loop);
  td_free(t.known);
  td_free(t.stale);
  return room ? NULL : td_oom();
}

static td_status *close_loops(const td_import *m) {
  TD_TRY(settle_shapes(m));
  for (int32_t i = 0; i < m->n_item; i++) {
    const td_item *n = &m->item[i];
    for (int k = 0; k < n->n_in && n->loop; k++) {
      if (!is_back_edge(m, n, k)) continue;
      td_edge from = {node_of(m, &n->in[k]), n->in[k].port};
      TD_TRY(td_node_set_back_edge(n->node, k, from));
    }
  }
  return NULL;
}

td_status *td_import_build(td_import *m) {
  td_status *s = NULL;
  step *stack = td_calloc((size_t)m->n_item, sizeof *stack);
  if (!stack) return td_oom();
  for (int32_t i = 0; i < m->n_item && td_ok(s); i++)
    if (m->item[i].state == NEW) s = build_from(m, i, stack);
  td_free(stack);
  if (td_ok(s) && m->loops) s = close_loops(m);
  return s;
}
