/* debug.h - what a debugger needs of the interpreter: a look at each line of
 * the user's and at errors where they are raised, and a halt there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_DEBUG_H
#define TD_LUA_DEBUG_H

#include <lua.h>

/* Functions of tide.frontend: debug, pause, resume. */
int td_debug_set(lua_State *L);
int td_debug_pause(lua_State *L);
int td_debug_resume(lua_State *L);
/* Shows the debugger the error at `err`, in a message handler. */
void td_debug_raised(lua_State *L, int err);

#endif
