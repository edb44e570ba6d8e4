/* bind_shape.c - shapes and dtypes, from and to Lua.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_shape.h"

#include "engine/base/nearest.h"
#include "lua/bind.h"

/* ---- shapes ---- */

/* A shape is an empty table in front of the list of its sizes, so that writing
 * to it meets __newindex. */
static const char shape_meta_key = 0, shape_list_key = 0;

void td_lua_list(lua_State *L, int i) {
  if (!lua_istable(L, i) || lua_rawlen(L, i)) return;
  i = lua_absindex(L, i);
  if (lua_rawgetp(L, i, &shape_list_key) == LUA_TTABLE)
    lua_replace(L, i);
  else
    lua_pop(L, 1);
}

/* core.shape_list(shape): its plain list; another table as it is. */
static int core_shape_list(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  td_lua_list(L, 1);
  return 1;
}

/* core.shape_of(list): the list as a shape, which takes it. */
static int core_shape_of(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, 1);
  lua_rawsetp(L, -2, &shape_list_key);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &shape_meta_key);
  lua_setmetatable(L, -2);
  return 1;
}

/* core.set_shape_meta(metatable): what shape lists carry. */
static int set_shape_meta(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &shape_meta_key);
  return 0;
}

void td_lua_push_shape(lua_State *L, const td_shape *s) {
  if (s->rank < 0) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, 0, 1);
  lua_createtable(L, s->rank, 0);
  for (int i = 0; i < s->rank; i++) {
    lua_pushinteger(L, s->dim[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_rawsetp(L, -2, &shape_list_key);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &shape_meta_key) == LUA_TTABLE)
    lua_setmetatable(L, -2);
  else
    lua_pop(L, 1);
}

static td_status *read_sizes(lua_State *L, int i, td_shape *out) {
  int64_t n = (int64_t)lua_rawlen(L, i);
  if (n > TD_MAX_RANK)
    return td_error(TD_INVALID_ARGUMENT, "rank %lld is over %d", (long long)n,
                    TD_MAX_RANK);
  *out = td_shape_of((int)n, (int64_t[TD_MAX_RANK]){0});
  for (int64_t k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    int is_int;
    int64_t v = lua_tointegerx(L, -1, &is_int);
    char text[32];
    if (lua_type(L, -1) == LUA_TNUMBER)
      snprintf(text, sizeof text, "%.14g", (double)lua_tonumber(L, -1));
    else
      snprintf(text, sizeof text, "%s", td_lua_what(L, -1));
    lua_pop(L, 1);
    if (!is_int || v < -1)
      return td_error(TD_INVALID_ARGUMENT,
                      "size %lld of a shape must be a whole number, or -1 for "
                      "one that is not known; given %s",
                      (long long)k + 1, text);
    out->dim[k] = v;
  }
  return NULL;
}

td_status *td_lua_to_shape(lua_State *L, int i, td_shape *out) {
  i = lua_absindex(L, i);
  if (lua_isnoneornil(L, i)) {
    *out = td_shape_unknown();
    return NULL;
  }
  if (!lua_istable(L, i))
    return td_error(TD_INVALID_ARGUMENT,
                    "a shape is a list of sizes such as {2, -1}, not %s",
                    luaL_typename(L, i));
  lua_pushvalue(L, i);
  td_lua_list(L, -1);
  td_status *s = read_sizes(L, lua_gettop(L), out);
  lua_pop(L, 1);
  return s;
}

/* ---- dtypes ---- */

/* What other languages call them. */
static const char *const dtypes_elsewhere[][2] = {
    {"int", "int32"},   {"integer", "int32"}, {"long", "int64"},
    {"short", "int16"}, {"byte", "uint8"},    {"char", "int8"},
    {"uint", "uint32"}, {"boolean", "bool"},  {"str", "string"},
    {"text", "string"}, {"number", "float32"}};

/* The error for a string that is no dtype, with the one that is meant. */
static td_status *no_dtype(const char *name) {
  td_nearest near = td_nearest_to(name);
  for (int t = 1; t < TD_DTYPES; t++)
    td_nearest_try(&near, td_dtype_name((td_dtype)t));
  for (size_t i = 0; i < TD_COUNT(dtypes_elsewhere); i++)
    if (!strcmp(name, dtypes_elsewhere[i][0]))
      near.best = dtypes_elsewhere[i][1];
  return td_error(TD_INVALID_ARGUMENT, "there is no dtype \"%s\"; %s \"%s\"%s",
                  name, near.best ? "did you mean" : "one is",
                  near.best ? near.best : "float32", near.best ? "?" : "");
}

td_status *td_lua_to_dtype(lua_State *L, int i, td_dtype *out) {
  size_t len = 0;
  const char *name =
      lua_type(L, i) == LUA_TSTRING ? lua_tolstring(L, i, &len) : NULL;
  *out = name ? td_dtype_parse(name, len) : TD_INVALID;
  if (*out != TD_INVALID) return NULL;
  if (name) return no_dtype(name);
  return td_error(TD_INVALID_ARGUMENT,
                  "a dtype is a string such as \"float32\", not %s",
                  luaL_typename(L, i));
}

TD_LUA_OPEN(shape) {
  static const luaL_Reg functions[] = {{"set_shape_meta", set_shape_meta},
                                       {"shape_list", core_shape_list},
                                       {"shape_of", core_shape_of},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
