/* bind_field.c - fields of Lua tables, set and read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_field.h"

#include <lauxlib.h>

void td_lua_set_string(lua_State *L, const char *key, const char *s) {
  lua_pushstring(L, s);
  lua_setfield(L, -2, key);
}

void td_lua_set_integer(lua_State *L, const char *key, lua_Integer v) {
  lua_pushinteger(L, v);
  lua_setfield(L, -2, key);
}

void td_lua_set_number(lua_State *L, const char *key, lua_Number v) {
  lua_pushnumber(L, v);
  lua_setfield(L, -2, key);
}

void td_lua_set_flag(lua_State *L, const char *key, bool v) {
  lua_pushboolean(L, v);
  lua_setfield(L, -2, key);
}

bool td_lua_flag(lua_State *L, int i, const char *key) {
  lua_getfield(L, i, key);
  bool v = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return v;
}

lua_Integer td_lua_integer(lua_State *L, int i, const char *key) {
  lua_getfield(L, i, key);
  lua_Integer v = luaL_optinteger(L, -1, 0);
  lua_pop(L, 1);
  return v;
}
