/* finalize.c - finalizers that an interrupt reaches.
 *
 * Lua runs a __gc with the coroutine's hooks off: one that loops could be ended
 * by nothing, and would keep the interpreter from all other lines. So a
 * console's setmetatable puts a function of C in the place of a __gc written in
 * Lua, which runs it in a coroutine of its own, with hooks of its own. Lua
 * makes a warning of what a finalizer raises; an interrupt is meant for the
 * code that runs, so it is raised there once more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/console/finalize.h"

#include "lua/console/line_impl.h"

static const char spare; /* the key of a coroutine that is free, or false */

/* Pushes a coroutine: the same one as long as it is free. Many finalizers may
 * come at once, and nothing is collected meanwhile. */
static lua_State *take(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &spare) != LUA_TTHREAD) {
    lua_pop(L, 1);
    return lua_newthread(L);
  }
  lua_pushboolean(L, false);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &spare);
  return lua_tothread(L, -1);
}

/* The coroutine, which has ended, is first on the stack of L. */
static void give_back(lua_State *L, lua_State *co) {
  lua_settop(co, 0);
  lua_pushvalue(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &spare);
}

/* In the coroutine: calls the function below its arguments; gives its error, if
 * there is one. Inside of a protected call an interrupt leaves the hooks on for
 * the handlers that close variables, and for those who come later. */
static int protect(lua_State *co) {
  return lua_pcall(co, lua_gettop(co) - 1, 0, 0) == LUA_OK ? 0 : 1;
}

/* Moves the function and its n arguments into a coroutine, which stays on the
 * stack. */
static lua_State *prepare(lua_State *L, int n) {
  lua_State *co = take(L);
  if (!lua_checkstack(co, n + 2)) luaL_error(L, "too many arguments");
  lua_insert(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 2);
  lua_pushcfunction(co, protect);
  lua_xmove(L, co, n + 1);
  return co;
}

static int finalize(lua_State *L) {
  td_line *l = td_line_current();
  int n = lua_gettop(L), results;
  lua_State *co = prepare(L, n);
  bool raised = l && td_line_raised(l);
  int depth = td_line_enter(l, co);
  int rc = lua_resume(co, L, n + 1, &results);
  td_line_leave(l, depth, co);
  bool failed = rc != LUA_OK || results;
  if (failed) lua_xmove(co, L, 1);
  if (rc == LUA_OK) give_back(L, co);
  if (!failed) return 0;
  if (l && !raised) td_line_raise_again(l);
  return lua_error(L);
}

/* "__gc" is the first upvalue of who calls this: to make the string each time
 * would be most of what it costs. */
static void guard(lua_State *L, int meta) {
  lua_pushvalue(L, lua_upvalueindex(1));
  if (lua_rawget(L, meta) == LUA_TFUNCTION && !lua_iscfunction(L, -1)) {
    lua_pushcclosure(L, finalize, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, -2);
    lua_rawset(L, meta);
  }
}

static void check_metatable(lua_State *L) {
  int t = lua_type(L, 2);
  luaL_argexpected(L, t == LUA_TNIL || t == LUA_TTABLE, 2, "nil or table");
}

/* setmetatable(t, meta) */
static int set_metatable(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  check_metatable(L);
  if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
    return luaL_error(L, "cannot change a protected metatable");
  if (lua_istable(L, 2)) guard(L, 2);
  lua_settop(L, 2);
  lua_setmetatable(L, 1);
  return 1;
}

/* debug.setmetatable(x, meta) */
static int set_any_metatable(lua_State *L) {
  check_metatable(L);
  if (lua_istable(L, 2)) guard(L, 2);
  lua_settop(L, 2);
  lua_setmetatable(L, 1);
  return 1;
}

void td_finalize_open(lua_State *L) {
  lua_pushboolean(L, false);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &spare);
  lua_pushliteral(L, "__gc");
  lua_pushcclosure(L, set_metatable, 1);
  lua_setglobal(L, "setmetatable");
  lua_getglobal(L, "debug");
  lua_pushliteral(L, "__gc");
  lua_pushcclosure(L, set_any_metatable, 1);
  lua_setfield(L, -2, "setmetatable");
  lua_pop(L, 1);
}
