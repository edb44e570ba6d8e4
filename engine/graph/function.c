/* function.c - definitions: checked, kept, joined.
 *
 * The bytes are kept as they came, so that what leaves equals what arrived;
 * beside them only what the checks need again. Functions are added by joining
 * the library of a graph that has just them: the union is made and checked
 * aside, then put in place by steps that cannot fail.
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

/* ---- what it calls ------------------------------------------------------- */

typedef struct calls {
  td_arena *arena; /* the graph's */
  const char **at;
  size_t len;
} calls;

static td_status *add_call(calls *c, const char *name) {
  c->at[c->len] = td_arena_str(c->arena, name);
  return c->at[c->len++] ? NULL : td_oom();
}

static size_t count_funcs(const Td__AttrValue *v) {
  if (!v) return 0;
  if (v->value_case == TD__ATTR_VALUE__VALUE_FUNC) return 1;
  return v->value_case == TD__ATTR_VALUE__VALUE_LIST ? v->list->n_func : 0;
}

static td_status *add_funcs(calls *c, const Td__AttrValue *v) {
  if (!v) return NULL;
  if (v->value_case == TD__ATTR_VALUE__VALUE_FUNC)
    return add_call(c, v->func->name);
  if (v->value_case != TD__ATTR_VALUE__VALUE_LIST) return NULL;
  for (size_t i = 0; i < v->list->n_func; i++)
    TD_TRY(add_call(c, v->list->func[i]->name));
  return NULL;
}

/* An op that is registered is no function. */
static bool is_call(const Td__NodeDef *n) {
  return !td_op_find(n->op);
}

static td_status *find_calls(td_arena *arena, const Td__FunctionDef *f,
                             const char ***out) {
  calls c = {.arena = arena};
  size_t count = 1;
  for (size_t i = 0; i < f->n_node_def; i++) {
    const Td__NodeDef *n = f->node_def[i];
    count += is_call(n);
    for (size_t k = 0; k < n->n_attr; k++)
      count += count_funcs(n->attr[k]->value);
  }
  c.at = td_arena_alloc(arena, count * sizeof *c.at);
  if (!c.at) return td_oom();
  for (size_t i = 0; i < f->n_node_def; i++) {
    const Td__NodeDef *n = f->node_def[i];
    if (is_call(n)) TD_TRY(add_call(&c, n->op));
    for (size_t k = 0; k < n->n_attr; k++)
      TD_TRY(add_funcs(&c, n->attr[k]->value));
  }
  *out = c.at;
  return NULL;
}

/* ---- the library --------------------------------------------------------- */

/* Index of the first whose name is not before `name`. */
static size_t place_of(const td_function *at, size_t n, const char *name) {
  size_t low = 0;
  while (low < n) {
    size_t mid = low + (n - low) / 2;
    if (strcmp(at[mid].name, name) < 0)
      low = mid + 1;
    else
      n = mid;
  }
  return low;
}

static td_function *find(const td_function *at, size_t n, const char *name) {
  size_t i = place_of(at, n, name);
  return i < n && strcmp(at[i].name, name) == 0 ? (td_function *)&at[i] : NULL;
}

static bool same_bytes(const td_bytes *a, const td_bytes *b) {
  return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

static td_status *exists(const char *name) {
  return td_error(TD_ALREADY_EXISTS,
                  "another function \"%.100s\" exists already", name);
}

static td_status *insert(td_graph *g, const td_function *f) {
  size_t n = g->functions.len, i = place_of(g->functions.at, n, f->name);
  if (i < n && strcmp(g->functions.at[i].name, f->name) == 0)
    return same_bytes(&g->functions.at[i].def, &f->def) ? NULL
                                                        : exists(f->name);
  if (!td_vec_reserve(&g->functions, 1)) return td_oom();
  td_function *at = g->functions.at + i;
  memmove(at + 1, at, (n - i) * sizeof *at);
  *at = *f;
  g->functions.len++;
  return NULL;
}

static td_status *put(td_graph *g, td_arena *scratch, const void *def,
                      size_t len, const char **name) {
  Td__FunctionDef *p;
  TD_TRY(
      td_graphdef_unpack(&td__function_def__descriptor, scratch, def, len, &p));
  if (!p->signature || !*p->signature->name)
    return td_error(TD_INVALID_ARGUMENT, "a function without name");
  body b = {.def = p, .name = p->signature->name};
  td_status *s = check_body(&b);
  td_names_deinit(&b.names);
  if (!td_ok(s)) return s;
  td_function f = {.name = td_arena_str(&g->root.arena, b.name),
                   .def = {td_arena_strn(&g->root.arena, def, len), len}};
  if (!f.name || !f.def.at) return td_oom();
  TD_TRY(find_calls(&g->root.arena, p, &f.calls));
  if (name) *name = f.name;
  return insert(g, &f);
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
  td_function *f = find(g->functions.at, g->functions.len, name);
  if (!f || !*gradient)
    return td_error(TD_INVALID_ARGUMENT,
                    "\"%.100s\" is the gradient of no function: \"%.100s\"",
                    gradient, name);
  if (f->gradient && strcmp(f->gradient, gradient) != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "function \"%.100s\" has two gradients, \"%.100s\" and "
                    "\"%.100s\"",
                    name, f->gradient, gradient);
  f->gradient = td_arena_str(&g->root.arena, gradient);
  return f->gradient ? NULL : td_oom();
}

/* ---- recursion ----------------------------------------------------------- */

/* Depth first: who is open calls the one above it. */
typedef struct descent {
  const td_function *at;
  size_t n;
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
    const char *name = d->at[i].calls[d->open[d->depth - 1].call++];
    if (!name) {
      d->state[i] = DONE;
      d->depth--;
      continue;
    }
    const td_function *f = find(d->at, d->n, name);
    size_t next = f ? (size_t)(f - d->at) : 0;
    if (!f || d->state[next] == DONE) continue;
    if (d->state[next] == OPEN)
      return td_error(TD_INVALID_ARGUMENT,
                      "function \"%.100s\" calls itself, by way of \"%.100s\"",
                      name, d->at[i].name);
    d->open[d->depth].function = next;
    d->open[d->depth++].call = 0;
    d->state[next] = OPEN;
  }
  return NULL;
}

td_status *td_functions_check(const td_function *at, size_t n) {
  descent d = {.at = at, .n = n};
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
  td_arena *a = &to->root.arena;
  if (!td_vec_reserve(&to->functions, from->functions.len)) return td_oom();
  for (size_t i = 0; i < from->functions.len; i++) {
    const td_function *f = &from->functions.at[i];
    size_t n = 0;
    while (f->calls[n]) n++;
    td_function copy = {
        .name = td_arena_str(a, f->name),
        .def = {td_arena_strn(a, f->def.at, f->def.len), f->def.len},
        .calls = td_arena_alloc(a, (n + 1) * sizeof(char *))};
    if (f->gradient) copy.gradient = td_arena_str(a, f->gradient);
    if (!copy.name || !copy.def.at || !copy.calls ||
        (f->gradient && !copy.gradient))
      return td_oom();
    while (n-- > 0)
      if (!(copy.calls[n] = td_arena_str(a, f->calls[n]))) return td_oom();
    to->functions.at[to->functions.len++] = copy;
  }
  return NULL;
}

/* Two functions of one name must be one. */
static td_status *unite(const td_function *a, const td_function *b,
                        td_function *out) {
  bool gradients_differ =
      a->gradient && b->gradient && strcmp(a->gradient, b->gradient) != 0;
  if (!same_bytes(&a->def, &b->def) || gradients_differ) return exists(a->name);
  *out = *a;
  if (!out->gradient) out->gradient = b->gradient;
  return NULL;
}

static td_status *merge(const td_graph *to, const td_graph *from,
                        td_function *out, size_t *n) {
  size_t i = 0, j = 0, a = to->functions.len, b = from->functions.len;
  const td_function *x = to->functions.at, *y = from->functions.at;
  for (*n = 0; i < a || j < b; ++*n) {
    int order = i == a ? 1 : j == b ? -1 : strcmp(x[i].name, y[j].name);
    if (order == 0)
      TD_TRY(unite(&x[i++], &y[j++], &out[*n]));
    else
      out[*n] = order < 0 ? x[i++] : y[j++];
  }
  return td_functions_check(out, *n);
}

td_status *td_functions_join(td_graph *to, td_graph *from) {
  size_t n = to->functions.len + from->functions.len;
  if (from->functions.len == 0) return NULL;
  td_function *all = td_alloc_zero(n, sizeof *all);
  td_status *s = all ? merge(to, from, all, &n) : td_oom();
  if (td_ok(s) && !td_vec_reserve(&to->functions, from->functions.len))
    s = td_oom();
  if (td_ok(s)) {
    td_free(from->functions.at);
    from->functions.at = all;
    from->functions.len = from->functions.cap = n;
  } else {
    td_free(all);
  }
  return s;
}

void td_functions_move(td_graph *to, td_graph *from) {
  size_t n = from->functions.len;
  if (n == 0) return;
  memcpy(to->functions.at, from->functions.at, n * sizeof *to->functions.at);
  to->functions.len = n;
  from->functions.len = 0;
  td_graph_touch(to);
}

/* ---- for everybody ------------------------------------------------------- */

static td_status *add_one(td_graph *g, td_graph *one, const char *name,
                          const void *def, size_t len) {
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
                     : td_functions_join(g, one);
  if (td_ok(s)) {
    td_arena_join(&g->root.arena, &one->root.arena);
    td_functions_move(g, one);
  }
  td_graph_unlock(g);
  return s;
}

td_status *td_function_add(td_graph *g, const char *name, const void *def,
                           size_t len) {
  td_graph *one;
  TD_TRY(td_graph_new(&one));
  td_status *s = add_one(g, one, name, def, len);
  td_graph_release(one);
  return s;
}

const td_bytes *td_function_find(const td_graph *g, const char *name) {
  const td_function *f = find(g->functions.at, g->functions.len, name);
  return f ? &f->def : NULL;
}

int td_function_count(const td_graph *g) {
  return (int)g->functions.len;
}

const char *td_function_name(const td_graph *g, int i) {
  return i >= 0 && (size_t)i < g->functions.len ? g->functions.at[i].name
                                                : NULL;
}
