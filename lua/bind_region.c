/* bind_region.c - regions: what a notebook's cell built, and how it is taken
 * out of the graph when the cell runs again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graphdef/function.h"
#include "lua/bind.h"
#include "lua/bind_handle.h"

/* core.region_new(graph) */
static int region_new(lua_State *L) {
  td_region *r;
  td_lua_check(L, td_region_new(td_lua_to_graph(L, 1), &r));
  td_lua_push_region(L, 1, r);
  return 1;
}

/* core.region_enter(region or nil): where this thread builds. */
static int region_enter(lua_State *L) {
  td_region_enter(lua_isnoneornil(L, 1) ? NULL : td_lua_check_region(L, 1));
  return 0;
}

/* core.region_current(): the one this thread builds in, or nil. Whoever entered
 * it has its handle. */
static int region_current(lua_State *L) {
  td_region *r = td_region_current();
  if (r)
    td_lua_find_region(L, r);
  else
    lua_pushnil(L);
  return 1;
}

/* core.region_retire(region, by): its names are free for new nodes. `by`, "cell
 * In[3] ran again", is said to who uses a node of it once that is gone. */
static int region_retire(lua_State *L) {
  td_region *r = td_lua_check_region(L, 1);
  td_status *s = td_region_retire(r, td_lua_text(L, 2));
  td_lua_push_graph_of(L, 1);
  td_lua_pin_region(L, -1, r);
  td_lua_check(L, s);
  return 0;
}

/* core.region_restore(region): it is retired no more. */
static int region_restore(lua_State *L) {
  td_region_restore(td_lua_check_region(L, 1));
  return 0;
}

/* core.rename_variable(op that makes its handle, name) */
static int rename_variable(lua_State *L) {
  td_lua_check(
      L, td_region_rename_variable(td_lua_check_op(L, 1), td_lua_text(L, 2)));
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
  td_region_stats s = td_region_read_stats(td_lua_check_region(L, 1));
  lua_pushinteger(L, s.nodes);
  lua_pushinteger(L, (lua_Integer)s.bytes);
  lua_pushinteger(L, s.functions);
  return 3;
}

/* core.region_of(op): nil for what lives as long as its graph. */
static int region_of(lua_State *L) {
  td_region *r = td_lua_check_op(L, 1)->region;
  td_lua_push_graph_of(L, 1);
  if (td_region_is_root(r))
    lua_pushnil(L);
  else
    td_lua_push_region(L, -1, td_region_retain(r));
  return 1;
}

/* core.region_users(graph, {regions}) -> a set: those regions and the ones that
 * use their nodes, directly or through others. */
static int region_users(lua_State *L) {
  td_graph *g = td_lua_to_graph(L, 1);
  int n = (int)luaL_len(L, 2), n_users;
  size_t most = (size_t)td_graph_size(g) + (size_t)td_function_count(g);
  td_region **list = td_lua_block(L, (size_t)n, sizeof(td_region *));
  td_region **users = td_lua_block(L, most, sizeof(td_region *));
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    list[i] = td_lua_check_region(L, -1);
    lua_pop(L, 1);
  }
  td_lua_check(L, td_region_users(g, list, n, users, &n_users));
  lua_newtable(L);
  for (int i = 0; i < n_users; i++) {
    if (td_region_is_root(users[i])) continue;
    td_lua_push_region(L, 1, td_region_retain(users[i]));
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
  }
  return 1;
}

/* core.is_gone(edge or op): was its node taken out? */
static int is_gone(lua_State *L) {
  lua_pushboolean(L, td_lua_check_node(L, 1)->gone);
  return 1;
}

/* core.region_has_old_name(edge or op): is it "x.old" for now? */
static int region_has_old_name(lua_State *L) {
  lua_pushboolean(L, td_region_has_old_name(td_lua_check_node(L, 1)));
  return 1;
}

TD_LUA_OPEN(region) {
  static const luaL_Reg functions[] = {
      {"region_new", region_new},
      {"region_enter", region_enter},
      {"region_current", region_current},
      {"region_retire", region_retire},
      {"region_restore", region_restore},
      {"rename_variable", rename_variable},
      {"region_sweep", region_sweep},
      {"region_stats", region_stats},
      {"region_of", region_of},
      {"region_users", region_users},
      {"region_has_old_name", region_has_old_name},
      {"is_gone", is_gone},
      {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
