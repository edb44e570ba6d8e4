/* bind_check.c - what is at an address, who, and how good ways are: for `tide
 * cluster check`. All of it waits, lets go of the interpreter meanwhile and
 * hears an interrupt.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"
#include "engine/remote/knock.h"
#include "engine/remote/remote.h"
#include "lua/bind.h"
#include "lua/bind_field.h"
#include "lua/bind_remote.h"

/* core.knock(address, seconds) -> what was found, what the system says */
static int knock(lua_State *L) {
  td_lua_state *st = td_lua_get(L);
  const char *address = td_lua_text(L, 1);
  int64_t until = td_clock_now() + td_lua_seconds(L, 2);
  td_knock_found found = TD_KNOCK_UNKNOWN;
  td_str what = {0};
  td_lua_unlock(st);
  td_status *s = td_knock(address, until, td_lua_interrupt(), &found, &what);
  td_lua_lock(st);
  if (!td_ok(s)) td_str_deinit(&what);
  td_lua_check_step(L, s);
  lua_pushstring(L, td_knock_name(found));
  td_lua_push_str(L, &what);
  return 2;
}

#define KNOWN "tide.remote.known"

static int known_gc(lua_State *L) {
  td_remote_known_deinit(lua_touserdata(L, 1));
  return 0;
}

static void push_known(lua_State *L, const td_remote_known *k) {
  lua_createtable(L, 0, 10);
  td_lua_set_string(L, "task", k->task);
  td_lua_set_string(L, "build", k->build);
  td_lua_set_string(L, "isa", k->isa);
  td_lua_set_string(L, "data", k->data);
  td_lua_set_integer(L, "incarnation", (lua_Integer)k->incarnation);
  td_lua_set_integer(L, "pid", (lua_Integer)k->pid);
  td_lua_set_integer(L, "devices", k->devices);
  td_lua_set_integer(L, "memory", (lua_Integer)k->memory);
  lua_pushboolean(L, k->same_ops);
  lua_setfield(L, -2, "same_ops");
  lua_pushboolean(L, k->same_host);
  lua_setfield(L, -2, "same_host");
}

/* core.reach(address, key or nil, seconds) -> who is there */
static int reach(lua_State *L) {
  td_lua_state *st = td_lua_get(L);
  td_attach_options o = {.to = {.control = td_lua_text(L, 1)},
                         .timeout = td_lua_seconds(L, 3),
                         .interrupt = td_lua_interrupt()};
  if (!lua_isnil(L, 2)) o.to.key = td_lua_text(L, 2);
  td_remote_known *k = lua_newuserdatauv(L, sizeof *k, 0);
  *k = (td_remote_known){0};
  luaL_setmetatable(L, KNOWN);
  td_remote *r = td_remote_retain(td_lua_remote(L));
  td_lua_unlock(st);
  td_status *s = td_remote_reach(r, &o, k);
  td_remote_release(r);
  td_lua_lock(st);
  td_lua_check_step(L, s);
  push_known(L, k);
  return 1;
}

/* core.measure{from =, to =, rounds =, bytes =, seconds =} -> a table of
 * seconds and bytes; `from` and `to` are incarnations, 0: this process. */
static int measure(lua_State *L) {
  td_lua_state *st = td_lua_get(L);
  td_remote_measured m;
  luaL_checktype(L, 1, LUA_TTABLE);
  td_measure_options o = {.from = (uint64_t)td_lua_integer(L, 1, "from"),
                          .to = (uint64_t)td_lua_integer(L, 1, "to"),
                          .rounds = (uint32_t)td_lua_integer(L, 1, "rounds"),
                          .bytes = (uint64_t)td_lua_integer(L, 1, "bytes"),
                          .interrupt = td_lua_interrupt()};
  lua_getfield(L, 1, "seconds");
  o.timeout = td_lua_seconds(L, -1);
  td_remote *r = td_remote_retain(td_lua_remote(L));
  td_lua_unlock(st);
  td_status *s = td_remote_measure(r, &o, &m);
  td_remote_release(r);
  td_lua_lock(st);
  td_lua_check_step(L, s);
  lua_createtable(L, 0, 6);
  td_lua_set_number(L, "least", (double)m.least * 1e-9);
  td_lua_set_number(L, "median", (double)m.median * 1e-9);
  td_lua_set_number(L, "clock", (double)m.clock * 1e-9);
  td_lua_set_number(L, "wall", (double)m.wall * 1e-9);
  td_lua_set_integer(L, "bytes", (lua_Integer)m.bytes);
  td_lua_set_number(L, "took", (double)m.took * 1e-9);
  return 1;
}

TD_LUA_OPEN(check) {
  static const luaL_Reg functions[] = {
      {"knock", knock}, {"reach", reach}, {"measure", measure}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  luaL_newmetatable(L, KNOWN);
  lua_pushcfunction(L, known_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}
