/* bind_info.c - the op registry as Lua records, for help and `tide ops`, and
 * the names in a graph, for completion.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "engine/device/kernel_rows.h"
#include "engine/graph/infer.h"
#include "engine/base/version.h"
#include "lua/bind.h"
#include "lua/bind_field.h"
#include "lua/bind_handle.h"
#include "lua/bind_shape.h"

static void set_text(lua_State *L, const char *key, const char *s) {
  td_lua_set_string(L, key, s ? s : "");
}

static void push_types(lua_State *L, uint32_t bits) {
  lua_newtable(L);
  int n = 0;
  for (int t = 1; t < TD_DTYPES; t++)
    if (bits >> t & 1) {
      lua_pushstring(L, td_dtype_name((td_dtype)t));
      lua_rawseti(L, -2, ++n);
    }
}

/* "float32", "T", "N*T" or "list(T)". */
static void push_type(lua_State *L, const td_op *op, const td_arg *a) {
  const char *t = a->type != TD_INVALID ? td_dtype_name(a->type)
                                        : op->attr[a->type_attr].name;
  if (a->number_attr >= 0)
    lua_pushfstring(L, "%s*%s", op->attr[a->number_attr].name, t);
  else
    lua_pushstring(L, t);
}

static void push_args(lua_State *L, const td_op *op, const td_arg *args,
                      int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_createtable(L, 0, 3);
    td_lua_set_string(L, "name", args[i].name);
    push_type(L, op, &args[i]);
    lua_setfield(L, -2, "type");
    lua_pushboolean(L, args[i].number_attr >= 0 || args[i].type_list);
    lua_setfield(L, -2, "list");
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_attr_def(lua_State *L, const td_attr_def *a) {
  lua_createtable(L, 0, 6);
  td_lua_set_string(L, "name", a->name);
  td_lua_set_string(L, "type", td_attr_kind_name(a->kind, a->is_list));
  lua_pushboolean(L, a->deduced);
  lua_setfield(L, -2, "deduced");
  if (a->has_default) {
    td_str s;
    td_str_init(&s);
    td_attr_print(&a->value, &s);
    td_lua_push_str(L, &s);
    lua_setfield(L, -2, "default");
  }
  if (a->has_minimum) {
    lua_pushinteger(L, a->minimum);
    lua_setfield(L, -2, "minimum");
  }
  if (a->types) {
    push_types(L, a->types);
    lua_setfield(L, -2, "allowed");
  }
  if (a->strings) {
    lua_newtable(L);
    for (int i = 0; a->strings[i]; i++) {
      lua_pushstring(L, a->strings[i]);
      lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "allowed");
  }
}

/* dtypes with a CPU kernel, for the op's first type attribute. */
static void push_kernels(lua_State *L, const td_op *op) {
  const char *attr = NULL;
  for (int i = 0; i < op->n_attr && !attr; i++)
    if (op->attr[i].kind == TD_ATTR_TYPE) attr = op->attr[i].name;
  push_types(L, attr ? td_kernel_types(op, "CPU", attr) : 0);
}

/* What the shape function does, in words, where several ops share it. */
static const char *shape_rule(const td_op *op) {
  static const struct {
    td_shape_fn fn;
    const char *rule;
  } rules[] = {
      {td_infer_none, "no results"},
      {td_infer_same, "that of the first input"},
      {td_infer_same_all, "that of the inputs, which agree"},
      {td_infer_broadcasting, "the inputs broadcast as in NumPy"},
      {td_infer_any, "known when the step runs"},
      {td_infer_scalars, "a scalar"},
  };
  for (size_t i = 0; i < TD_COUNT(rules); i++)
    if (op->def->shape == rules[i].fn) return rules[i].rule;
  return "";
}

static void push_op(lua_State *L, const td_op *op) {
  td_str s;
  lua_createtable(L, 0, 15);
  td_lua_set_string(L, "shape", shape_rule(op));
  td_lua_set_string(L, "name", op->type);
  set_text(L, "lua", op->lua);
  set_text(L, "section", op->def->section);
  set_text(L, "doc", op->def->doc);
  set_text(L, "example", op->def->example);
  push_args(L, op, op->in, op->n_in);
  lua_setfield(L, -2, "inputs");
  push_args(L, op, op->out, op->n_out);
  lua_setfield(L, -2, "outputs");
  lua_createtable(L, op->n_attr, 0);
  for (int i = 0; i < op->n_attr; i++) {
    push_attr_def(L, &op->attr[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "attrs");
  push_kernels(L, op);
  lua_setfield(L, -2, "dtypes");
  lua_pushboolean(L, (op->flags & TD_STATEFUL) != 0);
  lua_setfield(L, -2, "stateful");
  lua_pushboolean(L, (op->flags & TD_READS) != 0);
  lua_setfield(L, -2, "reads");
  lua_pushboolean(L, op->def->shape == td_infer_broadcasting);
  lua_setfield(L, -2, "broadcasts");
  lua_pushboolean(L, (op->flags & TD_IN_PLACE) != 0);
  lua_setfield(L, -2, "in_place");
  lua_pushboolean(L, (op->flags & TD_NO_GRADIENT) != 0);
  lua_setfield(L, -2, "no_gradient");
  td_str_init(&s);
  td_op_print(op, &s);
  td_lua_push_str(L, &s);
  lua_setfield(L, -2, "signature");
}

/* core.op_info(type or Lua name): its record, or nil; core.op_info(op), of an
 * op that may be known to its graph only. */
static int op_info(lua_State *L) {
  if (lua_isuserdata(L, 1)) {
    push_op(L, td_lua_check_op(L, 1)->op);
    return 1;
  }
  const char *name = td_lua_text(L, 1);
  const td_op *op = td_op_find(name);
  if (!op) op = td_op_find_lua(name);
  if (op)
    push_op(L, op);
  else
    lua_pushnil(L);
  return 1;
}

/* core.op_type(lua name): TensorFlow's type, or nil. Quick. */
static int op_type(lua_State *L) {
  const td_op *op = td_op_find_lua(td_lua_text(L, 1));
  lua_pushstring(L, op ? op->type : NULL);
  return 1;
}

/* core.op_names(): every type, sorted. */
static int op_names(lua_State *L) {
  int n = td_op_count();
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushstring(L, td_op_at(i)->type);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* core.op_lua_names(): what they are called in Lua, "" for no name. */
static int op_lua_names(lua_State *L) {
  int n = td_op_count();
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushstring(L, td_op_at(i)->lua ? td_op_at(i)->lua : "");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* core.op_count(): how many op types there are. */
static int op_count(lua_State *L) {
  lua_pushinteger(L, td_op_count());
  return 1;
}

/* core.node_names(graph, prefix, most [, op type]): name, op type and number of
 * results of nodes whose names begin so, in any case of letters; flat. */
static int node_names(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  size_t len;
  const char *prefix = luaL_checklstring(L, 2, &len);
  lua_Integer most = luaL_checkinteger(L, 3), n = 0;
  const char *type = luaL_optstring(L, 4, NULL);
  lua_newtable(L);
  for (int32_t i = 0; i < td_graph_size(g) && n < most; i++) {
    const td_node *node = td_graph_node(g, i);
    if (strncasecmp(node->name, prefix, len) != 0) continue;
    if (type && strcmp(type, node->op->type) != 0) continue;
    lua_pushstring(L, node->name);
    lua_rawseti(L, -2, 3 * n + 1);
    lua_pushstring(L, node->op->type);
    lua_rawseti(L, -2, 3 * n + 2);
    lua_pushinteger(L, node->n_out);
    lua_rawseti(L, -2, 3 * ++n);
  }
  return 1;
}

static void push_known(lua_State *L, double v) {
  if (isnan(v))
    lua_pushnil(L);
  else
    lua_pushnumber(L, v);
}

/* The list of shapes at `i`, one for each of n edges; NULL: none is there. */
static const td_shape *read_shapes(lua_State *L, int i, int n) {
  if (lua_isnoneornil(L, i)) return NULL;
  luaL_checktype(L, i, LUA_TTABLE);
  if (luaL_len(L, i) != n)
    td_lua_error(L, TD_INVALID_ARGUMENT, "there must be %d shapes, not %d", n,
                 (int)luaL_len(L, i));
  td_shape *s = td_lua_block(L, (size_t)n, sizeof *s);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    td_lua_check(L, td_lua_to_shape(L, -1, &s[k]));
    lua_pop(L, 1);
  }
  return s;
}

/* core.op_cost(op [, shapes of its inputs, of its outputs]): floating-point
 * operations and bytes of one run; nil where they are not known. */
static int op_cost(lua_State *L) {
  lua_settop(L, 3);
  const td_node *n = td_lua_check_op(L, 1);
  const td_shape *in = read_shapes(L, 2, n->n_in);
  const td_shape *out = read_shapes(L, 3, n->n_out);
  td_cost cost;
  td_infer_cost(n, in, out, &cost);
  push_known(L, cost.flops);
  push_known(L, cost.bytes);
  return 2;
}

TD_LUA_OPEN(info) {
  static const luaL_Reg functions[] = {
      {"op_info", op_info},       {"op_type", op_type},
      {"op_names", op_names},     {"op_lua_names", op_lua_names},
      {"op_count", op_count},     {"op_cost", op_cost},
      {"node_names", node_names}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  td_lua_set_string(L, "version", TD_VERSION);
}
