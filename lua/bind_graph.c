/* bind_graph.c - graphs: made, looked into, saved, imported, changed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/graph/node_edit.h"
#include "engine/graphdef/graphdef.h"
#include "lua/bind.h"
#include "lua/bind_handle.h"
#include "lua/bind_shape.h"

static int graph_new(lua_State *L) {
  td_graph *g;
  td_lua_check(L, td_graph_new(&g));
  td_lua_push_graph(L, g);
  return 1;
}

/* g:edge(ref) or g:edge(op id, port) -> edge or op ("^x", port -1) */
static int graph_edge(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  td_edge e;
  if (lua_isinteger(L, 2)) {
    lua_Integer id = lua_tointeger(L, 2), port = luaL_checkinteger(L, 3);
    luaL_argcheck(L, id >= 0 && id < td_graph_size(g), 2, "no such node");
    e = (td_edge){td_graph_node(g, (int32_t)id), (int32_t)port};
    luaL_argcheck(L, port >= -1 && port < e.node->n_out, 3, "no such output");
  } else {
    td_lua_check(L, td_graph_edge(g, td_lua_text(L, 2), &e));
  }
  td_lua_push_edge(L, 1, e.node, e.port);
  return 1;
}

static int graph_op(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  td_edge e;
  if (lua_isinteger(L, 2)) {
    lua_Integer id = lua_tointeger(L, 2);
    luaL_argcheck(L, id >= 0 && id < td_graph_size(g), 2, "no such node");
    td_lua_push_edge(L, 1, td_graph_node(g, (int32_t)id), -1);
    return 1;
  }
  lua_pushfstring(L, "^%s", td_lua_text(L, 2));
  td_lua_check(L, td_graph_edge(g, lua_tostring(L, -1), &e));
  td_lua_push_edge(L, 1, e.node, -1);
  return 1;
}

static int graph_ops(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  int32_t n = td_graph_size(g);
  lua_createtable(L, n, 0);
  for (int32_t i = 0; i < n; i++) {
    td_lua_push_edge(L, 1, td_graph_node(g, i), -1);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int graph_size(lua_State *L) {
  lua_pushinteger(L, td_graph_size(td_lua_to_graph(L, 1)));
  return 1;
}

/* core.next_serial(graph): what the next node's field `serial` will be. */
static int core_next_serial(lua_State *L) {
  uint64_t n = td_graph_next_serial(td_lua_to_graph(L, 1));
  lua_pushinteger(L, (lua_Integer)n);
  return 1;
}

static int graph_save(lua_State *L) {
  char *bytes;
  size_t len;
  td_lua_check(L, td_graphdef_write(td_lua_to_graph(L, 1), &bytes, &len));
  td_lua_push_bytes(L, bytes, len);
  return 1;
}

/* The same for who reads it elsewhere. */
static int graph_export(lua_State *L) {
  char *bytes;
  size_t len;
  td_lua_check(L, td_graphdef_export(td_lua_to_graph(L, 1), &bytes, &len));
  td_lua_push_bytes(L, bytes, len);
  return 1;
}

/* g:import_bytes(bytes, prefix, {names}, {edges}, clear_devices) */
static int graph_import(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  size_t len;
  const char *bytes = luaL_checklstring(L, 2, &len);
  td_graphdef_options o = {.prefix =
                               lua_isnoneornil(L, 3) ? NULL : td_lua_text(L, 3),
                           .clear_devices = lua_toboolean(L, 6)};
  if (lua_istable(L, 4)) {
    luaL_checktype(L, 5, LUA_TTABLE);
    int n = (int)luaL_len(L, 4);
    const char **names = td_lua_block(L, (size_t)n, sizeof *names);
    td_edge *edges = td_lua_block(L, (size_t)n, sizeof *edges);
    for (int i = 0; i < n; i++) {
      lua_rawgeti(L, 4, i + 1);
      names[i] = td_lua_text(L, -1);
      lua_rawgeti(L, 5, i + 1);
      edges[i] = td_lua_check_edge(L, -1);
      lua_pop(L, 2);
    }
    o.names = names;
    o.edges = edges;
    o.n_inputs = n;
  }
  td_lua_check(L, td_graphdef_read(g, bytes, len, &o));
  return 0;
}

static int graph_finalize(lua_State *L) {
  td_graph_finalize(td_lua_to_graph(L, 1));
  return 0;
}

static int graph_set_seed(lua_State *L) {
  td_graph_set_seed(td_lua_to_graph(L, 1), luaL_checkinteger(L, 2));
  return 0;
}

static int graph_get_seed(lua_State *L) {
  int64_t seed;
  if (td_graph_seed(td_lua_to_graph(L, 1), &seed))
    lua_pushinteger(L, seed);
  else
    lua_pushnil(L);
  return 1;
}

static int graph_unique(lua_State *L) {
  const char *name;
  td_lua_check(
      L, td_graph_unique(td_lua_to_graph(L, 1), td_lua_text(L, 2), &name));
  lua_pushstring(L, name);
  return 1;
}

/* g:flow(parent, "w"|"c", name) -> index */
static int graph_flow(lua_State *L) {
  int32_t flow;
  const char *kind = td_lua_text(L, 3);
  td_lua_check(L, td_graph_flow(td_lua_to_graph(L, 1),
                                (int32_t)luaL_checkinteger(L, 2), kind[0],
                                td_lua_text(L, 4), &flow));
  lua_pushinteger(L, flow);
  return 1;
}

static int graph_find(lua_State *L) {
  td_node *n = td_graph_find(td_lua_to_graph(L, 1), td_lua_text(L, 2));
  if (n)
    td_lua_push_edge(L, 1, n, -1);
  else
    lua_pushnil(L);
  return 1;
}

/* g["name:0"] is an edge, other identifiers are methods. */
static int graph_index(lua_State *L) {
  luaL_tolstring(L, 2, NULL);
  const char *key = td_lua_text(L, -1);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  if (td_lua_method(L, TD_LUA_GRAPH, 2)) return 1;
  td_edge e;
  if (strchr(key, ':') || !td_lua_identifier(key)) {
    td_lua_check(L, td_graph_edge(td_lua_to_graph(L, 1), key, &e));
    td_lua_push_edge(L, 1, e.node, e.port);
    return 1;
  }
  td_node *n = td_graph_find(td_lua_to_graph(L, 1), key);
  if (!n || n->n_out == 0) return td_lua_no_field(L, TD_LUA_GRAPH, key, NULL);
  td_lua_push_edge(L, 1, n, 0);
  return 1;
}

/* ---- changing what exists ---- */

/* core.set_back_edge(merge op, input index from 0, edge) */
static int core_back_edge(lua_State *L) {
  td_node *merge = td_lua_check_op(L, 1);
  td_lua_check(L, td_node_set_back_edge(merge, (int)luaL_checkinteger(L, 2),
                                        td_lua_check_edge(L, 3)));
  return 0;
}

static int core_add_control(lua_State *L) {
  td_lua_check(
      L, td_node_add_control(td_lua_check_op(L, 1), td_lua_check_op(L, 2)));
  return 0;
}

static int core_set_shape(lua_State *L) {
  td_edge e = td_lua_check_edge(L, 1);
  td_shape shape;
  td_lua_check(L, td_lua_to_shape(L, 2, &shape));
  td_lua_check(L, td_node_set_shape(e.node, e.port, &shape));
  return 0;
}

TD_LUA_OPEN(graph) {
  static const luaL_Reg functions[] = {
      {"graph_new", graph_new},          {"set_back_edge", core_back_edge},
      {"add_control", core_add_control}, {"set_shape", core_set_shape},
      {"next_serial", core_next_serial}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"edge", graph_edge},
                                     {"op", graph_op},
                                     {"ops", graph_ops},
                                     {"size", graph_size},
                                     {"save_bytes", graph_save},
                                     {"export_bytes", graph_export},
                                     {"import_bytes", graph_import},
                                     {"finalize", graph_finalize},
                                     {"set_seed", graph_set_seed},
                                     {"get_seed", graph_get_seed},
                                     {"unique", graph_unique},
                                     {"flow", graph_flow},
                                     {"find", graph_find},
                                     {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  luaL_newmetatable(L, TD_LUA_GRAPH);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_pushcclosure(L, graph_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
