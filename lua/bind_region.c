/* bind_region.c - regions: what a cell built, and how it is taken out.
 *
 * A handle of a node in a region that is put aside holds the region, so that
 * its node can be looked at when it is gone: `pins`, a weak table of regions by
 * handle. One region is one userdata: `regions`, by address.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/graph/function.h"
#include "lua/bind.h"

static const char pins_key = 0, regions_key = 0; /* in the registry */

static td_lua_region *to_region(lua_State *L, int i) {
  return luaL_checkudata(L, i, TD_LUA_REGION);
}

static int region_gc(lua_State *L) {
  td_lua_region *u = lua_touserdata(L, 1);
  td_region_release(u->r);
  u->r = NULL;
  return 0;
}

/* Takes ownership of `r`. User value 1 is the graph, at `graph`. */
static void push_new(lua_State *L, int graph, td_region *r) {
  graph = lua_absindex(L, graph);
  if (!td_lua_try_object(L, TD_LUA_REGION, sizeof(td_lua_region), 1)) {
    td_region_release(r);
    lua_error(L);
  }
  ((td_lua_region *)lua_touserdata(L, -1))->r = r;
  lua_pushvalue(L, graph);
  lua_setiuservalue(L, -2, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &regions_key);
  lua_pushvalue(L, -2);
  lua_rawsetp(L, -2, r);
  lua_pop(L, 1);
}

static void push_region(lua_State *L, int graph, td_region *r) {
  graph = lua_absindex(L, graph);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &regions_key);
  int type = lua_rawgetp(L, -1, r);
  lua_remove(L, -2);
  if (type == LUA_TUSERDATA) return;
  lua_pop(L, 1);
  push_new(L, graph, td_region_retain(r));
}

void td_lua_pin(lua_State *L, int graph, td_node *n) {
  if (!td_region_aside(n->region)) return;
  push_region(L, graph, n->region);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &pins_key);
  lua_pushvalue(L, -3);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 2);
}

/* ---- for the library ---- */

/* core.region_new(graph) */
static int region_new(lua_State *L) {
  td_region *r;
  td_lua_check(L, td_region_new(td_lua_to_graph(L, 1), &r));
  push_new(L, 1, r);
  return 1;
}

/* core.region_enter(region or nil): where this thread builds. */
static int region_enter(lua_State *L) {
  td_region_enter(lua_isnoneornil(L, 1) ? NULL : to_region(L, 1)->r);
  return 0;
}

/* core.region_here(): that which this thread builds in; nil: none. Who entered
 * it holds it. */
static int region_here(lua_State *L) {
  td_region *r = td_region_here();
  lua_pushnil(L);
  if (!r) return 1;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &regions_key);
  lua_rawgetp(L, -1, r);
  return 1;
}

/* Those that exist of the graph whose handles are at `handles`. */
static void pin_all(lua_State *L, int graph, int handles, const td_region *r) {
  for (lua_pushnil(L); lua_next(L, handles); lua_pop(L, 1)) {
    const td_lua_edge *e = lua_touserdata(L, -1);
    if (e->node->region == r) td_lua_pin(L, graph, e->node);
  }
}

/* core.region_put_aside(region, by) */
static int region_put_aside(lua_State *L) {
  td_lua_region *u = to_region(L, 1);
  td_status *s = td_region_put_aside(u->r, td_lua_text(L, 2));
  lua_getiuservalue(L, 1, 1);
  int graph = lua_gettop(L);
  lua_getiuservalue(L, graph, 1);
  pin_all(L, graph, lua_gettop(L), u->r);
  td_lua_check(L, s);
  return 0;
}

/* core.region_take_back(region) */
static int region_take_back(lua_State *L) {
  td_region_take_back(to_region(L, 1)->r);
  return 0;
}

/* core.rename_variable(handle op, name) */
static int rename_variable(lua_State *L) {
  td_lua_edge *op = luaL_checkudata(L, 1, TD_LUA_OP);
  td_lua_check(L, td_region_rename_variable(op->node, td_lua_text(L, 2)));
  return 0;
}

/* core.region_sweep(graph) -> how many nodes are gone */
static int region_sweep(lua_State *L) {
  int32_t n;
  td_lua_check(L, td_region_sweep(td_lua_to_graph(L, 1), &n));
  lua_pushinteger(L, n);
  return 1;
}

/* core.region_stats(region) -> nodes, bytes, functions */
static int region_stats(lua_State *L) {
  td_region_stats s = td_region_read_stats(to_region(L, 1)->r);
  lua_pushinteger(L, s.nodes);
  lua_pushinteger(L, (lua_Integer)s.bytes);
  lua_pushinteger(L, s.functions);
  return 3;
}

/* core.region_of(op): nil for what goes with the graph. */
static int region_of(lua_State *L) {
  td_lua_edge *op = luaL_checkudata(L, 1, TD_LUA_OP);
  lua_getiuservalue(L, 1, 1);
  if (td_region_is_root(op->node->region))
    lua_pushnil(L);
  else
    push_region(L, -1, op->node->region);
  return 1;
}

/* core.region_users(graph, regions): a set of those that use them, by way of
 * others too. */
static int region_users(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  int n = (int)luaL_len(L, 2), n_users;
  size_t most = (size_t)td_graph_size(g) + (size_t)td_function_count(g);
  td_region **list = td_lua_block(L, (size_t)n, sizeof(td_region *));
  td_region **users = td_lua_block(L, most, sizeof(td_region *));
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    list[i] = to_region(L, -1)->r;
    lua_pop(L, 1);
  }
  td_lua_check(L, td_region_users(g, list, n, users, &n_users));
  lua_newtable(L);
  for (int i = 0; i < n_users; i++) {
    if (td_region_is_root(users[i])) continue;
    push_region(L, 1, users[i]);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
  }
  return 1;
}

/* core.is_gone(edge or op) */
static int is_gone(lua_State *L) {
  td_lua_edge *e = td_lua_to_edge(L, 1);
  if (!e) e = luaL_checkudata(L, 1, TD_LUA_OP);
  lua_pushboolean(L, e->node->gone);
  return 1;
}

/* core.region_is_old(edge or op) */
static int is_old(lua_State *L) {
  td_lua_edge *e = td_lua_to_edge(L, 1);
  if (!e) e = luaL_checkudata(L, 1, TD_LUA_OP);
  lua_pushboolean(L, td_region_is_old(e->node));
  return 1;
}

static void make_weak(lua_State *L, const char *mode, const char *key) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

void td_lua_open_region(lua_State *L) {
  static const luaL_Reg functions[] = {{"region_new", region_new},
                                       {"region_enter", region_enter},
                                       {"region_here", region_here},
                                       {"region_put_aside", region_put_aside},
                                       {"region_take_back", region_take_back},
                                       {"rename_variable", rename_variable},
                                       {"region_sweep", region_sweep},
                                       {"region_stats", region_stats},
                                       {"region_of", region_of},
                                       {"region_users", region_users},
                                       {"region_is_old", is_old},
                                       {"is_gone", is_gone},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  luaL_newmetatable(L, TD_LUA_REGION);
  lua_pushcfunction(L, region_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  make_weak(L, "k", &pins_key);
  make_weak(L, "v", &regions_key);
}
