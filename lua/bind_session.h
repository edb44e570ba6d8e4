/* bind_session.h - sessions as Lua has them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_SESSION_H
#define TD_LUA_BIND_SESSION_H

#include <lauxlib.h>
#include <lua.h>

#include "engine/run/session.h"
#include "lua/bind_growth.h"

/* The open session at `i`; raises. Borrowed while it is on the stack. */
td_session *td_lua_to_session(lua_State *L, int i);
/* What is known of its graph's growth. Borrowed likewise. */
td_lua_growth *td_lua_session_growth(lua_State *L, int i);
/* Adds to what sessions can do. */
void td_lua_session_methods(lua_State *L, const luaL_Reg *methods);

#endif
