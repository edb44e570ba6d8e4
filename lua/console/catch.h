/* catch.h - an interrupt is an error that nobody catches.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_CATCH_H
#define TD_LUA_CATCH_H

#include <lua.h>
#include <stdbool.h>

/* Replaces pcall, xpcall and coroutine.resume, .wrap and .close. */
void td_catch_open(lua_State *L);
/* An error has arrived where it would be caught: is it an interrupt's, which is
 * to be raised again? If so, what it closes on its way has its time from now.
 * `inner`: the call that would catch it began in such a closing handler, which
 * catches as ever. */
bool td_catch_passes(bool inner);

#endif
