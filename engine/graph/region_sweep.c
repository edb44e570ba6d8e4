/* region_sweep.c - retiring a region, and taking out what nobody uses.
 *
 * A node of a retired region is called "x.old", so that the copies planners
 * make of a graph stay sound, where it may stand beside the new "x". Nodes are
 * colocated by name ("loc:@x" in the attribute _class), so those names follow.
 * A retired function keeps its name until another definition wants it, as the
 * same definition often comes again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/graph/graph_impl.h"
#include "engine/graph/region.h"

/* ---- colocation by name -------------------------------------------------- */

static const char together[] = "loc:@";
enum { TOGETHER = sizeof together - 1 };

/* "loc:@x" in the _class of `node`, where node `to` is called x. */
typedef struct tie {
  td_node *node, *to;
  td_bytes *text;
} tie;

typedef struct ties {
  TD_VEC(tie) list;
} ties;

static td_attr *class_of(const td_node *n) {
  for (int i = 0; i < n->n_note; i++) {
    td_attr *a = &n->note[i].value;
    if (!strcmp(n->note[i].name, "_class") && a->kind == TD_ATTR_STRING &&
        a->is_list)
      return a;
  }
  return NULL;
}

/* Name `i` of the class, as the node it means; NULL: none. */
static td_node *tied_to(const td_node *n, const td_attr *a, int i) {
  const char *text = a->ss[i].at;
  if (strncmp(text, together, TOGETHER) != 0) return NULL;
  return td_graph_find(n->graph, text + TOGETHER);
}

static td_status *find_ties(td_graph *g, ties *t) {
  for (size_t k = 0; k < g->nodes.len; k++) {
    td_node *n = g->nodes.at[k];
    const td_attr *a = class_of(n);
    for (int i = 0; a && i < a->len; i++) {
      td_node *to = tied_to(n, a, i);
      tie one = {n, to, (td_bytes *)&a->ss[i]};
      if (to && !td_vec_push(&t->list, one)) return td_oom();
    }
  }
  return NULL;
}

/* Writes the name that `to` has now. */
static td_status *follow(const tie *t) {
  size_t len = strlen(t->to->name);
  if (t->text->len == TOGETHER + len &&
      !memcmp(t->text->at + TOGETHER, t->to->name, len))
    return NULL;
  char *text = td_arena_alloc(&t->node->region->arena, TOGETHER + len + 1);
  if (!text) return td_oom();
  memcpy(text, together, TOGETHER);
  memcpy(text + TOGETHER, t->to->name, len);
  *t->text = (td_bytes){text, TOGETHER + len};
  return NULL;
}

static td_status *follow_ties(ties *t, td_status *s) {
  for (size_t i = 0; i < t->list.len && td_ok(s); i++)
    s = follow(&t->list.at[i]);
  td_vec_free(&t->list);
  return s;
}

/* Makes the table of names anew, without what `owner` reserved (NULL: with all
 * reserved ones). */
static void name_all(td_graph *g, const td_region *owner) {
  for (uint32_t i = 0; i < g->names.len; i++) {
    const td_name *n = &g->names.at[i];
    if (n->owner && (n->node || n->owner == owner))
      td_region_drop(n->owner, &n->owner->names);
  }
  td_names_clear_nodes(&g->names, owner);
  for (size_t i = 0; i < g->nodes.len; i++) {
    td_node *n = g->nodes.at[i];
    td_names_add(&g->names, n->name, strlen(n->name), n);
  }
}

/* ---- retiring ------------------------------------------------------------ */

bool td_region_has_old_name(const td_node *n) {
  return n->other && strlen(n->other) < strlen(n->name);
}

static td_status *name_old(td_graph *g, td_node *n) {
  const char *other = n->other;
  if (!other || td_names_find(&g->names, other, strlen(other))) {
    td_str wanted = {0};
    td_str_addf(&wanted, "%s.old", n->name);
    const char *text = wanted.failed ? NULL
                                     : td_names_free_one(&g->names, wanted.at,
                                                         wanted.len, &g->trial);
    other = text ? td_arena_str(&n->region->arena, text) : NULL;
    td_str_deinit(&wanted);
    if (!other) return td_oom();
  }
  n->other = n->name;
  n->name = other;
  td_names_add(&g->names, other, strlen(other), n);
  return NULL;
}

static td_status *retire(td_region *r) {
  td_graph *g = r->graph;
  ties t = {0};
  if (!td_names_reserve(&g->names, (size_t)r->nodes)) return td_oom();
  td_status *s = find_ties(g, &t);
  r->retired = true;
  for (size_t i = 0; i < g->nodes.len && td_ok(s); i++)
    if (g->nodes.at[i]->region == r && !td_region_has_old_name(g->nodes.at[i]))
      s = name_old(g, g->nodes.at[i]);
  name_all(g, r);
  td_graph_touch(g);
  return follow_ties(&t, s);
}

td_status *td_region_retire(td_region *r, const char *by) {
  td_graph *g = r->graph;
  td_status *s = NULL;
  if (td_region_is_root(r)) return NULL;
  td_graph_lock(g);
  if (g->finalized)
    s = td_error(TD_FAILED_PRECONDITION, "the graph is final");
  else
    s = retire(r);
  strncpy(r->by, by, sizeof r->by - 1);
  td_graph_unlock(g);
  return s;
}

void td_region_restore(td_region *r) {
  r->retired = false;
}

td_status *td_region_rename_variable(td_node *n, const char *name) {
  int i = td_op_attr(n->op, "shared_name");
  if (i < 0 || n->gone)
    return td_error(TD_INVALID_ARGUMENT, "\"%s\" is no handle", n->name);
  td_graph_lock(n->graph);
  const char *kept = td_arena_str(&n->region->arena, name);
  if (kept) n->attr[i].s = (td_bytes){kept, strlen(kept)};
  td_graph_touch(n->graph);
  td_graph_unlock(n->graph);
  return kept ? NULL : td_oom();
}

/* ---- sweeping ------------------------------------------------------------ */

typedef struct marks {
  const td_graph *graph;
  const bool *unused; /* by node id, or NULL: as if its region were retired */
  bool *keep;         /* by node id */
  bool *busy;         /* by flow */
  bool *used;         /* by function */
  size_t *order;      /* of functions */
  TD_VEC(const td_node *) stack;
} marks;

static bool mark(marks *m, const td_node *n) {
  if (!n || m->keep[n->id]) return true;
  m->keep[n->id] = true;
  return td_vec_push(&m->stack, n);
}

static bool mark_inputs(marks *m, const td_node *n) {
  bool ok = true;
  for (int i = 0; i < n->n_in && ok; i++) ok = mark(m, n->in[i].node);
  for (int i = 0; i < n->n_control && ok; i++) ok = mark(m, n->control[i]);
  const td_attr *a = class_of(n);
  for (int i = 0; a && i < a->len && ok; i++) ok = mark(m, tied_to(n, a, i));
  return ok;
}

static td_status *mark_all(marks *m) {
  bool ok = true;
  for (size_t i = 0; i < m->graph->nodes.len && ok; i++)
    if (!m->graph->nodes.at[i]->region->retired && !(m->unused && m->unused[i]))
      ok = mark(m, m->graph->nodes.at[i]);
  while (ok && m->stack.len) ok = mark_inputs(m, m->stack.at[--m->stack.len]);
  td_vec_free(&m->stack);
  return ok ? NULL : td_oom();
}

static bool mark_named(void *arg, const td_node *n, td_func_attr *f) {
  const marks *m = arg;
  ptrdiff_t i = td_function_library_index(&n->graph->functions, f->name);
  if (i >= 0) m->used[i] = true;
  return true;
}

/* Functions of regions that stay, what nodes that stay call, and so on. */
static td_status *mark_functions(marks *m) {
  const td_function_library *l = &m->graph->functions;
  TD_TRY(td_function_library_order(l, m->order));
  for (size_t i = 0; i < l->list.len; i++)
    m->used[i] = !l->list.at[i].region->retired;
  for (size_t i = 0; i < m->graph->nodes.len && l->list.len; i++)
    if (m->keep[i]) td_node_visit_funcs(m->graph->nodes.at[i], mark_named, m);
  td_function_library_add_called(l, m->order, m->used);
  return NULL;
}

/* It can still be looked at, as long as somebody holds its region. */
static void take_out(td_node *n) {
  td_region *r = n->region;
  td_node_drop_attrs(n);
  if (n->op->n_attr)
    memset(n->attr, 0, (size_t)n->op->n_attr * sizeof *n->attr);
  n->n_in = n->n_control = n->n_note = 0;
  n->id = -1;
  n->gone = true;
  if (td_region_has_old_name(n)) n->name = n->other;
  td_region_drop(r, &r->nodes);
}

static void free_flows(td_graph *g, bool *busy) {
  for (size_t i = 0; i < g->nodes.len; i++)
    for (int32_t at = g->nodes.at[i]->flow; at > 0 && !busy[at];
         at = g->flows.at[at]->parent)
      busy[at] = true;
  for (size_t i = 1; i < g->flows.len; i++)
    if (!busy[i]) g->flows.at[i]->kind = 0;
}

/* Numbers the nodes that stay; the others are out of the graph. How many these
 * are. */
static int32_t close_ranks(td_graph *g, const bool *keep) {
  size_t kept = 0, all = g->nodes.len;
  for (size_t i = 0; i < all; i++) {
    td_node *n = g->nodes.at[i];
    if (!keep[i]) continue;
    n->id = (int32_t)kept;
    g->nodes.at[kept++] = n;
  }
  g->nodes.len = kept;
  return (int32_t)(all - kept);
}

/* Those that stay get the names they had, where nobody has them now; the names
 * of the others are free already. */
static void name_again(td_graph *g) {
  for (size_t i = 0; i < g->nodes.len; i++) {
    td_node *n = g->nodes.at[i];
    const char *now = n->name;
    if (!td_region_has_old_name(n) ||
        td_names_find(&g->names, n->other, strlen(n->other)))
      continue;
    n->name = n->other;
    n->other = now;
    td_names_add(&g->names, n->name, strlen(n->name), n);
  }
}

static td_status *sweep(td_graph *g, marks *m, int32_t *n) {
  ties t = {0};
  TD_TRY(mark_all(m));
  TD_TRY(mark_functions(m));
  if (!td_names_reserve(&g->names, g->nodes.len)) return td_oom();
  td_status *s = find_ties(g, &t);
  if (!td_ok(s)) return follow_ties(&t, s);
  size_t kept = 0; /* ties of nodes that stay, to such */
  for (size_t i = 0; i < t.list.len; i++)
    if (m->keep[t.list.at[i].node->id]) t.list.at[kept++] = t.list.at[i];
  t.list.len = kept;
  td_function_library_sweep(&g->functions, m->used);
  td_node **nodes = g->nodes.at;
  size_t all = g->nodes.len;
  for (size_t i = 0; i < all; i++)
    if (!m->keep[i]) {
      td_node *gone = nodes[i];
      nodes[i] = NULL;
      take_out(gone);
    }
  *n = close_ranks(g, m->keep);
  name_all(g, NULL);
  name_again(g);
  name_all(g, NULL);
  if (*n) __atomic_store_n(&g->removals, g->removals + 1, __ATOMIC_RELEASE);
  td_graph_touch(g);
  free_flows(g, m->busy);
  return follow_ties(&t, NULL);
}

static td_status *marks_init(marks *m, const td_graph *g) {
  size_t nodes = g->nodes.len, flows = g->flows.len;
  size_t n = g->functions.list.len;
  *m = (marks){.graph = g};
  m->keep = td_calloc(nodes + flows + n, sizeof *m->keep);
  m->order = td_calloc(n, sizeof *m->order);
  if (!m->keep || !m->order) return td_oom();
  m->busy = m->keep + nodes;
  m->used = m->busy + flows;
  return NULL;
}

static void marks_deinit(marks *m) {
  td_free(m->keep);
  td_free(m->order);
}

td_status *td_region_sweep_unused(td_graph *g, const bool *unused, int32_t *n) {
  marks m;
  *n = 0;
  td_graph_lock(g);
  td_status *s = marks_init(&m, g);
  m.unused = unused;
  if (td_ok(s)) s = sweep(g, &m, n);
  td_graph_unlock(g);
  marks_deinit(&m);
  return s;
}

td_status *td_region_sweep(td_graph *g, int32_t *n) {
  return td_region_sweep_unused(g, NULL, n);
}

/* ---- users --------------------------------------------------------------- */

static bool is_unused(void *arg, const td_node *n, td_func_attr *f) {
  const marks *m = arg;
  ptrdiff_t i = td_function_library_index(&n->graph->functions, f->name);
  return i < 0 || !m->used[i];
}

static bool uses(const marks *m, const td_node *n) {
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].node && m->keep[n->in[i].node->id]) return true;
  for (int i = 0; i < n->n_control; i++)
    if (m->keep[n->control[i]->id]) return true;
  return m->graph->functions.list.len &&
         !td_node_visit_funcs(n, is_unused, (void *)m);
}

static bool listed(const td_region *r, td_region *const *list, int n) {
  for (int i = 0; i < n; i++)
    if (list[i] == r) return true;
  return false;
}

/* Inputs come first but for back edges and late control edges. */
static void mark_users(marks *m, td_region *const *list, int n) {
  const td_graph *g = m->graph;
  for (size_t i = 0; i < g->functions.list.len; i++)
    m->used[i] = listed(g->functions.list.at[i].region, list, n);
  td_function_library_add_callers(&g->functions, m->order, m->used);
  for (size_t i = 0; i < g->nodes.len; i++)
    m->keep[i] = listed(g->nodes.at[i]->region, list, n);
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < g->nodes.len; i++)
      if (!m->keep[i] && uses(m, g->nodes.at[i])) more = m->keep[i] = true;
  }
}

/* Neighbours are often of one region. */
static int take_regions(const marks *m, td_region **users) {
  const td_graph *g = m->graph;
  int n = 0;
  for (size_t i = 0; i < g->functions.list.len; i++)
    if (m->used[i]) users[n++] = g->functions.list.at[i].region;
  for (size_t i = 0; i < g->nodes.len; i++) {
    td_region *r = g->nodes.at[i]->region;
    if (m->keep[i] && !(n && users[n - 1] == r)) users[n++] = r;
  }
  return n;
}

td_status *td_region_users(td_graph *g, td_region *const *list, int n,
                           td_region **users, int *n_users) {
  marks m;
  *n_users = 0;
  td_graph_lock(g);
  td_status *s = marks_init(&m, g);
  if (td_ok(s)) s = td_function_library_order(&g->functions, m.order);
  if (td_ok(s)) {
    mark_users(&m, list, n);
    *n_users = take_regions(&m, users);
  }
  td_graph_unlock(g);
  marks_deinit(&m);
  return s;
}
