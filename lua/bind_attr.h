/* bind_attr.h - attributes, from and to Lua.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_ATTR_H
#define TD_LUA_BIND_ATTR_H

#include <lua.h>

#include "engine/graph/attr.h"
#include "engine/graph/op.h"

/* The Lua value at `i` as an attribute. What it points to is on the Lua stack:
 * pushes values that must stay there. */
td_status *td_lua_to_attr(lua_State *L, int i, const td_op *op,
                          const td_attr_def *def, td_attr *out) TD_MUST_USE;
void td_lua_push_attr(lua_State *L, const td_attr *a);

#endif
