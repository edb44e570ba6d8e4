/* function_check.c - is a definition whole?
 *
 * Every result is given, every input is an argument or a node of the body, and
 * no node is an end of a part.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/graphdef/function_impl.h"

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

/* "arg", "arg:0", "node:out:1", "^node", "^arg" names an argument or node. */
static td_status *check_ref(const body *b, const char *ref, bool control) {
  const char *name = control ? ref + 1 : ref;
  const td_name *n = td_names_find(&b->names, name, strcspn(name, ":"));
  if (!n) return bad(b, "no argument or node for input", ref);
  if (n >= b->names.at + b->n_args && !control && !strchr(name, ':'))
    return bad(b, "an output is missing in input", ref);
  return NULL;
}

static td_status *check_nodes(body *b) {
  const Td__FunctionDef *f = b->def;
  for (size_t i = 0; i < f->n_node_def; i++) {
    const Td__NodeDef *n = f->node_def[i];
    const td_op *op = td_op_find(n->op);
    if (!*n->op) return bad(b, "no op in node", n->name);
    if (op && td_op_is_end(op->kind))
      return bad(b, "only a part of a plan has the op of node", n->name);
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

td_status *td_function_check(const Td__FunctionDef *def) {
  if (!def->signature || !*def->signature->name)
    return td_error(TD_INVALID_ARGUMENT, "a function without name");
  body b = {.def = def, .name = def->signature->name};
  td_status *s = check_body(&b);
  td_names_deinit(&b.names);
  return s;
}
