/* frontend.c - module tide.frontend: what the console's Lua code asks of C.
 *
 *   kind                              "notebook", "terminal" or "script"
 *   publish(type, content, metadata, buffers)   JSON texts, a list of strings
 *   metadata()                        JSON text of the request's, or nil
 *   buffer(n)                         its n-th buffer, or nil
 *   input(prompt, password)           the line typed, or nil and why not
 *   protected(f, ...)                 true, results; or false, error, frames,
 *                                     interrupted
 *   words(text)                       kind, start, stop of each word, flat
 *   word(text, at)                    those of the next one from byte `at` on
 *   line()                            the name of the line that runs
 *   interrupted()                     has this call been interrupted?
 *   debug(f, g)                       f(source, line) at each line, g(err) at
 *                                     errors of protected calls; nil: not
 *   pause(), resume()                 a line halts; all that halt go on
 *   execute, popen, capture        see child.h, capture.h
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/console/frontend.h"

#include <limits.h>
#include <string.h>

#include "lua/bind_scope.h"
#include "lua/console/capture.h"
#include "lua/console/catch.h"
#include "lua/console/child.h"
#include "lua/console/debug.h"
#include "lua/console/lexer.h"
#include "lua/console/line_impl.h"

static const td_frontend *frontend_of(lua_State *L) {
  (void)L;
  td_line *l = td_line_current();
  return l ? l->host->frontend : NULL;
}

static td_bytes bytes_arg(lua_State *L, int i, const char *missing) {
  td_bytes b = {0};
  if (lua_isnoneornil(L, i)) {
    b.at = missing;
    b.len = strlen(missing);
  } else {
    b.at = luaL_checklstring(L, i, &b.len);
  }
  return b;
}

/* The strings of the list at `i`, which keeps them. */
static td_bytes *buffers_arg(lua_State *L, int i, int *n) {
  *n = 0;
  if (lua_isnoneornil(L, i)) return NULL;
  luaL_checktype(L, i, LUA_TTABLE);
  lua_Unsigned count = lua_rawlen(L, i);
  luaL_argcheck(L, count <= 1 << 16, i, "too many buffers");
  td_bytes *b = td_lua_block(L, (size_t)count, sizeof *b);
  for (lua_Unsigned k = 0; k < count; k++) {
    lua_rawgeti(L, i, (lua_Integer)k + 1);
    luaL_argcheck(L, lua_type(L, -1) == LUA_TSTRING, i, "buffers are strings");
    b[k].at = lua_tolstring(L, -1, &b[k].len);
    lua_pop(L, 1);
  }
  *n = (int)count;
  return b;
}

static int publish(lua_State *L) {
  td_frontend_message m = {.type = luaL_checkstring(L, 1)};
  m.content = bytes_arg(L, 2, "{}");
  m.metadata = bytes_arg(L, 3, "{}");
  m.buffers = buffers_arg(L, 4, &m.n_buffers);
  const td_frontend *f = frontend_of(L);
  if (!f || !f->publish) return 0;
  td_line *l = td_line_current();
  td_line_wait(l);
  f->publish(f->arg, l, &m);
  td_line_resume(l);
  return 0;
}

static int push_part(lua_State *L, lua_Integer n) {
  const td_frontend *f = frontend_of(L);
  td_bytes b;
  if (n >= INT_MAX || !f || !f->part ||
      !f->part(f->arg, td_line_current(), (int)n, &b))
    lua_pushnil(L);
  else
    lua_pushlstring(L, b.at, b.len);
  return 1;
}

static int metadata(lua_State *L) {
  return push_part(L, -1);
}

static int buffer(lua_State *L) {
  lua_Integer n = luaL_checkinteger(L, 1);
  luaL_argcheck(L, n >= 1, 1, "buffers are counted from 1");
  return push_part(L, n - 1);
}

static int input(lua_State *L) {
  const char *prompt = luaL_optstring(L, 1, "");
  bool password = lua_toboolean(L, 2);
  const td_frontend *f = frontend_of(L);
  if (!f || !f->input) {
    lua_pushnil(L);
    lua_pushliteral(L, "there is nobody to ask");
    return 2;
  }
  td_line *l = td_line_current();
  td_str text;
  td_str_init(&text);
  td_line_wait(l);
  td_host_outcome o = f->input(f->arg, l, prompt, password, &text);
  td_line_resume(l);
  if (o != TD_HOST_OK) lua_pushnil(L);
  td_lua_push_str(L, &text);
  return o == TD_HOST_OK ? 1 : 2;
}

/* ---- protected calls ---- */

enum { MOST_FRAMES = 200 };

/* {source =, short_src =, line =, name =, what =} */
static void push_frame(lua_State *L, lua_Debug *ar) {
  lua_createtable(L, 0, 5);
  lua_pushstring(L, ar->source);
  lua_setfield(L, -2, "source");
  lua_pushstring(L, ar->short_src);
  lua_setfield(L, -2, "short_src");
  lua_pushinteger(L, ar->currentline);
  lua_setfield(L, -2, "line");
  lua_pushstring(L, ar->name);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, ar->what);
  lua_setfield(L, -2, "what");
}

/* The message handler of `protected`: notes in its upvalue, a list, where the
 * error was raised, innermost frame first. It is in C, since an interrupt that
 * was ignored for too long lets no Lua code run. The error itself stays what it
 * is: Lua calls a message handler for a syntax error too that `load` then
 * returns. */
static int note_frames(lua_State *L) {
  lua_Debug ar;
  td_catch_passes(false);
  lua_settop(L, 1);
  td_debug_raised(L, 1);
  lua_createtable(L, 8, 0);
  for (int level = 1; level < MOST_FRAMES && lua_getstack(L, level, &ar);
       level++) {
    if (!lua_getinfo(L, "Snl", &ar)) break;
    push_frame(L, &ar);
    lua_rawseti(L, 2, level);
  }
  lua_rawseti(L, lua_upvalueindex(1), 1);
  return 1;
}

/* f(...) with what a cell needs: where an error was raised, the scope in force
 * before, and an interrupt that ends here. On the stack stand two values of the
 * scope, the list for frames, the message handler, then f. */
static int protected(lua_State *L) {
  luaL_checkany(L, 1);
  int nargs = lua_gettop(L) - 1;
  td_lua_scope_save(L);
  lua_createtable(L, 1, 0); /* for the frames */
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, note_frames, 1);
  lua_rotate(L, 1, 4);
  int rc = lua_pcall(L, nargs, LUA_MULTRET, 4);
  td_line *l = td_line_current();
  bool was = l && td_line_forget(l);
  if (was) td_child_interrupt();
  lua_pushboolean(L, rc == LUA_OK);
  lua_replace(L, 4);
  if (rc == LUA_OK) return lua_gettop(L) - 3;
  td_lua_scope_restore(L, 1);
  if (rc == LUA_ERRRUN)
    lua_rawgeti(L, 3, 1);
  else
    lua_createtable(L, 0, 0); /* no memory: the message alone */
  lua_pushboolean(L, was);
  return 4;
}

/* ---- words ---- */

static int words(lua_State *L) {
  size_t len, at = 0;
  const char *text = luaL_checklstring(L, 1, &len);
  lua_createtable(L, 48, 0);
  for (lua_Integer n = 0;; n += 3) {
    td_word w = td_lexer_next(text, len, at);
    if (w.kind == TD_WORD_END) return 1;
    lua_pushstring(L, td_lexer_kind_name(w.kind));
    lua_rawseti(L, 2, n + 1);
    lua_pushinteger(L, (lua_Integer)w.start + 1);
    lua_rawseti(L, 2, n + 2);
    lua_pushinteger(L, (lua_Integer)(w.start + w.len));
    lua_rawseti(L, 2, n + 3);
    at = w.start + w.len;
  }
}

/* The kind is "end" behind the last one. */
static int word(lua_State *L) {
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  lua_Integer at = luaL_checkinteger(L, 2);
  luaL_argcheck(L, at >= 1, 2, "bytes are counted from 1");
  td_word w = td_lexer_next(text, len, (size_t)at > len ? len : (size_t)at - 1);
  lua_pushstring(L, td_lexer_kind_name(w.kind));
  lua_pushinteger(L, (lua_Integer)w.start + 1);
  lua_pushinteger(L, (lua_Integer)(w.start + w.len));
  return 3;
}

static int line(lua_State *L) {
  td_line *l = td_line_current();
  lua_pushstring(L, l ? td_line_name(l) : "");
  return 1;
}

static int interrupted(lua_State *L) {
  td_line *l = td_line_current();
  lua_pushboolean(L, l && td_line_interrupted(l));
  return 1;
}

static const luaL_Reg functions[] = {{"publish", publish},
                                     {"metadata", metadata},
                                     {"buffer", buffer},
                                     {"input", input},
                                     {"protected", protected},
                                     {"words", words},
                                     {"word", word},
                                     {"line", line},
                                     {"interrupted", interrupted},
                                     {"execute", td_child_execute},
                                     {"popen", td_child_popen},
                                     {"capture", td_capture_start},
                                     {"debug", td_debug_set},
                                     {"pause", td_debug_pause},
                                     {"resume", td_debug_resume},
                                     {NULL, NULL}};

static int open_frontend(lua_State *L) {
  const td_frontend *f = lua_touserdata(L, lua_upvalueindex(1));
  luaL_newlib(L, functions);
  lua_pushstring(L, f ? f->kind : "script");
  lua_setfield(L, -2, "kind");
  return 1;
}

void td_frontend_open(lua_State *L, const td_frontend *f) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushlightuserdata(L, (void *)(uintptr_t)f);
  lua_pushcclosure(L, open_frontend, 1);
  lua_setfield(L, -2, "tide.frontend");
  lua_pop(L, 1);
}
