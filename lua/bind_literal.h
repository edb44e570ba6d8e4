/* bind_literal.h - Lua literals as tensors: a number, a boolean, a string, or a
 * nested table of them.
 *
 * By itself a literal of whole numbers only is int32, other numbers are
 * float32, and so is {}.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_LITERAL_H
#define TD_LUA_BIND_LITERAL_H

#include <lua.h>

#include "engine/tensor/tensor.h"

/* The literal at `i` as a tensor in host memory, of dtype `want`, or of the
 * dtype it has by itself (TD_INVALID). Caller owns the result. */
td_status *td_lua_literal(lua_State *L, int i, td_dtype want,
                          td_tensor *out) TD_MUST_USE;
/* A literal or a value; a value must have dtype `want`. Caller owns the
 * result. */
td_status *td_lua_as_tensor(lua_State *L, int i, td_dtype want,
                            td_tensor *out) TD_MUST_USE;
/* The dtype a literal has by itself; TD_INVALID when it is none. */
td_dtype td_lua_literal_dtype(lua_State *L, int i);

#endif
