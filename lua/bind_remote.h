/* bind_remote.h - the keys by which this process speaks with others, and its
 * talk with them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_REMOTE_H
#define TD_LUA_BIND_REMOTE_H

#include "engine/remote/keys.h"
#include "engine/remote/remote.h"
#include "lua/bind.h"

/* The pair of a folder; NULL: the user's own, or where he has none a fresh one,
 * which goes with the process. The caller wipes it (td_keys_wipe). */
td_status *td_lua_key_pair(const char *folder, td_keys_pair *out) TD_MUST_USE;
/* The interpreter's; made when it is first asked for. Raises. Borrowed. */
td_remote *td_lua_remote(lua_State *L);
/* The field `patience` of the table at i; 0: none is given. */
lua_Number td_lua_patience(lua_State *L, int i);
/* The seconds at index `i` as ns, more than 0. Raises. */
int64_t td_lua_seconds(lua_State *L, int i);

#endif
