/* function_rename.c - which functions are used, by nodes and by others; other
 * names for them.
 *
 * Everybody names a function: attributes of nodes, bodies of other functions.
 * So a new name means new definitions of all that call it. They are made aside,
 * then put in place by steps that cannot fail.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/graph/function_impl.h"

/* ---- names in attributes ------------------------------------------------- */

/* False ends the visit. */
typedef bool visit(void *arg, const td_node *n, td_func_attr *f);

static bool visit_attr(const td_node *n, const td_attr *a, visit *f,
                       void *arg) {
  if (a->kind != TD_ATTR_FUNC) return true;
  const td_func_attr *at = a->is_list ? a->funcs : a->func;
  for (int i = 0; i < (a->is_list ? a->len : 1); i++) {
    if (!f(arg, n, (td_func_attr *)&at[i])) return false;
    for (int k = 0; k < at[i].n_attrs; k++)
      if (!visit_attr(n, &at[i].attrs[k], f, arg)) return false;
  }
  return true;
}

static bool visit_node(const td_node *n, visit *f, void *arg) {
  for (int i = 0; i < n->op->n_attr; i++)
    if (!visit_attr(n, &n->attr[i], f, arg)) return false;
  for (int i = 0; i < n->n_note; i++)
    if (!visit_attr(n, &n->note[i].value, f, arg)) return false;
  return true;
}

/* ---- users --------------------------------------------------------------- */

static bool mark(void *arg, const td_node *n, td_func_attr *f) {
  bool *used = arg;
  const td_member *m = td_functions_find(n->graph, f->name);
  if (m) used[m - n->graph->functions.at] = true;
  return true;
}

void td_functions_mark(const td_node *n, bool *used) {
  if (n->graph->functions.len) visit_node(n, mark, used);
}

static bool is_not(void *arg, const td_node *n, td_func_attr *f) {
  const bool *used = arg;
  const td_member *m = td_functions_find(n->graph, f->name);
  return !(m && used[m - n->graph->functions.at]);
}

bool td_functions_named(const td_node *n, const bool *used) {
  return n->graph->functions.len && !visit_node(n, is_not, (void *)used);
}

/* Marks function `name`; true when it was not. */
static bool mark_name(const td_graph *g, const char *name, bool *used) {
  const td_member *m = name ? td_functions_find(g, name) : NULL;
  if (!m || used[m - g->functions.at]) return false;
  return used[m - g->functions.at] = true;
}

/* A gradient may come before what it is the gradient of. */
void td_functions_called(const td_graph *g, const size_t *order, bool *used) {
  for (bool more = true; more;) {
    more = false;
    for (size_t i = g->functions.len; i-- > 0;) {
      const td_function *f = g->functions.at[order[i]].f;
      if (!used[order[i]]) continue;
      for (const char **c = f->calls; *c; c++) mark_name(g, *c, used);
      more = mark_name(g, f->gradient, used) || more;
    }
  }
}

void td_functions_callers(const td_graph *g, const size_t *order, bool *used) {
  for (size_t i = 0; i < g->functions.len; i++) {
    const td_function *f = g->functions.at[order[i]].f;
    for (const char **c = f->calls; *c && !used[order[i]]; c++) {
      const td_member *m = td_functions_find(g, *c);
      used[order[i]] = m && used[m - g->functions.at];
    }
  }
}

void td_functions_cut(td_graph *g, const bool *used) {
  size_t kept = 0;
  for (size_t i = 0; i < g->functions.len; i++) {
    td_member m = g->functions.at[i];
    if (used[i]) {
      g->functions.at[kept++] = m;
      continue;
    }
    td_function_release(m.f);
    td_functions_leave(m.region);
  }
  g->functions.len = kept;
}

/* ---- another name -------------------------------------------------------- */

typedef struct renaming {
  td_graph *g;
  const char *from, *to;
  td_function **fresh; /* by index; NULL: as it is */
  bool commit;
} renaming;

static bool calls(const td_function *f, const char *name) {
  if (strcmp(f->name, name) == 0) return true;
  if (f->gradient && strcmp(f->gradient, name) == 0) return true;
  for (const char **c = f->calls; *c; c++)
    if (strcmp(*c, name) == 0) return true;
  return false;
}

static td_status *remake(const renaming *r) {
  for (size_t i = 0; i < r->g->functions.len; i++) {
    const td_function *f = r->g->functions.at[i].f;
    if (calls(f, r->from))
      TD_TRY(td_function_renamed(f, r->from, r->to, &r->fresh[i]));
  }
  return NULL;
}

/* First both names one behind the other, which changes nothing; to commit is to
 * go on to the second. */
static bool rename_attr(void *arg, const td_node *n, td_func_attr *f) {
  const renaming *r = arg;
  if (strcmp(f->name, r->from) != 0) return true;
  size_t from = strlen(r->from) + 1, to = strlen(r->to) + 1;
  if (r->commit) {
    f->name += from;
    return true;
  }
  char *both = td_arena_alloc(&n->region->arena, from + to);
  if (!both) return false;
  memcpy(both, r->from, from);
  memcpy(both + from, r->to, to);
  f->name = both;
  return true;
}

static td_status *rename_attrs(renaming *r) {
  for (size_t i = 0; i < r->g->nodes.len; i++)
    if (!visit_node(r->g->nodes.at[i], rename_attr, r)) return td_oom();
  return NULL;
}

static void sort(td_graph *g) {
  for (size_t i = 1; i < g->functions.len; i++) {
    td_member m = g->functions.at[i];
    size_t k = i;
    for (; k > 0 && strcmp(g->functions.at[k - 1].f->name, m.f->name) > 0; k--)
      g->functions.at[k] = g->functions.at[k - 1];
    g->functions.at[k] = m;
  }
}

/* Cannot fail: the strings are there. */
static void put_in_place(renaming *r) {
  r->commit = true;
  td_status *none = rename_attrs(r);
  td_status_release(none);
  for (size_t i = 0; i < r->g->functions.len; i++) {
    td_function *old = r->g->functions.at[i].f;
    if (!r->fresh[i]) continue;
    r->g->functions.at[i].f = r->fresh[i];
    r->fresh[i] = old;
  }
  sort(r->g);
  td_graph_touch(r->g);
}

static td_status *rename_function(td_graph *g, const char *from,
                                  const char *to) {
  renaming r = {.g = g, .from = from, .to = to};
  size_t n = g->functions.len;
  r.fresh = td_alloc_zero(n, sizeof *r.fresh);
  td_status *s = r.fresh ? remake(&r) : td_oom();
  if (td_ok(s)) s = rename_attrs(&r);
  if (td_ok(s)) put_in_place(&r);
  for (size_t i = 0; r.fresh && i < n; i++) td_function_release(r.fresh[i]);
  td_free(r.fresh);
  return s;
}

td_status *td_functions_rename_old(td_graph *g, const char *name) {
  td_str to = {0};
  td_str_addf(&to, "%s.old", name);
  for (int k = 1; !to.failed && td_functions_find(g, to.at); k++) {
    td_str_clear(&to);
    td_str_addf(&to, "%s.old_%d", name, k);
  }
  td_status *s = to.failed ? td_oom() : rename_function(g, name, to.at);
  td_str_deinit(&to);
  return s;
}

td_status *td_function_rename(td_graph *g, const char *name, const char *to) {
  td_status *s = NULL;
  td_graph_lock(g);
  if (!td_functions_find(g, name))
    s = td_error(TD_NOT_FOUND, "the graph has no function \"%.100s\"", name);
  else if (!*to || td_functions_find(g, to))
    s = td_error(TD_ALREADY_EXISTS, "no function can be called \"%.100s\"", to);
  else
    s = rename_function(g, name, to);
  td_graph_unlock(g);
  return s;
}
