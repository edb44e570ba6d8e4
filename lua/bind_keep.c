/* bind_keep.c - sessions that another process keeps: made, joined, listed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/bytes.h"
#include "lua/bind.h"
#include "lua/bind_far.h"
#include "lua/bind_field.h"
#include "lua/bind_handle.h"
#include "lua/bind_remote.h"
#include "lua/bind_session.h"

/* core.far_open(session, graph, address, key or nil, seconds, {name =, join =,
 * outlive =, threads =, cpu_devices =}) */
static int far_open(lua_State *L) {
  td_session *s = td_lua_to_session(L, 1);
  td_graph *g = td_lua_to_graph(L, 2);
  td_lua_state *st = td_lua_get(L);
  td_far_options o = {.at = {.to = {.control = td_lua_text(L, 3)},
                             .timeout = td_lua_seconds(L, 5),
                             .interrupt = td_lua_interrupt()}};
  if (!lua_isnil(L, 4)) o.at.to.key = td_lua_text(L, 4);
  o.join = td_lua_flag(L, 6, "join");
  o.outlive = td_lua_flag(L, 6, "outlive");
  o.threads = (int)td_lua_integer(L, 6, "threads");
  o.cpu_devices = (int)td_lua_integer(L, 6, "cpu_devices");
  lua_getfield(L, 6, "name");
  o.name = td_lua_text(L, -1);
  td_remote *r = td_remote_retain(td_lua_remote(L));
  td_session_retain(s);
  td_graph_retain(g);
  td_lua_unlock(st);
  td_status *status = td_far_open(r, s, g, &o);
  td_lua_lock(st);
  td_graph_release(g);
  td_session_release(s);
  td_remote_release(r);
  td_lua_check_step(L, status);
  return 0;
}

/* core.far_name(session) -> its name there and the server's task; nil where its
 * master is here */
static int far_name(lua_State *L) {
  td_far_session *f = td_far_session_of(td_lua_to_session(L, 1));
  if (!f) return 0;
  lua_pushstring(L, td_far_name(f));
  lua_pushstring(L, td_far_task(f));
  return 2;
}

/* The list of an answer. */
static void push_list(lua_State *L, td_bytes from) {
  uint64_t n = td_lua_far_number(L, &from, 4);
  lua_newtable(L);
  for (uint64_t i = 0; i < n; i++) {
    lua_createtable(L, 0, 5);
    td_lua_far_text(L, &from);
    lua_setfield(L, -2, "name");
    td_lua_set_integer(L, "steps", (lua_Integer)td_lua_far_number(L, &from, 8));
    td_lua_set_number(L, "age", (double)td_lua_far_number(L, &from, 8) * 1e-3);
    td_lua_set_integer(L, "loops", (lua_Integer)td_lua_far_number(L, &from, 8));
    td_lua_set_flag(L, "outlive", td_lua_far_number(L, &from, 1) != 0);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* core.far_list(address, key or nil, seconds) -> {{name =, steps =, age =
 * seconds, loops =, outlive =}, ...} */
static int far_list(lua_State *L) {
  td_lua_state *st = td_lua_get(L);
  td_attach_options at = {.to = {.control = td_lua_text(L, 1)},
                          .timeout = td_lua_seconds(L, 3),
                          .interrupt = td_lua_interrupt()};
  td_str out = {0};
  if (!lua_isnil(L, 2)) at.to.key = td_lua_text(L, 2);
  td_remote *r = td_remote_retain(td_lua_remote(L));
  td_lua_unlock(st);
  td_status *status = td_far_list(r, &at, &out);
  td_lua_lock(st);
  td_remote_release(r);
  if (!td_ok(status)) td_str_deinit(&out);
  td_lua_check_step(L, status);
  td_lua_push_str(L, &out);
  push_list(L, td_lua_far_bytes(L));
  return 1;
}

TD_LUA_OPEN(keep) {
  static const luaL_Reg functions[] = {{"far_open", far_open},
                                       {"far_name", far_name},
                                       {"far_list", far_list},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
