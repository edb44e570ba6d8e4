/* function_passes.c - what is known of a function without its body's nodes.
 *
 * A loop's body hands on what it needs but does not change: weights, handles of
 * variables. The planner asks before it makes the loop, so that these are
 * constants of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/graphdef/function_impl.h"
#include "engine/graphdef/graphdef_impl.h"

static td_status *unpack(const td_graph *g, td_arena *arena, const char *name,
                         Td__FunctionDef **out) {
  const td_bytes *def = td_function_find(g, name);
  if (!def)
    return td_error(TD_NOT_FOUND, "the graph has no function \"%.100s\"", name);
  return td_graphdef_unpack(&td__function_def__descriptor, arena, def->at,
                            def->len, out);
}

/* ---- arguments handed on ------------------------------------------------- */

/* The Identity that gives `ref`, or NULL. */
static const Td__NodeDef *identity_of(const Td__FunctionDef *f,
                                      const td_names *nodes, const char *ref) {
  const td_name *n = td_names_find(nodes, ref, strcspn(ref, ":"));
  const Td__NodeDef *def = n ? f->node_def[n - nodes->at] : NULL;
  return def && strcmp(def->op, "Identity") == 0 && def->n_input == 1 ? def
                                                                      : NULL;
}

/* What Identities hand on as `ref`, behind at most *steps of them, which are
 * counted down: they may go in a circle, and many results by one chain. */
static const char *behind(const Td__FunctionDef *f, const td_names *nodes,
                          const char *ref, size_t *steps) {
  const Td__NodeDef *n;
  while (*steps > 0 && (n = identity_of(f, nodes, ref))) {
    ref = n->input[0];
    --*steps;
  }
  return ref;
}

static const char *result_of(const Td__FunctionDef *f, size_t i) {
  for (size_t r = 0; r < f->n_ret; r++)
    if (strcmp(f->ret[r]->key, f->signature->output_arg[i]->name) == 0)
      return f->ret[r]->value;
  return "";
}

static bool is_single(const Td__OpDef__ArgDef *a) {
  return !*a->number_attr && !*a->type_list_attr;
}

/* Is `ref` the argument, "x" or "x:0"? */
static bool names(const char *ref, const char *arg) {
  size_t len = strlen(arg);
  return strncmp(ref, arg, len) == 0 &&
         (!ref[len] || strcmp(ref + len, ":0") == 0);
}

static bool all_single(const Td__OpDef *sig, size_t n) {
  if (sig->n_input_arg != n || sig->n_output_arg != n) return false;
  for (size_t i = 0; i < n; i++)
    if (!is_single(sig->input_arg[i]) || !is_single(sig->output_arg[i]))
      return false;
  return true;
}

static td_status *find_passed(const Td__FunctionDef *f, size_t n, bool *same) {
  enum { STEPS = 1 << 20 };
  const Td__OpDef *sig = f->signature;
  td_names nodes = {0};
  size_t steps = STEPS;
  if (!all_single(sig, n)) return NULL;
  if (!td_names_reserve(&nodes, f->n_node_def)) return td_oom();
  for (size_t i = 0; i < f->n_node_def; i++)
    td_names_add(&nodes, f->node_def[i]->name, strlen(f->node_def[i]->name),
                 NULL);
  for (size_t i = 0; i < n; i++)
    same[i] = names(behind(f, &nodes, result_of(f, i), &steps),
                    sig->input_arg[i]->name);
  td_names_deinit(&nodes);
  return NULL;
}

td_status *td_function_passes(const td_graph *g, const char *name, int n,
                              bool *same) {
  Td__FunctionDef *f = NULL;
  td_arena arena;
  td_arena_init(&arena);
  td_status *s = unpack(g, &arena, name, &f);
  for (int i = 0; i < n; i++) same[i] = false;
  if (td_ok(s)) s = find_passed(f, (size_t)n, same);
  td_arena_deinit(&arena);
  return s;
}

/* ---- the one result ------------------------------------------------------ */

static int32_t type_of(const Td__OpDef__ArgDef *a, const td_func_attr *f) {
  if (!*a->type_attr) return (int32_t)a->type;
  for (int i = 0; i < f->n_attrs; i++)
    if (strcmp(f->attr_names[i], a->type_attr) == 0 &&
        f->attrs[i].kind == TD_ATTR_TYPE)
      return (int32_t)f->attrs[i].type;
  return TD_INVALID;
}

static td_status *one_result(const Td__FunctionDef *def, const td_func_attr *f,
                             td_dtype *out) {
  const Td__OpDef *sig = def->signature;
  if (sig->n_output_arg != 1 || !is_single(sig->output_arg[0]))
    return td_error(TD_INVALID_ARGUMENT,
                    "function \"%.100s\" is a condition: it must give one "
                    "tensor, gives %zu",
                    f->name, sig->n_output_arg);
  int32_t type = type_of(sig->output_arg[0], f);
  if (type <= 0 || type >= TD_DTYPES)
    return td_error(TD_INVALID_ARGUMENT,
                    "function \"%.100s\" gives a tensor of no known dtype",
                    f->name);
  *out = (td_dtype)type;
  return NULL;
}

td_status *td_function_result_type(const td_graph *g, const td_func_attr *f,
                                   td_dtype *out) {
  Td__FunctionDef *def = NULL;
  td_arena arena;
  td_arena_init(&arena);
  td_status *s = unpack(g, &arena, f->name, &def);
  if (td_ok(s)) s = one_result(def, f, out);
  td_arena_deinit(&arena);
  return s;
}
