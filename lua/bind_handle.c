/* bind_handle.c - handles of graphs, edges, ops and regions: one for each
 * thing.
 *
 * A handle of an edge or op keeps its graph alive through its user value, and
 * the graph's user value is a weak table of the handles in use. A node of a
 * retired region may be taken out of the graph; that its memory stays while
 * there is a handle of it, `pins` is a weak table of regions by handle. A
 * region's own handle is found in `regions`, by address.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_handle.h"

#include "lua/bind.h"

static const char pins_key = 0, regions_key = 0; /* in the registry */

typedef struct lua_graph {
  td_graph *g;
} lua_graph;

/* User value 1 is the graph. */
typedef struct lua_region {
  td_region *r;
} lua_region;

/* ---- graphs ---- */

void td_lua_push_graph(lua_State *L, td_graph *g) {
  if (!td_lua_try_object(L, TD_LUA_GRAPH, sizeof(lua_graph), 1)) {
    td_graph_release(g);
    lua_error(L);
  }
  lua_graph *u = lua_touserdata(L, -1);
  u->g = g;
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, -2, 1);
}

td_graph *td_lua_to_graph(lua_State *L, int i) {
  lua_graph *u = luaL_checkudata(L, i, TD_LUA_GRAPH);
  return u->g;
}

static int graph_gc(lua_State *L) {
  lua_graph *u = lua_touserdata(L, 1);
  td_graph_release(u->g);
  u->g = NULL;
  return 0;
}

/* ---- regions ---- */

static int region_gc(lua_State *L) {
  lua_region *u = lua_touserdata(L, 1);
  td_region_release(u->r);
  u->r = NULL;
  return 0;
}

bool td_lua_find_region(lua_State *L, const td_region *r) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &regions_key);
  int type = lua_rawgetp(L, -1, r);
  lua_remove(L, -2);
  return type == LUA_TUSERDATA;
}

void td_lua_push_region(lua_State *L, int graph, td_region *r) {
  graph = lua_absindex(L, graph);
  if (td_lua_find_region(L, r)) {
    td_region_release(r);
    return;
  }
  lua_pop(L, 1);
  if (!td_lua_try_object(L, TD_LUA_REGION, sizeof(lua_region), 1)) {
    td_region_release(r);
    lua_error(L);
  }
  ((lua_region *)lua_touserdata(L, -1))->r = r;
  lua_pushvalue(L, graph);
  lua_setiuservalue(L, -2, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &regions_key);
  lua_pushvalue(L, -2);
  lua_rawsetp(L, -2, r);
  lua_pop(L, 1);
}

td_region *td_lua_check_region(lua_State *L, int i) {
  return ((lua_region *)luaL_checkudata(L, i, TD_LUA_REGION))->r;
}

/* The handle on top of the stack, of a node of the graph at `graph`, holds the
 * node's region if that is retired. */
static void pin(lua_State *L, int graph, const td_node *n) {
  if (!td_region_retired(n->region)) return;
  td_lua_push_region(L, graph, td_region_retain(n->region));
  lua_rawgetp(L, LUA_REGISTRYINDEX, &pins_key);
  lua_pushvalue(L, -3);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 2);
}

void td_lua_pin_region(lua_State *L, int graph, const td_region *r) {
  graph = lua_absindex(L, graph);
  lua_getiuservalue(L, graph, 1);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    const td_lua_edge *e = lua_touserdata(L, -1);
    if (e->node->region == r) pin(L, graph, e->node);
  }
  lua_pop(L, 1);
}

/* ---- edges and ops ---- */

void td_lua_push_edge(lua_State *L, int graph, td_node *n, int32_t port) {
  graph = lua_absindex(L, graph);
  lua_Integer key = (lua_Integer)((uintptr_t)n >> 4) << 20 | (port + 1);
  lua_getiuservalue(L, graph, 1);
  if (lua_rawgeti(L, -1, key) == LUA_TUSERDATA) {
    lua_remove(L, -2);
    return;
  }
  lua_pop(L, 1);
  td_lua_edge *u = lua_newuserdatauv(L, sizeof *u, 1);
  u->node = n;
  u->port = port;
  lua_pushvalue(L, graph);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, port < 0 ? TD_LUA_OP : TD_LUA_EDGE);
  lua_pushvalue(L, -1);
  lua_rawseti(L, -3, key);
  lua_remove(L, -2);
  pin(L, graph, n);
}

td_lua_edge *td_lua_to_edge(lua_State *L, int i) {
  return luaL_testudata(L, i, TD_LUA_EDGE);
}

td_lua_edge *td_lua_to_op(lua_State *L, int i) {
  return luaL_testudata(L, i, TD_LUA_OP);
}

td_edge td_lua_check_edge(lua_State *L, int i) {
  td_lua_edge *e = luaL_checkudata(L, i, TD_LUA_EDGE);
  return (td_edge){e->node, e->port};
}

td_node *td_lua_check_op(lua_State *L, int i) {
  return ((td_lua_edge *)luaL_checkudata(L, i, TD_LUA_OP))->node;
}

td_node *td_lua_check_node(lua_State *L, int i) {
  td_lua_edge *e = td_lua_to_edge(L, i);
  return e ? e->node : td_lua_check_op(L, i);
}

void td_lua_push_graph_of(lua_State *L, int i) {
  lua_getiuservalue(L, i, 1);
}

/* ---- opening ---- */

static void make_weak(lua_State *L, const char *mode, const char *key) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

TD_LUA_OPEN(handle) {
  luaL_newmetatable(L, TD_LUA_GRAPH);
  lua_pushcfunction(L, graph_gc);
  lua_setfield(L, -2, "__gc");
  luaL_newmetatable(L, TD_LUA_REGION);
  lua_pushcfunction(L, region_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 2);
  make_weak(L, "k", &pins_key);
  make_weak(L, "v", &regions_key);
}
