/* bind.h - what every file of the Lua binding stands on.
 *
 * The binding is the only C that knows Lua and the engine. A file bind_x.c
 * gives the library functions of module "tide.core", and what other files of
 * the binding need of it is in bind_x.h. bind.c says in which order they call
 * each other.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_H
#define TD_LUA_BIND_H

#include <lauxlib.h>
#include <lua.h>

#include "lua/bind_error.h"
#include "lua/bind_object.h"
#include "lua/bind_state.h"

/* Begins the definition of a file's opener, which makes its classes and puts
 * its functions into the table on top of the stack, in any order with the
 * others:
 *
 *   TD_LUA_OPEN(data) {
 *     luaL_setfuncs(L, functions, 0);
 *   }
 *
 * Make finds these lines and lists the openers in build/lua_openers.c. */
#define TD_LUA_OPEN(name)                                                      \
  void td_lua_open_##name(lua_State *L);                                       \
  void td_lua_open_##name(lua_State *L)

extern void (*const td_lua_openers[])(lua_State *L); /* ends with NULL */

/* The library in Lua, embedded. */
extern const struct td_lua_file {
  const char *name;  /* "tide.ops" */
  const char *chunk; /* "=[tide] ops.lua" */
  const char *text;
  size_t len;
} td_lua_library[]; /* build/lua_library.c; ends with {0} */

#endif
