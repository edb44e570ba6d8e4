/* bind_remote.h - the keys by which this process speaks with others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_REMOTE_H
#define TD_LUA_BIND_REMOTE_H

#include "engine/remote/keys.h"

/* The pair of a folder; NULL: the user's own, or where he has none a fresh one,
 * which goes with the process. The caller wipes it (td_keys_wipe). */
td_status *td_lua_key_pair(const char *folder, td_keys_pair *out) TD_MUST_USE;

#endif
