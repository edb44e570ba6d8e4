/* function_make.c - nodes become a definition.
 *
 * The body is what results and controls need, down to the arguments: what lies
 * behind an argument stays out, so that a function may begin in the middle of a
 * graph. Nodes keep their order and names, which equal graphs share: equal
 * functions have equal bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/graphdef/function_impl.h"
#include "engine/graphdef/graphdef_impl.h"

typedef struct making {
  const td_graph *body;
  const td_function_spec *spec;
  td_arena arena;
  int32_t *first_arg; /* by node id: its first argument + 1, 0: none */
  int32_t *next_arg;  /* by argument: the next of that node + 1 */
  bool *keep;         /* by node id */
  int32_t *stack;
  int32_t depth;
  Td__FunctionDef def;
  Td__OpDef signature;
} making;

static td_status *bad(const making *m, const char *what, const char *name) {
  return td_error(TD_INVALID_ARGUMENT, "function \"%.100s\": %s \"%.100s\"",
                  m->spec->name, what, name);
}

/* ---- which nodes --------------------------------------------------------- */

static int32_t arg_of(const making *m, td_edge e) {
  for (int32_t i = m->first_arg[e.node->id]; i; i = m->next_arg[i - 1])
    if (m->spec->args[i - 1].port == e.port) return i - 1;
  return -1;
}

/* What makes an argument has run before the call. */
static bool ran_before(const making *m, const td_node *before) {
  return m->first_arg[before->id] != 0;
}

static void want(making *m, const td_node *n) {
  if (m->keep[n->id]) return;
  m->keep[n->id] = true;
  m->stack[m->depth++] = n->id;
}

static td_status *check_edge(const making *m, td_edge e, const char *what) {
  if (e.node && e.node->graph == m->body && e.port >= 0 &&
      e.port < e.node->n_out)
    return NULL;
  return bad(m, what, e.node ? e.node->name : "");
}

static td_status *follow(making *m, const td_node *n) {
  if (n->op->kind == TD_OP_PLACEHOLDER)
    return bad(m, "it needs a placeholder that is no argument,", n->name);
  for (int i = 0; i < n->n_in; i++) {
    if (!n->in[i].node) return bad(m, "a loop that is not closed, at", n->name);
    if (arg_of(m, n->in[i]) < 0) want(m, n->in[i].node);
  }
  for (int i = 0; i < n->n_control; i++)
    if (!ran_before(m, n->control[i])) want(m, n->control[i]);
  return NULL;
}

static td_status *choose(making *m) {
  const td_function_spec *f = m->spec;
  for (int i = 0; i < f->n_args; i++) {
    TD_TRY(check_edge(m, f->args[i], "no such argument:"));
    int32_t *first = &m->first_arg[f->args[i].node->id];
    m->next_arg[i] = *first;
    *first = i + 1;
  }
  for (int i = 0; i < f->n_results; i++) {
    TD_TRY(check_edge(m, f->results[i], "no such result:"));
    if (arg_of(m, f->results[i]) < 0) want(m, f->results[i].node);
  }
  for (int i = 0; i < f->n_controls; i++) want(m, f->controls[i]);
  while (m->depth > 0)
    TD_TRY(follow(m, td_graph_node(m->body, m->stack[--m->depth])));
  return NULL;
}

/* ---- the message --------------------------------------------------------- */

static td_status *text(making *m, char **out, const char *before,
                       const char *name, const char *port, int k) {
  size_t size = strlen(before) + strlen(name) + strlen(port) + 16;
  *out = td_arena_alloc(&m->arena, size);
  if (!*out) return td_oom();
  if (k < 0)
    snprintf(*out, size, "%s%s", before, name);
  else
    snprintf(*out, size, "%s%s:%s:%d", before, name, port, k);
  return NULL;
}

/* "arg", or "node:output:1". */
static td_status *reference(making *m, td_edge e, char **out) {
  int32_t arg = arg_of(m, e);
  if (arg >= 0) return text(m, out, "", m->spec->arg_names[arg], "", -1);
  const td_arg *a = td_node_out_arg(e.node, e.port);
  int begin, count;
  td_node_out_range(e.node, (int)(a - e.node->op->out), &begin, &count);
  return text(m, out, "", e.node->name, a->name, e.port - begin);
}

static td_status *node_out(making *m, const td_node *n, Td__NodeDef *p) {
  size_t count = (size_t)n->n_in + (size_t)n->n_control;
  td__node_def__init(p);
  p->name = (char *)n->name;
  p->op = (char *)n->op->type;
  p->device = (char *)n->device;
  p->input = td_arena_alloc(&m->arena, (count + 1) * sizeof *p->input);
  if (!p->input) return td_oom();
  for (int i = 0; i < n->n_in; i++)
    TD_TRY(reference(m, n->in[i], &p->input[p->n_input++]));
  for (int i = 0; i < n->n_control; i++)
    if (!ran_before(m, n->control[i]))
      TD_TRY(
          text(m, &p->input[p->n_input++], "^", n->control[i]->name, "", -1));
  return td_graphdef_attrs_out(&m->arena, n, p);
}

static td_status *nodes_out(making *m) {
  int32_t n = td_graph_size(m->body);
  Td__FunctionDef *f = &m->def;
  f->node_def = td_arena_alloc(&m->arena, ((size_t)n + 1) * sizeof(void *));
  if (!f->node_def) return td_oom();
  for (int32_t id = 0; id < n; id++) {
    const td_node *node = td_graph_node(m->body, id);
    if (!m->keep[id]) continue;
    Td__NodeDef *p = td_arena_alloc(&m->arena, sizeof *p);
    if (!p) return td_oom();
    TD_TRY(td_node_blame(node_out(m, node, p), node));
    f->node_def[f->n_node_def++] = p;
    if (node->op->flags & TD_STATEFUL) m->signature.is_stateful = true;
  }
  return NULL;
}

static td_status *add_arg(making *m, Td__OpDef__ArgDef ***list, size_t *n,
                          const char *name, td_edge e) {
  Td__OpDef__ArgDef *p = td_arena_alloc(&m->arena, sizeof *p);
  if (!p) return td_oom();
  td__op_def__arg_def__init(p);
  p->name = (char *)name;
  p->type = (int32_t)td_edge_dtype(e);
  (*list)[(*n)++] = p;
  return NULL;
}

static td_status *add_entry(making *m, Td__NameEntry ***list, size_t *n,
                            const char *key, const char *value) {
  Td__NameEntry *p = td_arena_alloc(&m->arena, sizeof *p);
  if (!p) return td_oom();
  td__name_entry__init(p);
  p->key = (char *)key;
  p->value = (char *)value;
  (*list)[(*n)++] = p;
  return NULL;
}

static td_status *reserve(making *m) {
  const td_function_spec *f = m->spec;
  Td__OpDef *sig = &m->signature;
  size_t in = (size_t)f->n_args, out = (size_t)f->n_results;
  size_t controls = (size_t)f->n_controls;
  td__function_def__init(&m->def);
  td__op_def__init(sig);
  m->def.signature = sig;
  sig->name = (char *)f->name;
  sig->input_arg = td_arena_alloc(&m->arena, (in + 1) * sizeof(void *));
  sig->output_arg = td_arena_alloc(&m->arena, (out + 1) * sizeof(void *));
  sig->control_output =
      td_arena_alloc(&m->arena, (controls + 1) * sizeof(void *));
  m->def.ret = td_arena_alloc(&m->arena, (out + 1) * sizeof(void *));
  m->def.control_ret =
      td_arena_alloc(&m->arena, (controls + 1) * sizeof(void *));
  return sig->input_arg && sig->output_arg && sig->control_output &&
                 m->def.ret && m->def.control_ret
             ? NULL
             : td_oom();
}

static td_status *write(making *m) {
  const td_function_spec *f = m->spec;
  Td__OpDef *sig = &m->signature;
  TD_TRY(reserve(m));
  for (int i = 0; i < f->n_args; i++)
    TD_TRY(add_arg(m, &sig->input_arg, &sig->n_input_arg, f->arg_names[i],
                   f->args[i]));
  for (int i = 0; i < f->n_results; i++) {
    char *name, *from, k[16];
    snprintf(k, sizeof k, "%d", i);
    TD_TRY(text(m, &name, "out", k, "", -1));
    TD_TRY(reference(m, f->results[i], &from));
    TD_TRY(
        add_arg(m, &sig->output_arg, &sig->n_output_arg, name, f->results[i]));
    TD_TRY(add_entry(m, &m->def.ret, &m->def.n_ret, name, from));
  }
  for (int i = 0; i < f->n_controls; i++) {
    const char *name = f->controls[i]->name;
    sig->control_output[sig->n_control_output++] = (char *)name;
    TD_TRY(
        add_entry(m, &m->def.control_ret, &m->def.n_control_ret, name, name));
  }
  return nodes_out(m);
}

/* ---- the whole ----------------------------------------------------------- */

static td_status *add_called(const making *m, td_graph *g, td_region *r) {
  const td_graph *body = m->body;
  for (size_t i = 0; i < body->functions.list.len; i++) {
    const td_definition *d = body->functions.list.at[i].definition;
    const td_bytes *have = td_function_find(g, d->name);
    if (have && have->len == d->bytes.len &&
        !memcmp(have->at, d->bytes.at, d->bytes.len))
      continue; /* it stays of the region it is of */
    TD_TRY(td_function_add_to(g, r, d->name, d->bytes.at, d->bytes.len));
  }
  return NULL;
}

static td_status *make(making *m, td_graph *g) {
  size_t n = (size_t)td_graph_size(m->body);
  char *bytes = NULL;
  size_t len = 0;
  m->first_arg = td_arena_alloc(&m->arena, (n + 1) * sizeof *m->first_arg);
  m->next_arg = td_arena_alloc(&m->arena, ((size_t)m->spec->n_args + 1) *
                                              sizeof *m->next_arg);
  m->keep = td_arena_alloc(&m->arena, (n + 1) * sizeof *m->keep);
  m->stack = td_arena_alloc(&m->arena, (n + 1) * sizeof *m->stack);
  if (!m->first_arg || !m->next_arg || !m->keep || !m->stack) return td_oom();
  TD_TRY(choose(m));
  TD_TRY(write(m));
  td_region *r = m->spec->region;
  if (!r || r->graph != g) r = td_region_of(g);
  TD_TRY(add_called(m, g, r));
  TD_TRY(td_graphdef_pack(&m->def.base, &bytes, &len));
  td_status *s = td_function_add_to(g, r, m->spec->name, bytes, len);
  td_free(bytes);
  return s;
}

td_status *td_function_make(const td_graph *body, const td_function_spec *spec,
                            td_graph *g) {
  making m = {.body = body, .spec = spec};
  td_arena_init(&m.arena);
  td_status *s = make(&m, g);
  td_arena_deinit(&m.arena);
  return s;
}
