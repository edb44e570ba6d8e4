/* bind.c - opens the binding: module "tide.core" of C functions, then the
 * library in Lua, which is embedded.
 *
 * The files of the binding call each other in one direction: each only those
 * that stand before it here.
 *
 *   state field error object       an interpreter, its errors, its userdata
 *   shape tensor literal attr      values, from and to Lua
 *   handle edge graph region function scope   graphs, and where nodes are built
 *   args op                        an op called: computed, or a node more
 *   lua_op                         functions that a step calls
 *   far session step callable      running
 *   keys remote keep server        other processes
 *   files download data info show system   what the library needs beside
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/cpu.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"

/* Runs one embedded module with (name, core); TIDE_LUA=dir reads files, but for
 * what the build has made. */
static int load_module(lua_State *L) {
  const struct td_lua_file *f = lua_touserdata(L, lua_upvalueindex(1));
  const char *dir = getenv("TIDE_LUA");
  if (dir && *dir && strcmp(f->name, "tide.docs")) {
    lua_pushfstring(L, "%s/%s", dir, f->chunk + strlen("=[tide] "));
    size_t len;
    char *text;
    td_lua_check(L, td_file_read(lua_tostring(L, -1), 1 << 24, &text, &len));
    int rc = luaL_loadbufferx(L, text, len, f->chunk, "t");
    td_free(text);
    if (rc != LUA_OK) lua_error(L);
  } else if (luaL_loadbufferx(L, f->text, f->len, f->chunk, "t") != LUA_OK) {
    lua_error(L);
  }
  lua_pushstring(L, f->name);
  lua_getfield(L, LUA_REGISTRYINDEX, "tide.core");
  lua_call(L, 2, 1);
  return 1;
}

static int return_core(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "tide.core");
  return 1;
}

static void preload(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (const struct td_lua_file *f = td_lua_library; f->name; f++) {
    if (!strcmp(f->name, "tide")) continue;
    lua_pushlightuserdata(L, (void *)(uintptr_t)f);
    lua_pushcclosure(L, load_module, 1);
    lua_setfield(L, -2, f->name);
  }
  lua_pushcfunction(L, return_core);
  lua_setfield(L, -2, "tide.core");
  lua_pop(L, 1);
}

/* So that a library whose start was cut short is loaded anew. */
static void forget_modules(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (const struct td_lua_file *f = td_lua_library; f->name; f++) {
    lua_pushnil(L);
    lua_setfield(L, -2, f->name);
  }
  lua_pushnil(L);
  lua_setfield(L, -2, "tide.core");
  lua_pop(L, 1);
}

__attribute__((visibility("default"))) int luaopen_tide(lua_State *L);

int luaopen_tide(lua_State *L) {
  td_lua_state *st = td_lua_get(L);
  if (!st) st = td_lua_state_new(L);
  lua_newtable(L);
  for (int i = 0; td_lua_openers[i]; i++) td_lua_openers[i](L);
  lua_setfield(L, LUA_REGISTRYINDEX, "tide.core");
  td_lua_check(L, td_cpu_check());
  td_lua_check(L, td_op_check());
  if (!st->runtime) td_lua_check(L, td_runtime_new(NULL, &st->runtime));
  preload(L);
  for (const struct td_lua_file *f = td_lua_library; f->name; f++)
    if (!strcmp(f->name, "tide")) {
      lua_pushlightuserdata(L, (void *)(uintptr_t)f);
      lua_pushcclosure(L, load_module, 1);
      if (lua_pcall(L, 0, 1, 0) == LUA_OK) return 1;
      forget_modules(L);
      return lua_error(L);
    }
  return luaL_error(L, "the library has no module \"tide\"");
}
