/* graphdef_foreign.c - nodes whose op is not known here.
 *
 * A training graph is full of what a run of its net never needs: savers,
 * summaries, queues. Such a node becomes one of an op of its own, made of what
 * the file says: an input for each of its inputs, its attributes as they are
 * given, and as many outputs as somebody takes, of the dtypes that these ask
 * for. It can be looked at, written as it came, and fed; only a step that needs
 * what it gives fails (plan/prune.c).
 *
 * The op lies in the memory of the node and goes with it. Each node has one of
 * its own: of two uses of an op that nobody knows, neither says what the other
 * may have.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/graph/op_sig.h"
#include "engine/graph/resolve.h"
#include "engine/graphdef/graphdef_read_impl.h"

static const td_op_def foreign_def = {
    .type = "(foreign)",
    .sig = "",
    .shape = td_infer_any,
    .doc = "An op of the imported file that is not known here; it cannot run.",
    .flags = TD_STATEFUL,
    .kind = TD_OP_FOREIGN};

/* ---- what others know of it ---------------------------------------------- */

static const Td__AttrValue *attr_value(const Td__NodeDef *n, const char *name) {
  for (size_t i = 0; i < n->n_attr; i++)
    if (strcmp(n->attr[i]->key, name) == 0) return n->attr[i]->value;
  return NULL;
}

int64_t td_graphdef_arg_count(const td_op *op, const td_arg *a,
                              const Td__NodeDef *n) {
  int at = a->type_list ? a->type_attr : a->number_attr;
  if (at < 0) return 1;
  const Td__AttrValue *v = attr_value(n, op->attr[at].name);
  const td_attr *d = op->attr[at].has_default ? &op->attr[at].value : NULL;
  if (!v) return !d ? -1 : a->type_list ? d->len : d->i;
  if (!a->type_list)
    return v->value_case == TD__ATTR_VALUE__VALUE_I ? v->i : -1;
  return v->value_case == TD__ATTR_VALUE__VALUE_LIST ? (int64_t)v->list->n_type
                                                     : -1;
}

/* The dtype of tensor k of an argument; 0 when the node's attributes do not
 * say. */
static int32_t arg_type(const td_op *op, const td_arg *a, const Td__NodeDef *n,
                        int64_t k) {
  if (a->type_attr < 0) return (int32_t)a->type;
  const td_attr_def *def = &op->attr[a->type_attr];
  const Td__AttrValue *v = attr_value(n, def->name);
  if (!v && !def->has_default) return 0;
  if (!v)
    return (int32_t)(a->type_list ? def->value.types[k] : def->value.type);
  if (!a->type_list)
    return v->value_case == TD__ATTR_VALUE__VALUE_TYPE ? v->type : 0;
  return v->value_case == TD__ATTR_VALUE__VALUE_LIST ? v->list->type[k] : 0;
}

/* The dtype that a known op wants of its input i of all. */
static int32_t wanted(const td_item *n, int64_t i) {
  for (int k = 0; k < n->op->n_in; k++) {
    int64_t count = td_graphdef_arg_count(n->op, &n->op->in[k], n->def);
    if (count < 0) return 0;
    if (i < count) return arg_type(n->op, &n->op->in[k], n->def, i);
    i -= count;
  }
  return 0;
}

/* ---- what it says itself ------------------------------------------------- */

/* Attributes by which ops tell the dtypes of all that they give. */
static const Td__ListValue *own_types(const Td__NodeDef *n) {
  static const char *const names[] = {"Tout", "dtypes", "output_types",
                                      "out_types", "component_types"};
  for (size_t i = 0; i < TD_COUNT(names); i++) {
    const Td__AttrValue *v = attr_value(n, names[i]);
    if (v && v->value_case == TD__ATTR_VALUE__VALUE_LIST && v->list->n_type)
      return v->list;
  }
  return NULL;
}

static int32_t own_type(const Td__NodeDef *n, int32_t port) {
  static const char *const names[] = {"dtype", "out_type", "T"};
  const Td__ListValue *list = own_types(n);
  if (list && (size_t)port < list->n_type) return list->type[port];
  for (size_t i = 0; i < TD_COUNT(names); i++) {
    const Td__AttrValue *v = attr_value(n, names[i]);
    if (v && v->value_case == TD__ATTR_VALUE__VALUE_TYPE) return v->type;
  }
  return 0;
}

static bool is_type(int32_t type) {
  return type > TD_INVALID && type < TD_DTYPES;
}

/* ---- its op -------------------------------------------------------------- */

/* Room for `n` arguments "name0", "name1", ... of one tensor each. */
static td_status *make_args(td_arena *arena, const char *name, int32_t n,
                            td_arg **out) {
  td_arg *args = td_arena_alloc(arena, ((size_t)n + 1) * sizeof *args);
  if (!args) return td_oom();
  for (int32_t i = 0; i < n; i++) {
    char text[32];
    snprintf(text, sizeof text, "%s%d", name, (int)i);
    args[i] = (td_arg){
        .name = td_arena_str(arena, text), .type_attr = -1, .number_attr = -1};
    if (!args[i].name) return td_oom();
  }
  *out = args;
  return NULL;
}

/* Kind and form of a value that td_graphdef_attr_in can read. */
static td_attr_kind kind_of(const Td__AttrValue *v) {
  if (!v) return TD_ATTR_NONE;
  switch (v->value_case) {
  case TD__ATTR_VALUE__VALUE_I:
    return TD_ATTR_INT;
  case TD__ATTR_VALUE__VALUE_F:
    return TD_ATTR_FLOAT;
  case TD__ATTR_VALUE__VALUE_B:
    return TD_ATTR_BOOL;
  case TD__ATTR_VALUE__VALUE_TYPE:
    return TD_ATTR_TYPE;
  case TD__ATTR_VALUE__VALUE_SHAPE:
    return TD_ATTR_SHAPE;
  case TD__ATTR_VALUE__VALUE_TENSOR:
    return TD_ATTR_TENSOR;
  case TD__ATTR_VALUE__VALUE_FUNC:
    return TD_ATTR_FUNC;
  case TD__ATTR_VALUE__VALUE_LIST:
    return v->list->n_i        ? TD_ATTR_INT
           : v->list->n_f      ? TD_ATTR_FLOAT
           : v->list->n_b      ? TD_ATTR_BOOL
           : v->list->n_type   ? TD_ATTR_TYPE
           : v->list->n_shape  ? TD_ATTR_SHAPE
           : v->list->n_tensor ? TD_ATTR_TENSOR
           : v->list->n_func   ? TD_ATTR_FUNC
                               : TD_ATTR_STRING;
  default:
    return TD_ATTR_STRING;
  }
}

static td_status *make_attrs(td_arena *arena, const Td__NodeDef *n, td_op *op) {
  op->attr = td_arena_alloc(arena, (n->n_attr + 1) * sizeof *op->attr);
  if (!op->attr) return td_oom();
  for (size_t i = 0; i < n->n_attr; i++) {
    const Td__AttrEntry *e = n->attr[i];
    if (e->key[0] == '_') continue;
    if (op->n_attr == TD_OP_MAX_ATTRS)
      return td_error(TD_INVALID_ARGUMENT, "more than %d attributes",
                      TD_OP_MAX_ATTRS);
    td_attr_def *def = &op->attr[op->n_attr++];
    def->name = td_arena_str(arena, e->key);
    if (!def->name) return td_oom();
    def->kind = kind_of(e->value);
    def->is_list =
        e->value && e->value->value_case == TD__ATTR_VALUE__VALUE_LIST;
  }
  return NULL;
}

static td_status *make_op(td_import *m, td_item *n) {
  td_arena *arena = &m->g->root.arena;
  td_op *op = td_arena_alloc(arena, sizeof *op);
  if (!op) return td_oom();
  *op = (td_op){.def = &foreign_def,
                .type = td_arena_str(arena, n->def->op),
                .lua = "",
                .kind = TD_OP_FOREIGN,
                .flags = foreign_def.flags,
                .n_in = n->n_in,
                .n_out = 1};
  if (!op->type) return td_oom();
  const Td__ListValue *types = own_types(n->def);
  if (types && types->n_type <= TD_RESOLVE_MAX_OUTPUTS)
    op->n_out = (int)types->n_type;
  n->op = n->foreign = op;
  TD_TRY(make_args(arena, "in", op->n_in, &op->in));
  return make_attrs(arena, n->def, op);
}

/* ---- all of them --------------------------------------------------------- */

/* Somebody takes output `port`. */
static td_status *take_port(td_item *n, int32_t port) {
  if (port >= TD_RESOLVE_MAX_OUTPUTS)
    return td_error(TD_INVALID_ARGUMENT,
                    "output %d is taken: at most %d are possible", (int)port,
                    TD_RESOLVE_MAX_OUTPUTS);
  if (port >= n->foreign->n_out) n->foreign->n_out = port + 1;
  return NULL;
}

/* Calls f for each input of an item that a foreign one gives. */
static td_status *each_use(td_import *m,
                           td_status *(*f)(const td_item *user, int32_t i,
                                           td_item *from, int32_t port)) {
  for (int32_t u = 0; u < m->n_item; u++)
    for (int32_t i = 0; i < m->item[u].n_in; i++) {
      td_source s = m->item[u].in[i];
      if (s.item >= 0 && m->item[s.item].foreign)
        TD_TRY(td_import_blame(f(&m->item[u], i, &m->item[s.item], s.port),
                               &m->item[s.item]));
    }
  return NULL;
}

static td_status *count_use(const td_item *user, int32_t i, td_item *from,
                            int32_t port) {
  (void)user;
  (void)i;
  return take_port(from, port);
}

static td_status *type_use(const td_item *user, int32_t i, td_item *from,
                           int32_t port) {
  td_dtype *type = &from->foreign->out[port].type;
  int32_t want = user->foreign ? 0 : wanted(user, i);
  if (*type == TD_INVALID && is_type(want)) *type = (td_dtype)want;
  return NULL;
}

/* Nobody says: something that is not known more closely. */
static void type_rest(const td_item *n) {
  for (int32_t i = 0; i < n->foreign->n_out; i++) {
    td_dtype *type = &n->foreign->out[i].type;
    int32_t own = own_type(n->def, i);
    if (*type == TD_INVALID) *type = is_type(own) ? (td_dtype)own : TD_VARIANT;
  }
}

static td_status *make_outputs(td_import *m, const td_item *n) {
  td_op *op = n->foreign;
  TD_TRY(td_graphdef_take_fill(
      "outputs", (size_t)(op->n_out - 1) * sizeof *op->out, &m->fill));
  return make_args(&m->g->root.arena, "out", op->n_out, &op->out);
}

td_status *td_import_foreign(td_import *m) {
  bool any = false;
  for (int32_t i = 0; i < m->n_item; i++) {
    td_item *n = &m->item[i];
    if (n->op) continue;
    any = true;
    TD_TRY(td_import_blame(make_op(m, n), n));
  }
  if (!any) return NULL;
  TD_TRY(each_use(m, count_use));
  for (int32_t i = 0; i < m->n_item; i++)
    if (m->item[i].foreign)
      TD_TRY(td_import_blame(make_outputs(m, &m->item[i]), &m->item[i]));
  TD_TRY(each_use(m, type_use));
  for (int32_t i = 0; i < m->n_item; i++)
    if (m->item[i].foreign) type_rest(&m->item[i]);
  return NULL;
}

void td_import_foreign_inputs(const td_item *n, const td_edge *in) {
  for (int32_t i = 0; i < n->n_in; i++)
    if (in[i].node && in[i].port < in[i].node->n_out)
      n->foreign->in[i].type = td_edge_dtype(in[i]);
}
