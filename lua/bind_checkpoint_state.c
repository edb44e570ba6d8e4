/* bind_checkpoint_state.c - which checkpoints a folder has, as text and as a
 * table; removing one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/io/checkpoint_state.h"
#include "lua/bind.h"
#include "lua/bind_field.h"

#define HELD "tide.checkpoint_state" /* while Lua may raise */

static int drop_held(lua_State *L) {
  td_checkpoint_state_deinit(lua_touserdata(L, 1));
  return 0;
}

static td_checkpoint_state *hold(lua_State *L) {
  td_checkpoint_state *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (td_checkpoint_state){0};
  luaL_setmetatable(L, HELD);
  return s;
}

/* core.checkpoint_state_parse(text) -> {newest =, preserved =, paths = list,
 * times = list} */
static int state_parse(lua_State *L) {
  td_bytes text;
  text.at = luaL_checklstring(L, 1, &text.len);
  td_checkpoint_state *s = hold(L);
  td_lua_check(L, td_checkpoint_state_parse(text, s));
  lua_createtable(L, 0, 4);
  td_lua_set_string(L, "newest", s->newest);
  td_lua_set_number(L, "preserved", s->preserved);
  lua_createtable(L, (int)s->paths.len, 0);
  for (size_t i = 0; i < s->paths.len; i++) {
    lua_pushstring(L, s->paths.at[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "paths");
  lua_createtable(L, (int)s->times.len, 0);
  for (size_t i = 0; i < s->times.len; i++) {
    lua_pushnumber(L, s->times.at[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "times");
  return 1;
}

static char *copy_text(lua_State *L, int i) {
  char *copy = td_strdup(td_lua_text(L, i));
  if (!copy) td_lua_check(L, td_oom());
  return copy;
}

static void read_paths(lua_State *L, td_checkpoint_state *s) {
  lua_getfield(L, 1, "paths");
  lua_Integer n = luaL_len(L, -1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    char *copy = copy_text(L, -1);
    if (!td_vec_push(&s->paths, copy)) {
      td_free(copy);
      td_lua_check(L, td_oom());
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void read_times(lua_State *L, td_checkpoint_state *s) {
  lua_getfield(L, 1, "times");
  lua_Integer n = luaL_len(L, -1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    double t = luaL_checknumber(L, -1);
    if (!td_vec_push(&s->times, t)) td_lua_check(L, td_oom());
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* core.checkpoint_state_print(what parse gives) -> text */
static int state_print(lua_State *L) {
  td_str out;
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  td_checkpoint_state *s = hold(L);
  if (lua_getfield(L, 1, "newest") != LUA_TNIL) s->newest = copy_text(L, -1);
  if (lua_getfield(L, 1, "preserved") != LUA_TNIL)
    s->preserved = luaL_checknumber(L, -1);
  lua_pop(L, 2);
  read_paths(L, s);
  read_times(L, s);
  td_str_init(&out);
  td_checkpoint_state_print(s, &out);
  td_lua_push_str(L, &out);
  return 1;
}

/* core.checkpoint_remove(prefix) */
static int remove_one(lua_State *L) {
  const char *prefix = td_lua_text(L, 1);
  td_lua_state *st = td_lua_get(L);
  td_lua_unlock(st);
  td_status *s = td_checkpoint_remove(prefix);
  td_lua_lock(st);
  td_lua_check(L, s);
  return 0;
}

TD_LUA_OPEN(checkpoint_state) {
  static const luaL_Reg functions[] = {{"checkpoint_state_parse", state_parse},
                                       {"checkpoint_state_print", state_print},
                                       {"checkpoint_remove", remove_one},
                                       {NULL, NULL}};
  luaL_newmetatable(L, HELD);
  lua_pushcfunction(L, drop_held);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
