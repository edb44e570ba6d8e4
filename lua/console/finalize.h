/* finalize.h - finalizers that an interrupt reaches.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_FINALIZE_H
#define TD_LUA_FINALIZE_H

#include <lua.h>

/* setmetatable and debug.setmetatable of a console, in place of Lua's. */
void td_finalize_open(lua_State *L);

#endif
