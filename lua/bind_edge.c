/* bind_edge.c - what an edge and an op tell of themselves: fields, methods.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "lua/bind.h"
#include "lua/bind_attr.h"
#include "lua/bind_handle.h"
#include "lua/bind_shape.h"

/* ---- edges ---- */

static int index_slice(lua_State *L, const char *type) {
  lua_pushliteral(L, "[]");
  if (!td_lua_method(L, type, -1))
    return td_lua_error(L, TD_INVALID_ARGUMENT, "this cannot be indexed");
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_call(L, 2, 1);
  return 1;
}

static int edge_index(lua_State *L) {
  td_lua_edge *e = lua_touserdata(L, 1);
  static const char *const fields[] = {"name",  "dtype",  "shape",  "op",
                                       "graph", "origin", "device", "rank",
                                       "size",  "port",   NULL};
  const char *key = lua_type(L, 2) == LUA_TSTRING ? td_lua_text(L, 2) : "1:";
  if (!td_lua_identifier(key)) return index_slice(L, TD_LUA_EDGE);
  const td_result *out = &e->node->out[e->port];
  if (!strcmp(key, "dtype"))
    lua_pushstring(L, td_dtype_name(out->dtype));
  else if (!strcmp(key, "shape"))
    td_lua_push_shape(L, &out->shape);
  else if (!strcmp(key, "op"))
    td_lua_push_graph_of(L, 1), td_lua_push_edge(L, -1, e->node, -1);
  else if (!strcmp(key, "name"))
    lua_pushfstring(L, "%s:%d", e->node->name, (int)e->port);
  else if (!strcmp(key, "graph"))
    td_lua_push_graph_of(L, 1);
  else if (!strcmp(key, "origin"))
    lua_pushstring(L, e->node->origin);
  else if (!strcmp(key, "device"))
    lua_pushstring(L, e->node->device);
  else if (!strcmp(key, "port"))
    lua_pushinteger(L, e->port);
  else if (!strcmp(key, "rank") || !strcmp(key, "size")) {
    int64_t v = key[0] == 'r' ? out->shape.rank : td_shape_count(&out->shape);
    if (v < 0)
      lua_pushnil(L);
    else
      lua_pushinteger(L, v);
  } else if (!td_lua_method(L, TD_LUA_EDGE, 2))
    return td_lua_no_field(L, TD_LUA_EDGE, key, fields);
  return 1;
}

static int edge_newindex(lua_State *L) {
  return td_lua_error(L, TD_INVALID_ARGUMENT,
                      "a graph tensor cannot be assigned to; for rows of a "
                      "variable use W[\"0:2\"]:assign(t)");
}

static int edge_tostring(lua_State *L) {
  td_lua_edge *e = luaL_checkudata(L, 1, TD_LUA_EDGE);
  td_shape_text text;
  lua_pushfstring(L, "Tensor \"%s:%d\" %s %s", e->node->name, (int)e->port,
                  td_dtype_name(e->node->out[e->port].dtype),
                  td_shape_str(&e->node->out[e->port].shape, &text));
  return 1;
}

/* ---- ops ---- */

static void push_op_inputs(lua_State *L, const td_node *n) {
  td_lua_push_graph_of(L, 1);
  int graph = lua_gettop(L);
  lua_createtable(L, n->n_in, 0);
  for (int i = 0; i < n->n_in; i++) {
    if (n->in[i].node)
      td_lua_push_edge(L, graph, n->in[i].node, n->in[i].port);
    else
      lua_pushboolean(L, false);
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_op_outputs(lua_State *L, td_node *n) {
  td_lua_push_graph_of(L, 1);
  int graph = lua_gettop(L);
  lua_createtable(L, n->n_out, 0);
  for (int i = 0; i < n->n_out; i++) {
    td_lua_push_edge(L, graph, n, i);
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_op_controls(lua_State *L, const td_node *n) {
  td_lua_push_graph_of(L, 1);
  int graph = lua_gettop(L);
  lua_createtable(L, n->n_control, 0);
  for (int i = 0; i < n->n_control; i++) {
    td_lua_push_edge(L, graph, n->control[i], -1);
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_op_attrs(lua_State *L, const td_node *n) {
  lua_createtable(L, 0, n->op->n_attr + n->n_note);
  for (int i = 0; i < n->op->n_attr; i++) {
    td_lua_push_attr(L, &n->attr[i]);
    lua_setfield(L, -2, n->op->attr[i].name);
  }
  for (int i = 0; i < n->n_note; i++) {
    td_lua_push_attr(L, &n->note[i].value);
    lua_setfield(L, -2, n->note[i].name);
  }
}

static int op_index(lua_State *L) {
  td_lua_edge *e = lua_touserdata(L, 1);
  td_node *n = e->node;
  static const char *const fields[] = {
      "type",           "name",   "inputs", "outputs", "attr",
      "control_inputs", "graph",  "origin", "device",  "id",
      "flow",           "serial", NULL};
  const char *key = luaL_tolstring(L, 2, NULL);
  if (!strcmp(key, "type"))
    lua_pushstring(L, n->op->type);
  else if (!strcmp(key, "name"))
    lua_pushstring(L, n->name);
  else if (!strcmp(key, "inputs"))
    push_op_inputs(L, n);
  else if (!strcmp(key, "outputs"))
    push_op_outputs(L, n);
  else if (!strcmp(key, "attr"))
    push_op_attrs(L, n);
  else if (!strcmp(key, "control_inputs"))
    push_op_controls(L, n);
  else if (!strcmp(key, "graph"))
    td_lua_push_graph_of(L, 1);
  else if (!strcmp(key, "origin"))
    lua_pushstring(L, n->origin);
  else if (!strcmp(key, "device"))
    lua_pushstring(L, n->device);
  else if (!strcmp(key, "id"))
    lua_pushinteger(L, n->id);
  else if (!strcmp(key, "serial"))
    lua_pushinteger(L, (lua_Integer)n->serial);
  else if (!strcmp(key, "flow"))
    lua_pushinteger(L, n->flow);
  else if (!td_lua_method(L, TD_LUA_OP, 2))
    return td_lua_no_field(L, TD_LUA_OP, key, fields);
  return 1;
}

static int op_tostring(lua_State *L) {
  td_lua_edge *e = luaL_checkudata(L, 1, TD_LUA_OP);
  lua_pushfstring(L, "Op \"%s\" %s", e->node->name, e->node->op->type);
  return 1;
}

TD_LUA_OPEN(edge) {
  static const luaL_Reg edge[] = {{"__index", edge_index},
                                  {"__newindex", edge_newindex},
                                  {"__tostring", edge_tostring},
                                  {NULL, NULL}};
  luaL_newmetatable(L, TD_LUA_EDGE);
  luaL_setfuncs(L, edge, 0);
  lua_pop(L, 1);
  static const luaL_Reg op[] = {
      {"__index", op_index}, {"__tostring", op_tostring}, {NULL, NULL}};
  luaL_newmetatable(L, TD_LUA_OP);
  luaL_setfuncs(L, op, 0);
  lua_pop(L, 1);
}
