/* bind_remote.h - the interpreter's runtime among other processes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_REMOTE_H
#define TD_LUA_BIND_REMOTE_H

#include <lua.h>

#include "engine/remote/keys.h"
#include "engine/remote/remote.h"

/* The interpreter's td_remote, which dials only; made when it is first asked
 * for. Raises. Borrowed; valid while the interpreter is, and it is locked. */
td_remote *td_lua_remote(lua_State *L);
/* The pair of a folder; NULL: the user's own, or where he has none a fresh one,
 * which goes with the process. The caller wipes it (td_keys_wipe). */
td_status *td_lua_key_pair(const char *folder, td_keys_pair *out) TD_MUST_USE;

#endif
