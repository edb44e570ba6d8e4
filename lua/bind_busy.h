/* bind_busy.h - long calls on an object that other lines of evaluation see.
 *
 * The interpreter is let go of meanwhile, and the object counts who is at it, so
 * that nobody closes it or works on it at the same time:
 *
 *   td_lua_busy_check(L, u->busy, "archive");
 *   td_lua_state *st = td_lua_busy_begin(L, &u->busy);
 *   td_status *s = td_npz_read(u->z, ..);   nothing of Lua may be touched here
 *   td_lua_busy_end(st, &u->busy);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_BUSY_H
#define TD_LUA_BIND_BUSY_H

#include "lua/bind_state.h"

TD_BEGIN

/* Raises when a line of evaluation is at it; `what` it is: "archive". */
void td_lua_busy_check(lua_State *L, int busy, const char *what);
/* *busy is of an object that stays on the stack. The result is end's. */
td_lua_state *td_lua_busy_begin(lua_State *L, int *busy);
void td_lua_busy_end(td_lua_state *st, int *busy);

TD_END
#endif
