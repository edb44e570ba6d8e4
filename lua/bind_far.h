/* bind_far.h - sessions whose master is another process, as the binding asks
 * them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_FAR_H
#define TD_LUA_BIND_FAR_H

#include <lua.h>

#include "engine/remote/far_session.h"

/* Asks the session, with the interpreter let go of, and pushes the answer's
 * bytes; raises. False, and nothing done, where its master is here. */
bool td_lua_far_ask(lua_State *L, td_session *s, td_far_question q);
/* The bytes of the string at the top of the stack. Borrowed. */
td_bytes td_lua_far_bytes(lua_State *L);
/* Takes a text off *from; raises where there is none. The result is the string
 * that it pushes. */
const char *td_lua_far_text(lua_State *L, td_bytes *from);
/* The same for a number of n bytes. */
uint64_t td_lua_far_number(lua_State *L, td_bytes *from, int n);

#endif
