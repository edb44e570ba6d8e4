/* function.c - definitions enter a graph.
 *
 * Functions are added by way of a library that has just them: the union of it
 * and the graph's is made and checked first, then put in place by steps that
 * cannot fail. A function of a retired region gives its name to another
 * definition (function_rename.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graphdef/function.h"

#include <string.h>

#include "engine/graphdef/function_impl.h"
#include "engine/graphdef/graphdef_impl.h"

/* ---- into a library ------------------------------------------------------ */

static td_status *put(td_graph *g, td_arena *scratch, const void *bytes,
                      size_t len, const char **name) {
  Td__FunctionDef *def;
  td_definition *d;
  TD_TRY(td_graphdef_unpack(&td__function_def__descriptor, scratch, bytes, len,
                            &def));
  TD_TRY(td_function_check(def));
  TD_TRY(td_function_define(def, (td_bytes){bytes, len}, NULL, scratch, &d));
  td_status *s = td_function_library_add(&g->functions, d, &g->root);
  if (!td_ok(s))
    td_definition_release(d);
  else if (name)
    *name = td_function_library_find(&g->functions, def->signature->name)
                ->definition->name;
  return s;
}

td_status *td_function_put(td_graph *g, const void *def, size_t len,
                           const char **name) {
  td_arena scratch;
  td_arena_init(&scratch);
  td_status *s = put(g, &scratch, def, len, name);
  td_arena_deinit(&scratch);
  return s;
}

td_status *td_function_set_gradient(td_graph *g, const char *name,
                                    const char *gradient) {
  td_function_entry *e = td_function_library_find(&g->functions, name);
  if (!e || !*gradient)
    return td_error(TD_INVALID_ARGUMENT,
                    "\"%.100s\" is the gradient of no function: \"%.100s\"",
                    gradient, name);
  const char *other = e->definition->gradient;
  if (other && strcmp(other, gradient) != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "function \"%.100s\" has two gradients, \"%.100s\" and "
                    "\"%.100s\"",
                    name, other, gradient);
  td_definition *d;
  TD_TRY(td_definition_with_gradient(e->definition, gradient, &d));
  td_definition_release(e->definition);
  e->definition = d;
  return NULL;
}

/* ---- into a graph -------------------------------------------------------- */

/* Functions of retired regions whose names are wanted for other definitions get
 * another name. */
static td_status *make_way(td_graph *to, const td_graph *from) {
  for (size_t i = 0; i < from->functions.list.len; i++) {
    const td_definition *d = from->functions.list.at[i].definition;
    const td_function_entry *e =
        td_function_library_find(&to->functions, d->name);
    if (e && e->region->retired && td_definition_differs(e->definition, d))
      TD_TRY(td_function_rename_old(to, d->name));
  }
  return NULL;
}

td_status *td_function_unite(td_graph *to, td_graph *from, const td_region *r) {
  TD_TRY(make_way(to, from));
  return td_function_library_unite(&to->functions, &from->functions, r);
}

void td_function_take(td_graph *to, td_graph *from, td_region *r) {
  if (from->functions.list.len == 0) return;
  td_function_library_take(&to->functions, &from->functions, r);
  td_graph_touch(to);
}

static td_status *add_one(td_graph *g, td_region *r, td_graph *one,
                          const char *name, const void *def, size_t len) {
  const char *own;
  TD_TRY(td_function_put(one, def, len, &own));
  if (strcmp(own, name) != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "the definition of function \"%.100s\" is one of "
                    "\"%.100s\"",
                    name, own);
  td_graph_lock(g);
  td_status *s = g->finalized
                     ? td_error(TD_FAILED_PRECONDITION,
                                "the graph is final, no function may be added")
                     : td_function_unite(g, one, r);
  if (td_ok(s)) td_function_take(g, one, r);
  td_graph_unlock(g);
  return s;
}

td_status *td_function_add_to(td_graph *g, td_region *r, const char *name,
                              const void *def, size_t len) {
  td_graph *one;
  TD_TRY(td_graph_new(&one));
  td_status *s = add_one(g, r, one, name, def, len);
  td_graph_release(one);
  return s;
}

td_status *td_function_add(td_graph *g, const char *name, const void *def,
                           size_t len) {
  return td_function_add_to(g, td_region_of(g), name, def, len);
}

td_status *td_function_copy(const td_graph *from, td_graph *to) {
  return td_function_library_copy(&from->functions, &to->functions, &to->root);
}

/* What nodes of a copy name, in the library that it was copied from. */
typedef struct naming {
  const td_function_library *library;
  bool *used; /* by index in it */
  bool any;
} naming;

static bool mark_named(void *arg, const td_node *n, td_func_attr *f) {
  naming *m = arg;
  ptrdiff_t i = td_function_library_index(m->library, f->name);
  (void)n;
  if (i >= 0) m->any = m->used[i] = true;
  return true;
}

td_status *td_function_copy_used(const td_graph *from, td_graph *to) {
  const td_function_library *l = &from->functions;
  size_t n = l->list.len;
  if (n == 0) return NULL;
  naming m = {.library = l, .used = td_calloc(n, sizeof *m.used)};
  size_t *order = td_calloc(n, sizeof *order);
  td_status *s = m.used && order ? NULL : td_oom();
  for (int32_t id = 0; td_ok(s) && id < td_graph_size(to); id++)
    td_node_visit_funcs(td_graph_node(to, id), mark_named, &m);
  if (td_ok(s) && m.any) s = td_function_library_order(l, order);
  if (td_ok(s) && m.any) {
    td_function_library_add_called(l, order, m.used);
    s = td_function_copy(from, to);
    if (td_ok(s)) td_function_library_sweep(&to->functions, m.used);
  }
  td_free(m.used);
  td_free(order);
  return s;
}

/* ---- what there is ------------------------------------------------------- */

const td_bytes *td_function_find(const td_graph *g, const char *name) {
  const td_function_entry *e = td_function_library_find(&g->functions, name);
  return e ? &e->definition->bytes : NULL;
}

int td_function_count(const td_graph *g) {
  return (int)g->functions.list.len;
}

const char *td_function_name(const td_graph *g, int i) {
  return i >= 0 && (size_t)i < g->functions.list.len
             ? g->functions.list.at[i].definition->name
             : NULL;
}

uint64_t td_function_serial(const td_graph *g, const char *name) {
  const td_function_entry *e = td_function_library_find(&g->functions, name);
  return e ? e->serial : 0;
}

const char *td_function_of_serial(const td_graph *g, uint64_t serial) {
  for (size_t i = 0; i < g->functions.list.len; i++)
    if (g->functions.list.at[i].serial == serial)
      return g->functions.list.at[i].definition->name;
  return NULL;
}

bool td_function_name_taken(const td_graph *g, const char *name) {
  const td_function_entry *e = td_function_library_find(&g->functions, name);
  return e && !e->region->retired;
}
