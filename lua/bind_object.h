/* bind_object.h - userdata: their classes and methods, memory on the Lua stack,
 * strings out of C's memory, what a message calls a value.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_OBJECT_H
#define TD_LUA_BIND_OBJECT_H

#include <lauxlib.h>
#include <lua.h>

#include "engine/base/str.h"

/* Classes that more than one file knows. */
#define TD_LUA_TENSOR "tide.tensor"
#define TD_LUA_GRAPH "tide.graph"
#define TD_LUA_EDGE "tide.edge"
#define TD_LUA_OP "tide.op"
#define TD_LUA_REGION "tide.region"
#define TD_LUA_SESSION "tide.session"

/* A cleared block of memory on the Lua stack. */
void *td_lua_block(lua_State *L, size_t n, size_t size);
/* A userdata of class `type`, cleared, with `uservalues`; false leaves the
 * error message on the stack instead. */
bool td_lua_try_object(lua_State *L, const char *type, size_t size,
                       int uservalues);
/* Registers the class of userdata `name`: its collector and its methods. */
void td_lua_make_class(lua_State *L, const char *name, lua_CFunction gc,
                       const luaL_Reg *methods);
/* A `local x <close>` of the class ends by `close`. */
void td_lua_set_close(lua_State *L, const char *name, lua_CFunction close);
/* Pushes a string of bytes and ends `s` or frees `bytes` in any case: raises
 * only once nothing is held. */
void td_lua_push_str(lua_State *L, td_str *s);
void td_lua_push_bytes(lua_State *L, char *bytes, size_t len);

/* Methods that the library wrote in Lua for a class, with core.set_methods:
 * pushes the one whose name is at `key`, or returns false with nothing
 * pushed. */
bool td_lua_method(lua_State *L, const char *type, int key);
/* Raises `no field "x" on a tensor; did you mean "y"?`. */
int td_lua_no_field(lua_State *L, const char *type, const char *key,
                    const char *const *fields);
/* An identifier, as against a slice such as "1:3"? */
bool td_lua_identifier(const char *s);
/* The string at `i`, which ends where C ends it: raises for one that holds a
 * zero byte, and for what is no string. */
const char *td_lua_text(lua_State *L, int i);
/* For messages: "tensor", "graph tensor", "op", else Lua's name of the type. */
const char *td_lua_what(lua_State *L, int i);

#endif
