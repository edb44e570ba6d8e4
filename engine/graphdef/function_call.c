/* function_call.c - signatures of functions, and calls by name.
 *
 * A GraphDef calls a function in two ways: by a PartitionedCall that names it,
 * or by a node whose op is the function's name. The second is rewritten to the
 * first as it is read, so that the graph knows one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/graphdef/function_body_impl.h"
#include "engine/graphdef/function_impl.h"

/* ---- arguments ----------------------------------------------------------- */

static const Td__AttrValue *attr_of(Td__AttrEntry *const *attr, size_t n,
                                    const char *name) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(attr[i]->key, name) == 0) return attr[i]->value;
  return NULL;
}

static td_status *no_attr(const Td__OpDef__ArgDef *arg, const char *name,
                          const char *kind) {
  return td_error(TD_INVALID_ARGUMENT,
                  "a call of a function whose argument \"%.100s\" needs "
                  "attribute \"%.100s\", %s",
                  arg->name, name, kind);
}

/* Beyond this no call is one that somebody meant. */
enum { MAX_TENSORS = 1 << 20 };

static td_status *list_of(const Td__OpDef__ArgDef *arg, const Td__AttrValue *v,
                          td_function_arg *out) {
  if (!v || v->value_case != TD__ATTR_VALUE__VALUE_LIST)
    return no_attr(arg, arg->type_list_attr, "a list of dtypes");
  *out = (td_function_arg){.count = v->list->n_type, .types = v->list->type};
  return NULL;
}

td_status *td_function_arg_of(td_arena *arena, const Td__OpDef__ArgDef *arg,
                              Td__AttrEntry *const *attr, size_t n_attr,
                              td_function_arg *out) {
  int32_t type = arg->type;
  *out = (td_function_arg){.count = 1};
  if (*arg->type_list_attr)
    return list_of(arg, attr_of(attr, n_attr, arg->type_list_attr), out);
  if (*arg->type_attr) {
    const Td__AttrValue *v = attr_of(attr, n_attr, arg->type_attr);
    if (!v || v->value_case != TD__ATTR_VALUE__VALUE_TYPE)
      return no_attr(arg, arg->type_attr, "a dtype");
    type = v->type;
  }
  if (*arg->number_attr) {
    const Td__AttrValue *v = attr_of(attr, n_attr, arg->number_attr);
    if (!v || v->value_case != TD__ATTR_VALUE__VALUE_I || v->i < 0 ||
        v->i > MAX_TENSORS)
      return no_attr(arg, arg->number_attr, "a number of tensors");
    out->count = (size_t)v->i;
  }
  int32_t *types = td_arena_alloc(arena, (out->count + 1) * sizeof *types);
  if (!types) return td_oom();
  for (size_t i = 0; i < out->count; i++) types[i] = type;
  out->types = types;
  return NULL;
}

/* ---- calls by name ------------------------------------------------------- */

static Td__AttrEntry *new_entry(td_arena *arena, const char *key) {
  Td__AttrEntry *e = td_arena_alloc(arena, sizeof *e);
  Td__AttrValue *v = td_arena_alloc(arena, sizeof *v);
  if (!e || !v) return NULL;
  td__attr_entry__init(e);
  td__attr_value__init(v);
  e->key = (char *)key;
  e->value = v;
  return e;
}

/* The dtypes of all `args`, as attribute `key`. */
static td_status *add_types(td_arena *arena, const char *key,
                            Td__OpDef__ArgDef *const *args, size_t n,
                            const Td__NodeDef *from, Td__NodeDef *to) {
  Td__AttrEntry *e = new_entry(arena, key);
  Td__ListValue *list = td_arena_alloc(arena, sizeof *list);
  td_function_arg *each = td_arena_alloc(arena, (n + 1) * sizeof *each);
  size_t total = 0;
  if (!e || !list || !each) return td_oom();
  for (size_t i = 0; i < n; i++) {
    TD_TRY(
        td_function_arg_of(arena, args[i], from->attr, from->n_attr, &each[i]));
    total += each[i].count;
  }
  td__list_value__init(list);
  list->type = td_arena_alloc(arena, (total + 1) * sizeof *list->type);
  if (!list->type) return td_oom();
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < each[i].count; k++)
      list->type[list->n_type++] = each[i].types[k];
  e->value->value_case = TD__ATTR_VALUE__VALUE_LIST;
  e->value->list = list;
  to->attr[to->n_attr++] = e;
  return NULL;
}

/* Attribute f: the function, with the call's attributes as its own. */
static td_status *add_func(td_arena *arena, const Td__NodeDef *from,
                           Td__NodeDef *to) {
  Td__AttrEntry *e = new_entry(arena, "f");
  Td__NameAttrList *f = td_arena_alloc(arena, sizeof *f);
  if (!e || !f) return td_oom();
  td__name_attr_list__init(f);
  f->name = from->op;
  f->attr = td_arena_alloc(arena, (from->n_attr + 1) * sizeof *f->attr);
  if (!f->attr) return td_oom();
  for (size_t i = 0; i < from->n_attr; i++)
    if (from->attr[i]->key[0] != '_') f->attr[f->n_attr++] = from->attr[i];
  e->value->value_case = TD__ATTR_VALUE__VALUE_FUNC;
  e->value->func = f;
  to->attr[to->n_attr++] = e;
  return NULL;
}

td_status *td_function_as_call(td_arena *arena, const td_bytes *f,
                               const Td__NodeDef *n, Td__NodeDef **out,
                               const Td__OpDef **signature) {
  Td__FunctionDef *def;
  TD_TRY(td_graphdef_unpack(&td__function_def__descriptor, arena, f->at, f->len,
                            &def));
  const Td__OpDef *sig = def->signature;
  if (signature) *signature = sig;
  Td__NodeDef *call = td_arena_alloc(arena, sizeof *call);
  if (!call) return td_oom();
  *call = *n;
  call->op = (char *)(sig->is_stateful ? "StatefulPartitionedCall"
                                       : "PartitionedCall");
  call->n_attr = 0;
  call->attr = td_arena_alloc(arena, (n->n_attr + 3) * sizeof *call->attr);
  if (!call->attr) return td_oom();
  for (size_t i = 0; i < n->n_attr; i++)
    if (n->attr[i]->key[0] == '_') call->attr[call->n_attr++] = n->attr[i];
  TD_TRY(add_types(arena, "Tin", sig->input_arg, sig->n_input_arg, n, call));
  TD_TRY(add_types(arena, "Tout", sig->output_arg, sig->n_output_arg, n, call));
  TD_TRY(add_func(arena, n, call));
  td_graphdef_attr_sort(call->attr, call->n_attr);
  *out = call;
  return NULL;
}
