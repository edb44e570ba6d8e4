/* bind_object.c - userdata: made, given methods, named in messages.
 *
 * Making one may raise for want of memory, which would leak what C still holds:
 * so it is made in a protected call, and what it is to hold goes in after.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/nearest.h"
#include "lua/bind.h"

void *td_lua_block(lua_State *L, size_t n, size_t size) {
  size_t bytes = 0;
  if (!td_mul(n, size, &bytes)) luaL_error(L, "out of memory");
  void *p = lua_newuserdatauv(L, bytes ? bytes : 1, 0);
  memset(p, 0, bytes);
  return p;
}

/* ---- pushing what C holds: what may raise runs protected ---- */

typedef struct object_call {
  const char *type;
  size_t size;
  int uservalues;
} object_call;

static int make_object(lua_State *L) {
  const object_call *c = lua_touserdata(L, 1);
  void *p = lua_newuserdatauv(L, c->size, c->uservalues);
  memset(p, 0, c->size);
  luaL_setmetatable(L, c->type);
  return 1;
}

bool td_lua_try_object(lua_State *L, const char *type, size_t size,
                       int uservalues) {
  object_call c = {type, size, uservalues};
  lua_pushcfunction(L, make_object);
  lua_pushlightuserdata(L, &c);
  return lua_pcall(L, 1, 1, 0) == LUA_OK;
}

void td_lua_make_class(lua_State *L, const char *name, lua_CFunction gc,
                       const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  lua_pushcfunction(L, gc);
  lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

void td_lua_set_close(lua_State *L, const char *name, lua_CFunction close) {
  luaL_getmetatable(L, name);
  lua_pushcfunction(L, close);
  lua_setfield(L, -2, "__close");
  lua_pop(L, 1);
}

static int make_string(lua_State *L) {
  const td_bytes *b = lua_touserdata(L, 1);
  lua_pushlstring(L, b->at, b->len);
  return 1;
}

static bool try_string(lua_State *L, const char *at, size_t len) {
  td_bytes b = {at, len};
  lua_pushcfunction(L, make_string);
  lua_pushlightuserdata(L, &b);
  return lua_pcall(L, 1, 1, 0) == LUA_OK;
}

void td_lua_push_str(lua_State *L, td_str *s) {
  bool ok = try_string(L, td_str_c(s), s->len);
  td_str_deinit(s);
  if (!ok) lua_error(L);
}

void td_lua_push_bytes(lua_State *L, char *bytes, size_t len) {
  bool ok = try_string(L, bytes, len);
  td_free(bytes);
  if (!ok) lua_error(L);
}

/* ---- what is at an index of the stack ---- */

static const char *kind_of(lua_State *L, int i) {
  static const char *const types[] = {TD_LUA_TENSOR, TD_LUA_EDGE, TD_LUA_OP,
                                      TD_LUA_GRAPH, TD_LUA_SESSION};
  for (size_t k = 0; lua_isuserdata(L, i) && k < TD_COUNT(types); k++)
    if (luaL_testudata(L, i, types[k])) return types[k] + 5;
  return NULL;
}

const char *td_lua_what(lua_State *L, int i) {
  const char *kind = kind_of(L, i);
  if (!kind) { /* an object of the library may say what it is */
    kind = luaL_getmetafield(L, i, "__name") == LUA_TSTRING
               ? lua_tostring(L, -1)
               : luaL_typename(L, i);
    return kind;
  }
  return strcmp(kind, "edge") ? kind : "graph tensor";
}

/* core.kind(x): "tensor", "edge", "op", "graph", "session", ... or nil. */
static int core_kind(lua_State *L) {
  lua_pushstring(L, kind_of(L, 1));
  return 1;
}

const char *td_lua_text(lua_State *L, int i) {
  size_t len;
  if (lua_type(L, i) != LUA_TSTRING)
    td_lua_error(L, TD_INVALID_ARGUMENT, "expected a string, given %s",
                 td_lua_what(L, i));
  const char *s = lua_tolstring(L, i, &len);
  if (strlen(s) != len)
    td_lua_error(L, TD_INVALID_ARGUMENT,
                 "a zero byte is in the name \"%s\\0...\": names are text", s);
  return s;
}

/* ---- methods and fields ---- */

static const char methods_key = 0;

/* core.set_methods(type, table): what t.name finds on "tensor", "edge", ... */
static int set_methods(lua_State *L) {
  lua_pushfstring(L, "tide.%s", luaL_checkstring(L, 1));
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &methods_key);
  lua_insert(L, -2);
  lua_pushvalue(L, 2);
  lua_rawset(L, -3);
  return 0;
}

bool td_lua_method(lua_State *L, const char *type, int key) {
  key = lua_absindex(L, key);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &methods_key);
  lua_getfield(L, -1, type);
  lua_remove(L, -2);
  if (lua_istable(L, -1)) {
    lua_pushvalue(L, key);
    lua_gettable(L, -2);
    lua_remove(L, -2);
    if (!lua_isnil(L, -1)) return true;
  }
  lua_pop(L, 1);
  return false;
}

bool td_lua_identifier(const char *s) {
  if (!isalpha((unsigned char)*s) && *s != '_') return false;
  while (*++s)
    if (!isalnum((unsigned char)*s) && *s != '_') return false;
  return true;
}

int td_lua_no_field(lua_State *L, const char *type, const char *key,
                    const char *const *fields) {
  td_nearest near = td_nearest_to(key);
  for (; fields && *fields; fields++) td_nearest_try(&near, *fields);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &methods_key);
  if (lua_getfield(L, -1, type) == LUA_TTABLE) {
    lua_pushnil(L);
    while (lua_next(L, -2)) {
      if (lua_type(L, -2) == LUA_TSTRING)
        td_nearest_try(&near, lua_tostring(L, -2));
      lua_pop(L, 1);
    }
  }
  if (near.best)
    return td_lua_error(L, TD_INVALID_ARGUMENT,
                        "no field or method \"%s\" on a %s; did you mean "
                        "\"%s\"?",
                        key, type + 5, near.best);
  return td_lua_error(L, TD_INVALID_ARGUMENT,
                      "no field or method \"%s\" on a %s", key, type + 5);
}

/* core.nearest(word, list): the most similar of the list, or nil. */
static int core_nearest(lua_State *L) {
  td_nearest near = td_nearest_to(luaL_checkstring(L, 1));
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer n = luaL_len(L, 2);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, i); /* the list keeps the string alive */
    if (lua_type(L, -1) == LUA_TSTRING)
      td_nearest_try(&near, lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  lua_pushstring(L, near.best);
  return 1;
}

TD_LUA_OPEN(object) {
  static const luaL_Reg functions[] = {{"kind", core_kind},
                                       {"nearest", core_nearest},
                                       {"set_methods", set_methods},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &methods_key);
}
