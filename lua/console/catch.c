/* catch.c - pcall, xpcall and coroutines of a console.
 *
 * They do as Lua's, but an interrupt goes through. With Lua's own pcall, Ctrl-C
 * in
 *
 *   while true do pcall(work) end
 *
 * would end one call of work() and the loop would go on. So whatever catches an
 * interrupt's error raises it again, up to the protected call that the console
 * itself made. On the way `local x <close>` variables are closed; a pcall that
 * begins in such a handler (an *inner* one) catches as ever, as long as the
 * handlers' time lasts.
 *
 * A Lua hook belongs to one coroutine. So that an interrupt reaches the one
 * that runs, resume and wrap keep the stack of a line's coroutines
 * (td_line_enter, td_line_leave).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/console/catch.h"

#include "lua/bind_error.h"
#include "lua/console/line_impl.h"

/* Does a call that begins now begin in what an interrupt closes? */
static bool is_inner(void) {
  const td_line *l = td_line_current();
  return l && td_line_unwinds(l);
}

bool td_catch_passes(bool inner) {
  td_line *l = td_line_current();
  if (!l || !td_line_interrupted(l) || (inner && td_line_unwinds(l)))
    return false;
  td_line_unwind(l);
  return true;
}

/* ---- protected calls ---- */

/* The message handler of pcall: it runs where the error was raised, before
 * anything is closed, so that an interrupt's time begins there. */
static int on_error(lua_State *L) {
  td_catch_passes(false);
  lua_settop(L, 1);
  return 1;
}

/* The same for xpcall, whose handler is the first upvalue. */
static int handle(lua_State *L) {
  lua_settop(L, 1);
  if (td_catch_passes(lua_toboolean(L, lua_upvalueindex(2)))) return 1;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

enum { INNER = 1 << 8 }; /* in `about` of finish */

/* What pcall returns, once the call has ended or a coroutine in it goes on. The
 * stack holds first values of ours, as many as `about` says, then true and the
 * results, or the error. */
static int finish(lua_State *L, int status, lua_KContext about) {
  if (status == LUA_OK || status == LUA_YIELD)
    return lua_gettop(L) - (int)(about & ~INNER);
  if (td_catch_passes(about & INNER)) return lua_error(L);
  lua_pushboolean(L, false);
  lua_pushvalue(L, -2);
  return 2;
}

/* At `at` is the message handler; behind it true, the function, arguments. */
static int call(lua_State *L, int at) {
  int n = lua_gettop(L) - at - 2;
  lua_KContext about = at | (is_inner() ? INNER : 0);
  return finish(L, lua_pcallk(L, n, LUA_MULTRET, at, about, finish), about);
}

static int protected_call(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushcfunction(L, on_error);
  lua_pushboolean(L, true);
  lua_rotate(L, 1, 2);
  return call(L, 1);
}

static int protected_call_handled(lua_State *L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushvalue(L, 2);
  lua_pushboolean(L, is_inner());
  lua_pushcclosure(L, handle, 2);
  lua_replace(L, 2);
  lua_pushboolean(L, true);
  lua_pushvalue(L, 1);
  lua_rotate(L, 3, 2);
  return call(L, 2);
}

/* ---- coroutines ---- */

/* Resumes `co` with n arguments from the top of L. Results or the error message
 * are moved to L; returns their number, or -1. */
static int resume(lua_State *L, lua_State *co, int n) {
  td_line *l = td_line_current();
  int results;
  if (!lua_checkstack(co, n)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, n);
  int depth = td_line_enter(l, co);
  int rc = lua_resume(co, L, n, &results);
  td_line_leave(l, depth, co);
  if (rc != LUA_OK && rc != LUA_YIELD) {
    lua_xmove(co, L, 1);
    td_lua_error_resumed(L);
    return -1;
  }
  if (!lua_checkstack(L, results + 1)) {
    lua_pop(co, results);
    lua_pushliteral(L, "too many results to resume");
    return -1;
  }
  lua_xmove(co, L, results);
  return results;
}

/* Runs the handlers of its variables that are to be closed. */
static int reset(lua_State *co) {
  td_line *l = td_line_current();
  int depth = td_line_enter(l, co);
  int status = lua_resetthread(co);
  td_line_leave(l, depth, co);
  return status;
}

static bool resumable(lua_State *L, lua_State *co) {
  if (co == L || (lua_status(co) == LUA_OK && lua_gettop(co) == 0))
    return false;
  if (lua_status(co) == LUA_YIELD) return true;
  lua_Debug ar;
  return lua_status(co) == LUA_OK && !lua_getstack(co, 0, &ar);
}

static int co_resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  bool inner = is_inner();
  int n = -1;
  if (resumable(L, co)) {
    n = resume(L, co, lua_gettop(L) - 1);
    if (n < 0 && td_catch_passes(inner)) {
      reset(co);
      return lua_error(L);
    }
  } else {
    bool dead = lua_status(co) == LUA_OK || lua_status(co) > LUA_YIELD;
    lua_pushstring(L, dead && co != L && lua_gettop(co) == 0
                          ? "cannot resume dead coroutine"
                          : "cannot resume non-suspended coroutine");
  }
  lua_pushboolean(L, n >= 0);
  lua_insert(L, n >= 0 ? -(n + 1) : -2);
  return n >= 0 ? n + 1 : 2;
}

static int wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  if (!resumable(L, co)) return luaL_error(L, "cannot resume dead coroutine");
  int n = resume(L, co, lua_gettop(L));
  if (n >= 0) return n;
  int status = lua_status(co);
  td_catch_passes(false);
  if (status != LUA_OK && status != LUA_YIELD) {
    reset(co); /* closes its pending variables */
    if (lua_gettop(co) > 0 && !lua_isnil(co, -1)) lua_pop(co, 1);
  }
  if (lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int co_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, wrapped, 1);
  return 1;
}

static int co_close(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  lua_Debug ar;
  if (co == L || (lua_status(co) == LUA_OK && lua_getstack(co, 0, &ar)))
    return luaL_error(L, "cannot close a running coroutine");
  bool inner = is_inner(), ok = reset(co) == LUA_OK;
  lua_pushboolean(L, ok);
  if (ok) return 1;
  lua_xmove(co, L, 1);
  return td_catch_passes(inner) ? lua_error(L) : 2;
}

/* Puts the functions into the table at the top, in place of Lua's. */
static void replace(lua_State *L, const luaL_Reg *functions) {
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

void td_catch_open(lua_State *L) {
  static const luaL_Reg calls[] = {{"pcall", protected_call},
                                   {"xpcall", protected_call_handled},
                                   {NULL, NULL}};
  static const luaL_Reg coroutines[] = {{"close", co_close},
                                        {"resume", co_resume},
                                        {"wrap", co_wrap},
                                        {NULL, NULL}};
  lua_pushglobaltable(L);
  replace(L, calls);
  lua_getglobal(L, "coroutine");
  replace(L, coroutines);
}
