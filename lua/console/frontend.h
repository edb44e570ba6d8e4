/* frontend.h - module tide.frontend: what the console's Lua code asks of C.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_FRONTEND_H
#define TD_LUA_FRONTEND_H

#include <lua.h>

#include "lua/console/host.h"

/* Preloads it. `f` is borrowed, or NULL for scripts. */
void td_frontend_open(lua_State *L, const td_frontend *f);

#endif
