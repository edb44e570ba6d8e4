/* bind_remote.h - how this process speaks with others, and by which keys.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_REMOTE_H
#define TD_LUA_BIND_REMOTE_H

#include <lua.h>

#include "engine/remote/keys.h"
#include "engine/remote/remote.h"

/* The pair of a folder; NULL: the user's own, or where he has none a fresh one,
 * which goes with the process. The caller wipes it (td_keys_wipe). */
td_status *td_lua_key_pair(const char *folder, td_keys_pair *out) TD_MUST_USE;
/* The interpreter's; made when it is first asked for. Borrowed. */
td_remote *td_lua_remote(lua_State *L);
/* A number of seconds at `i`, in ns; raises. */
int64_t td_lua_seconds(lua_State *L, int i);

#endif
