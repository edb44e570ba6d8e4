/* bind_error.h - a td_status becomes a Lua error, here and nowhere else.
 *
 * lua_error jumps out of C, so nothing may be held when one of these is called:
 * whatever must survive is a userdata on the Lua stack (td_lua_block for arrays
 * that a call needs).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_ERROR_H
#define TD_LUA_BIND_ERROR_H

#include <lua.h>

#include "engine/base/status.h"

#define TD_LUA_ERROR "tide.error" /* the class of error objects */

/* Raises `s` as an error object; takes ownership. Does nothing when ok. */
void td_lua_check(lua_State *L, td_status *s);
/* The same for a step: one that the user interrupted says only that, and the
 * flag it looked at is cleared. */
void td_lua_check_step(lua_State *L, td_status *s);
/* Raises a new error. */
int td_lua_error(lua_State *L, td_code code, const char *fmt, ...)
    TD_PRINTF(3, 4);
/* The error with `fmt: ` before its message; NULL stays NULL. Takes ownership,
 * raises nothing. */
td_status *td_lua_prefix(td_status *s, const char *fmt, ...) TD_PRINTF(2, 3)
    TD_MUST_USE;
/* Is it an error object? */
bool td_lua_is_error(lua_State *L, int i);
/* An error object on top of the stack has come out of a coroutine: the frames
 * that resumed it join its traceback. */
void td_lua_error_resumed(lua_State *L);
/* "file.lua:12" of the first frame outside the library; "" when none. */
const char *td_lua_origin(lua_State *L, char *buf, size_t size);
/* Pushes `head` and, on lines of their own, "file.lua:12: in ..." for each of the
 * user's frames of the coroutine `of`, innermost first. False, and nothing is pushed,
 * where there is none. */
bool td_lua_push_frames(lua_State *L, lua_State *of, const char *head);

#endif
