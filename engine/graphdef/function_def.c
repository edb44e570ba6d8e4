/* function_def.c - from a FunctionDef to the definition that a graph keeps.
 *
 * The bytes are kept as they came, so that what leaves equals what arrived;
 * beside them only the names they call. Another name means other bytes, so a
 * new definition is made: plans go on with the one they have.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/graphdef/function_impl.h"
#include "engine/graphdef/graphdef_impl.h"
#include "engine/graph/op.h"

/* ---- names of functions in a definition ---------------------------------- */

/* Looks at a name, and may put another in its place. */
typedef void visit(void *arg, char **name);

/* Functions in attributes of one another are as deep as the reader allows. */
static void visit_value(const Td__AttrValue *v, visit *f, void *arg);

static void visit_func(Td__NameAttrList *func, visit *f, void *arg) {
  f(arg, &func->name);
  for (size_t i = 0; i < func->n_attr; i++)
    visit_value(func->attr[i]->value, f, arg);
}

static void visit_value(const Td__AttrValue *v, visit *f, void *arg) {
  if (!v) return;
  if (v->value_case == TD__ATTR_VALUE__VALUE_FUNC)
    visit_func(v->func, f, arg);
  else if (v->value_case == TD__ATTR_VALUE__VALUE_LIST)
    for (size_t i = 0; i < v->list->n_func; i++)
      visit_func(v->list->func[i], f, arg);
}

/* An op that is registered is no function. */
static void visit_calls(const Td__FunctionDef *p, visit *f, void *arg) {
  for (size_t i = 0; i < p->n_node_def; i++) {
    Td__NodeDef *n = p->node_def[i];
    if (!td_op_find(n->op)) f(arg, &n->op);
    for (size_t k = 0; k < n->n_attr; k++)
      visit_value(n->attr[k]->value, f, arg);
  }
}

/* ---- made ---------------------------------------------------------------- */

static void count_one(void *arg, char **name) {
  (void)name;
  ++*(size_t *)arg;
}

static void keep_one(void *arg, char **name) {
  const char ***at = arg;
  *(*at)++ = *name;
}

td_status *td_function_define(const Td__FunctionDef *def, td_bytes bytes,
                              const char *gradient, td_arena *scratch,
                              td_definition **out) {
  size_t n = 0;
  visit_calls(def, count_one, &n);
  const char **calls = td_arena_alloc(scratch, (n + 1) * sizeof *calls);
  const char **end = calls;
  if (!calls) return td_oom();
  visit_calls(def, keep_one, &end);
  return td_definition_new(def->signature->name, bytes, gradient, calls, out);
}

/* ---- with another name --------------------------------------------------- */

typedef struct name_change {
  const char *from;
  char *to;
} name_change;

static void rename_one(void *arg, char **name) {
  const name_change *r = arg;
  if (strcmp(*name, r->from) == 0) *name = r->to;
}

static td_status *renamed(const td_definition *d, name_change *r,
                          td_arena *scratch, td_definition **out) {
  Td__FunctionDef *def;
  char *bytes = NULL;
  size_t len = 0;
  const char *gradient = d->gradient;
  if (gradient && strcmp(gradient, r->from) == 0) gradient = r->to;
  TD_TRY(td_graphdef_unpack(&td__function_def__descriptor, scratch, d->bytes.at,
                            d->bytes.len, &def));
  rename_one(r, &def->signature->name);
  visit_calls(def, rename_one, r);
  TD_TRY(td_graphdef_pack(&def->base, &bytes, &len));
  td_status *s =
      td_function_define(def, (td_bytes){bytes, len}, gradient, scratch, out);
  td_free(bytes);
  return s;
}

td_status *td_function_renamed(const td_definition *d, const char *from,
                               const char *to, td_definition **out) {
  name_change r = {from, (char *)to};
  td_arena scratch;
  td_arena_init(&scratch);
  td_status *s = renamed(d, &r, &scratch, out);
  td_arena_deinit(&scratch);
  return s;
}
