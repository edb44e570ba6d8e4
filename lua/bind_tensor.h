/* bind_tensor.h - values: tensors as Lua has them, what `td.tensor` gives.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_TENSOR_H
#define TD_LUA_BIND_TENSOR_H

#include <lua.h>

#include "engine/tensor/tensor.h"

/* Pushes a value that takes what is in `t`. Raises; `t` is empty then too. */
void td_lua_push_tensor(lua_State *L, td_tensor *t);
/* The value at `i`; borrowed while it is on the stack. */
td_tensor *td_lua_to_value(lua_State *L, int i);    /* or NULL */
td_tensor *td_lua_check_value(lua_State *L, int i); /* or raises */
/* Room for n tensors on the Lua stack, invalid; what is still valid when it is
 * collected is released: results that an error must not leak. */
td_tensor *td_lua_tensors(lua_State *L, size_t n);
/* What a step gives, to Lua: rank 0 as a number, boolean or string unless
 * `as_value`, else a value. Take ownership of *t. `try` leaves an error on the
 * stack and returns false; `push` raises it. */
bool td_lua_try_result(lua_State *L, td_tensor *t, bool as_value);
void td_lua_push_result(lua_State *L, td_tensor *t, bool as_value);
/* Element i of a tensor of numbers, booleans or strings; complex numbers are
 * {re, im}. */
void td_lua_push_element(lua_State *L, const td_tensor *t, int64_t i);

#endif
