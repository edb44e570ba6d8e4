/* bind_shape.h - shapes and dtypes, from and to Lua.
 *
 * In Lua a shape is a list of sizes that cannot be written to, -1 for a size
 * that is not known, and nil when not even the rank is known. A dtype is its
 * name.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_SHAPE_H
#define TD_LUA_BIND_SHAPE_H

#include <lua.h>

#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

/* nil for an unknown rank. */
void td_lua_push_shape(lua_State *L, const td_shape *s);
/* A plain list of sizes, a shape, nil. */
td_status *td_lua_to_shape(lua_State *L, int i, td_shape *out) TD_MUST_USE;
/* Puts the plain list in place of a shape at `i`; leaves other values. */
void td_lua_list(lua_State *L, int i);
td_status *td_lua_to_dtype(lua_State *L, int i, td_dtype *out) TD_MUST_USE;

#endif
