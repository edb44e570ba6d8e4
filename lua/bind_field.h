/* bind_field.h - fields of Lua tables: the set ones of the table on top of the
 * stack, the read ones of the table at `i`.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_FIELD_H
#define TD_LUA_BIND_FIELD_H

#include <lua.h>
#include <stdbool.h>

/* Nothing is set for NULL. */
void td_lua_set_string(lua_State *L, const char *key, const char *s);
void td_lua_set_integer(lua_State *L, const char *key, lua_Integer v);
void td_lua_set_number(lua_State *L, const char *key, lua_Number v);
void td_lua_set_flag(lua_State *L, const char *key, bool v);
/* Is it there, and neither nil nor false? */
bool td_lua_flag(lua_State *L, int i, const char *key);
/* The integer there, or 0 for nil; raises for anything else. */
lua_Integer td_lua_integer(lua_State *L, int i, const char *key);

#endif
