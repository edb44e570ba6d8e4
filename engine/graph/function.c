/* function.c - definitions: checked, kept, joined.
 *
 * Functions are added by joining the library of a graph that has just them: the
 * union is made and checked aside, then put in place by steps that cannot fail.
 * One of a region that is put aside gives its name away (function_rename.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/function.h"

#include <string.h>

#include "engine/graph/function_impl.h"
#include "engine/graph/graphdef_impl.h"

/* ---- a body -------------------------------------------------------------- */

typedef struct body {
  const Td__FunctionDef *def;
  const char *name;
  td_names names;  /* of arguments, then of nodes */
  uint32_t n_args; /* the first of them */
} body;

static td_status *bad(const body *b, const char *what, const char *name) {
  return td_error(TD_INVALID_ARGUMENT, "function \"%.100s\": %s \"%.100s\"",
                  b->name, what, name);
}

static td_status *add_name(const body *b, td_names *names, const char *name) {
  size_t len = strlen(name);
  if (len == 0) return bad(b, "something has no", "name");
  if (td_names_find(names, name, len))
    return bad(b, "two arguments, nodes or results are called", name);
  if (!td_names_reserve(names, 1)) return td_oom();
  td_names_add(names, name, len, NULL);
  return NULL;
}

/* "arg", "arg:0", "node:out:1", "^node" names an argument or node. */
static td_status *check_ref(const body *b, const char *ref, bool control) {
  const char *name = control ? ref + 1 : ref;
  const td_name *n = td_names_find(&b->names, name, strcspn(name, ":"));
  if (!n || (control && n < b->names.at + b->n_args))
    return bad(b, "no argument or node for input", ref);
  if (n >= b->names.at + b->n_args && !control && !strchr(name, ':'))
    return bad(b, "an output is missing in input", ref);
  return NULL;
}

static td_status *check_nodes(body *b) {
  const Td__FunctionDef *f = b->def;
  for (size_t i = 0; i < f->n_node_def; i++) {
    const Td__NodeDef *n = f->node_def[i];
    if (!*n->op) return bad(b, "no op in node", n->name);
    for (size_t k = 0; k < n->n_input; k++)
      TD_TRY(check_ref(b, n->input[k], n->input[k][0] == '^'));
  }
  return NULL;
}

/* As many entries as results, none twice, each of a result: every result is
 * given once. */
static td_status *check_ret(const body *b, td_names *results, td_names *given) {
  const Td__FunctionDef *f = b->def;
  const Td__OpDef *sig = f->signature;
  if (f->n_ret != sig->n_output_arg)
    return td_error(TD_INVALID_ARGUMENT,
                    "function \"%.100s\" gives %zu of its %zu results", b->name,
                    f->n_ret, sig->n_output_arg);
  for (size_t i = 0; i < sig->n_output_arg; i++)
    TD_TRY(add_name(b, results, sig->output_arg[i]->name));
  for (size_t i = 0; i < f->n_ret; i++) {
    const Td__NameEntry *e = f->ret[i];
    if (!td_names_find(results, e->key, strlen(e->key)))
      return bad(b, "it has no result", e->key);
    TD_TRY(add_name(b, given, e->key));
    TD_TRY(check_ref(b, e->value, false));
  }
  return NULL;
}

static td_status *check_results(const body *b) {
  const Td__FunctionDef *f = b->def;
  td_names results = {0}, given = {0};
  td_status *s = check_ret(b, &results, &given);
  td_names_deinit(&results);
  td_names_deinit(&given);
  for (size_t i = 0; i < f->n_control_ret && td_ok(s); i++) {
    const char *node = f->control_ret[i]->value;
    const td_name *n = td_names_find(&b->names, node, strlen(node));
    if (!n || n < b->names.at + b->n_args)
      s = bad(b, "no node for control result", f->control_ret[i]->key);
  }
  return s;
}

static td_status *check_body(body *b) {
  const Td__FunctionDef *f = b->def;
  for (size_t i = 0; i < f->signature->n_input_arg; i++)
    TD_TRY(add_name(b, &b->names, f->signature->input_arg[i]->name));
  b->n_args = b->names.len;
  for (size_t i = 0; i < f->n_node_def; i++)
    TD_TRY(add_name(b, &b->names, f->node_def[i]->name));
  TD_TRY(check_nodes(b));
  return check_results(b);
}

/* ---- the library --------------------------------------------------------- */

/* Index of the first whose name is not before `name`. */
static size_t place_of(const td_member *at, size_t n, const char *name) {
  size_t low = 0;
  while (low < n) {
    size_t mid = low + (n - low) / 2;
    if (strcmp(at[mid].f->name, name) < 0)
      low = mid + 1;
    else
      n = mid;
  }
  return low;
}

static td_member *find(const td_member *at, size_t n, const char *name) {
  size_t i = place_of(at, n, name);
  return i < n && strcmp(at[i].f->name, name) == 0 ? (td_member *)&at[i] : NULL;
}

td_member *td_functions_find(const td_graph *g, const char *name) {
  return find(g->functions.at, g->functions.len, name);
}

static bool same_bytes(const td_bytes *a, const td_bytes *b) {
  return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

static td_status *exists(const char *name) {
  return td_error(TD_ALREADY_EXISTS,
                  "another function \"%.100s\" exists already", name);
}

/* Takes ownership of `f` when it succeeds. */
static td_status *insert(td_graph *g, td_function *f) {
  size_t n = g->functions.len, i = place_of(g->functions.at, n, f->name);
  if (i < n && strcmp(g->functions.at[i].f->name, f->name) == 0) {
    if (!same_bytes(&g->functions.at[i].f->def, &f->def))
      return exists(f->name);
    td_function_release(f);
    return NULL;
  }
  if (!td_vec_reserve(&g->functions, 1)) return td_oom();
  td_member *at = g->functions.at + i;
  memmove(at + 1, at, (n - i) * sizeof *at);
  *at = (td_member){.f = f, .region = &g->root};
  g->functions.len++;
  return NULL;
}

static td_status *put(td_graph *g, td_arena *scratch, const void *def,
                      size_t len, const char **name) {
  Td__FunctionDef *p;
  td_function *f;
  TD_TRY(
      td_graphdef_unpack(&td__function_def__descriptor, scratch, def, len, &p));
  if (!p->signature || !*p->signature->name)
    return td_error(TD_INVALID_ARGUMENT, "a function without name");
  body b = {.def = p, .name = p->signature->name};
  td_status *s = check_body(&b);
  td_names_deinit(&b.names);
  if (!td_ok(s)) return s;
  TD_TRY(td_function_new(p, (td_bytes){def, len}, NULL, &f));
  s = insert(g, f);
  if (!td_ok(s))
    td_function_release(f);
  else if (name)
    *name = td_functions_find(g, b.name)->f->name;
  return s;
}

td_status *td_functions_put(td_graph *g, const void *def, size_t len,
                            const char **name) {
  td_arena scratch;
  td_arena_init(&scratch);
  td_status *s = put(g, &scratch, def, len, name);
  td_arena_deinit(&scratch);
  return s;
}

td_status *td_functions_set_gradient(td_graph *g, const char *name,
                                     const char *gradient) {
  td_member *m = td_functions_find(g, name);
  if (!m || !*gradient)
    return td_error(TD_INVALID_ARGUMENT,
                    "\"%.100s\" is the gradient of no function: \"%.100s\"",
                    gradient, name);
  if (m->f->gradient && strcmp(m->f->gradient, gradient) != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "function \"%.100s\" has two gradients, \"%.100s\" and "
                    "\"%.100s\"",
                    name, m->f->gradient, gradient);
  td_function *f;
  TD_TRY(td_function_with_gradient(m->f, gradient, &f));
  td_function_release(m->f);
  m->f = f;
  return NULL;
}

void td_functions_free(td_graph *g) {
  for (size_t i = 0; i < g->functions.len; i++) {
    td_function_release(g->functions.at[i].f);
    td_functions_leave(g->functions.at[i].region);
  }
  td_vec_free(&g->functions);
}

/* ---- recursion ----------------------------------------------------------- */

/* Depth first: who is open calls the one above it. */
typedef struct descent {
  const td_member *at;
  size_t n;
  size_t *order; /* NULL, or room for those that are done */
  size_t done;
  uint8_t *state; /* by index */
  struct {
    size_t function;
    size_t call; /* the next of its calls to look at */
  } * open;
  size_t depth;
} descent;

enum { UNSEEN, OPEN, DONE };

static td_status *descend(descent *d, size_t from) {
  d->depth = 0;
  d->open[d->depth].function = from;
  d->open[d->depth++].call = 0;
  d->state[from] = OPEN;
  while (d->depth > 0) {
    size_t i = d->open[d->depth - 1].function;
    const char *name = d->at[i].f->calls[d->open[d->depth - 1].call++];
    if (!name) {
      d->state[i] = DONE;
      d->depth--;
      if (d->order) d->order[d->done++] = i;
      continue;
    }
    const td_member *f = find(d->at, d->n, name);
    size_t next = f ? (size_t)(f - d->at) : 0;
    if (!f || d->state[next] == DONE) continue;
    if (d->state[next] == OPEN)
      return td_error(TD_INVALID_ARGUMENT,
                      "function \"%.100s\" calls itself, by way of \"%.100s\"",
                      name, d->at[i].f->name);
    d->open[d->depth].function = next;
    d->open[d->depth++].call = 0;
    d->state[next] = OPEN;
  }
  return NULL;
}

td_status *td_functions_order(const td_member *at, size_t n, size_t *order) {
  descent d = {.at = at, .n = n, .order = order};
  d.state = td_alloc_zero(n, sizeof *d.state);
  d.open = td_alloc_zero(n, sizeof *d.open);
  td_status *s = d.state && d.open ? NULL : td_oom();
  for (size_t i = 0; i < n && td_ok(s); i++)
    if (d.state[i] == UNSEEN) s = descend(&d, i);
  td_free(d.state);
  td_free(d.open);
  return s;
}

/* ---- joining ------------------------------------------------------------- */

td_status *td_function_copy(const td_graph *from, td_graph *to) {
  if (!td_vec_reserve(&to->functions, from->functions.len)) return td_oom();
  for (size_t i = 0; i < from->functions.len; i++)
    to->functions.at[to->functions.len++] =
        (td_member){.f = td_function_retain(from->functions.at[i].f),
                    .region = &to->root,
                    .serial = from->functions.at[i].serial};
  to->function_serials = from->function_serials;
  return NULL;
}

/* One name, two definitions, and neither can have another name? */
static bool clash(const td_member *a, const td_function *b) {
  return !same_bytes(&a->f->def, &b->def) ||
         (a->f->gradient && b->gradient &&
          strcmp(a->f->gradient, b->gradient) != 0);
}

/* Of regions put aside, those of other definitions than `from` has give their
 * names away. */
static td_status *make_way(td_graph *to, const td_graph *from) {
  for (size_t i = 0; i < from->functions.len; i++) {
    const td_function *f = from->functions.at[i].f;
    const td_member *m = td_functions_find(to, f->name);
    if (m && m->region->aside && clash(m, f))
      TD_TRY(td_functions_rename_old(to, f->name));
  }
  return NULL;
}

/* Two functions of one name must be one. It is of the one region of the two
 * that is not put aside; NULL: that of `b`. */
static td_status *unite(const td_member *a, const td_function *b,
                        const td_region *r, td_member *out) {
  if (clash(a, b)) return exists(b->name);
  *out = *a;
  if (a->region->aside && !r->aside) out->region = NULL;
  if (!a->f->gradient && b->gradient)
    return td_function_with_gradient(a->f, b->gradient, &out->f);
  td_function_retain(out->f);
  return NULL;
}

static td_status *merge(const td_graph *to, const td_graph *from,
                        const td_region *r, td_member *out, size_t *n) {
  size_t i = 0, j = 0, a = to->functions.len, b = from->functions.len;
  const td_member *x = to->functions.at, *y = from->functions.at;
  for (*n = 0; i < a || j < b; ++*n) {
    int order = i == a ? 1 : j == b ? -1 : strcmp(x[i].f->name, y[j].f->name);
    if (order == 0)
      TD_TRY(unite(&x[i++], y[j++].f, r, &out[*n]));
    else if (order < 0)
      td_function_retain((out[*n] = x[i++]).f);
    else
      out[*n] = (td_member){.f = td_function_retain(y[j++].f)};
  }
  return td_functions_order(out, *n, NULL);
}

td_status *td_functions_join(td_graph *to, td_graph *from, td_region *r) {
  size_t n = to->functions.len + from->functions.len, len = 0;
  if (from->functions.len == 0) return NULL;
  TD_TRY(make_way(to, from));
  td_member *all = td_alloc_zero(n, sizeof *all);
  td_status *s = all ? merge(to, from, r, all, &len) : td_oom();
  if (td_ok(s) && !td_vec_reserve(&to->functions, from->functions.len))
    s = td_oom();
  if (!td_ok(s)) {
    for (size_t i = 0; i < len; i++) td_function_release(all[i].f);
    td_free(all);
    return s;
  }
  td_functions_free(from);
  from->functions.at = all;
  from->functions.len = len;
  from->functions.cap = n;
  return NULL;
}

/* A region is there before another is left: they may be one. */
void td_functions_move(td_graph *to, td_graph *from, td_region *r) {
  size_t n = from->functions.len;
  if (n == 0) return;
  for (size_t i = 0; i < n; i++) {
    td_member *m = &from->functions.at[i];
    if (!m->region) m->region = r;
    if (!m->serial) m->serial = ++to->function_serials;
    td_functions_enter(m->region);
  }
  for (size_t i = 0; i < to->functions.len; i++) {
    td_function_release(to->functions.at[i].f);
    td_functions_leave(to->functions.at[i].region);
  }
  memcpy(to->functions.at, from->functions.at, n * sizeof *to->functions.at);
  to->functions.len = n;
  from->functions.len = 0;
  td_graph_touch(to);
}

/* ---- for everybody ------------------------------------------------------- */

static td_status *add_one(td_graph *g, td_region *r, td_graph *one,
                          const char *name, const void *def, size_t len) {
  const char *own;
  TD_TRY(td_functions_put(one, def, len, &own));
  if (strcmp(own, name) != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "the definition of function \"%.100s\" is one of "
                    "\"%.100s\"",
                    name, own);
  td_graph_lock(g);
  td_status *s = g->finalized
                     ? td_error(TD_FAILED_PRECONDITION,
                                "the graph is final, no function may be added")
                     : td_functions_join(g, one, r);
  if (td_ok(s)) td_functions_move(g, one, r);
  td_graph_unlock(g);
  return s;
}

td_status *td_functions_add(td_graph *g, td_region *r, const char *name,
                            const void *def, size_t len) {
  td_graph *one;
  TD_TRY(td_graph_new(&one));
  td_status *s = add_one(g, r, one, name, def, len);
  td_graph_release(one);
  return s;
}

td_status *td_function_add(td_graph *g, const char *name, const void *def,
                           size_t len) {
  return td_functions_add(g, td_graph_region(g), name, def, len);
}

const td_bytes *td_function_find(const td_graph *g, const char *name) {
  const td_member *m = td_functions_find(g, name);
  return m ? &m->f->def : NULL;
}

int td_function_count(const td_graph *g) {
  return (int)g->functions.len;
}

const char *td_function_name(const td_graph *g, int i) {
  return i >= 0 && (size_t)i < g->functions.len ? g->functions.at[i].f->name
                                                : NULL;
}

uint64_t td_function_serial(const td_graph *g, const char *name) {
  const td_member *m = td_functions_find(g, name);
  return m ? m->serial : 0;
}

const char *td_function_known(const td_graph *g, uint64_t serial) {
  for (size_t i = 0; i < g->functions.len; i++)
    if (g->functions.at[i].serial == serial) return g->functions.at[i].f->name;
  return NULL;
}

bool td_function_taken(const td_graph *g, const char *name) {
  const td_member *m = td_functions_find(g, name);
  return m && !m->region->aside;
}
