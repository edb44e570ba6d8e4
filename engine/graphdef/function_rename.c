/* function_rename.c - another name for a function.
 *
 * A function is named in two places: in attributes of nodes, and in the bodies
 * of functions that call it. When "e" becomes "e.old", a call in the graph
 * names "e.old" from then on; and since definitions never change, the functions
 * "f" and "g" that call "e" get new definitions, which call "e.old". All of
 * this is made first and then put in place by steps that cannot fail.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/graphdef/function_impl.h"

typedef struct renaming {
  td_graph *g;
  const char *from, *to;
  td_definition **fresh; /* by index; NULL: as it is */
  bool commit;
} renaming;

/* Is it that function, or one that names it? */
static bool names(const td_definition *d, const char *name) {
  if (strcmp(d->name, name) == 0) return true;
  if (d->gradient && strcmp(d->gradient, name) == 0) return true;
  for (const char **c = d->calls; *c; c++)
    if (strcmp(*c, name) == 0) return true;
  return false;
}

static td_status *remake(const renaming *r) {
  for (size_t i = 0; i < r->g->functions.list.len; i++) {
    const td_definition *d = r->g->functions.list.at[i].definition;
    if (names(d, r->from))
      TD_TRY(td_function_renamed(d, r->from, r->to, &r->fresh[i]));
  }
  return NULL;
}

/* Runs twice. First, which may fail, it points the attribute to memory with
 * both names, "e\0e.old", which changes nothing: a string ends at its NUL.
 * Then, to commit, it moves the pointer on to the second. */
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
    if (!td_node_visit_funcs(r->g->nodes.at[i], rename_attr, r))
      return td_oom();
  return NULL;
}

/* Cannot fail: the strings are there. */
static void put_in_place(renaming *r) {
  r->commit = true;
  td_status *none = rename_attrs(r);
  td_status_release(none);
  for (size_t i = 0; i < r->g->functions.list.len; i++) {
    td_function_entry *e = &r->g->functions.list.at[i];
    td_definition *old = e->definition;
    if (!r->fresh[i]) continue;
    e->definition = r->fresh[i];
    r->fresh[i] = old;
  }
  td_function_library_sort(&r->g->functions);
  td_graph_touch(r->g);
}

static td_status *rename_function(td_graph *g, const char *from,
                                  const char *to) {
  renaming r = {.g = g, .from = from, .to = to};
  size_t n = g->functions.list.len;
  r.fresh = td_calloc(n, sizeof *r.fresh);
  td_status *s = r.fresh ? remake(&r) : td_oom();
  if (td_ok(s)) s = rename_attrs(&r);
  if (td_ok(s)) put_in_place(&r);
  for (size_t i = 0; r.fresh && i < n; i++) td_definition_release(r.fresh[i]);
  td_free(r.fresh);
  return s;
}

td_status *td_function_rename_old(td_graph *g, const char *name) {
  td_str to = {0};
  td_str_addf(&to, "%s.old", name);
  for (int k = 1; !to.failed && td_function_library_find(&g->functions, to.at);
       k++) {
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
  if (!td_function_library_find(&g->functions, name))
    s = td_error(TD_NOT_FOUND, "the graph has no function \"%.100s\"", name);
  else if (!*to || td_function_library_find(&g->functions, to))
    s = td_error(TD_ALREADY_EXISTS, "no function can be called \"%.100s\"", to);
  else
    s = rename_function(g, name, to);
  td_graph_unlock(g);
  return s;
}
