/* bind_npz.c - .npz archives, an array at a time.
 *
 * The interpreter is let go of while a file is read or written; `busy` keeps
 * other lines of evaluation from the same file meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/npz.h"
#include "engine/io/npz_writer.h"
#include "lua/bind.h"
#include "lua/bind_busy.h"
#include "lua/bind_field.h"
#include "lua/bind_read.h"
#include "lua/bind_shape.h"
#include "lua/bind_tensor.h"

#define TD_LUA_NPZ "tide.npz"
#define TD_LUA_NPZ_WRITER "tide.npz_writer"

static const size_t array_limit = (size_t)1 << 40;

static void check_usable(lua_State *L, int busy, bool open) {
  td_lua_busy_check(L, busy, "archive");
  if (!open) td_lua_error(L, TD_FAILED_PRECONDITION, "this archive is closed");
}

/* ---- reading ------------------------------------------------------------- */

typedef struct lua_npz {
  td_npz *z; /* NULL once closed */
  int busy;
} lua_npz;

static lua_npz *to_npz(lua_State *L) {
  lua_npz *u = luaL_checkudata(L, 1, TD_LUA_NPZ);
  check_usable(L, u->busy, u->z != NULL);
  return u;
}

static int npz_close(lua_State *L) {
  lua_npz *u = luaL_checkudata(L, 1, TD_LUA_NPZ);
  check_usable(L, u->busy, true);
  td_npz_close(u->z);
  u->z = NULL;
  return 0;
}

/* core.npz(path) */
static int new_npz(lua_State *L) {
  const char *path = td_lua_text(L, 1);
  if (!td_lua_try_object(L, TD_LUA_NPZ, sizeof(lua_npz), 0))
    return lua_error(L);
  lua_npz *u = lua_touserdata(L, -1);
  td_lua_read r = {.limit = array_limit};
  td_lua_read_file(L, path, td_lua_read_archive, &r);
  u->z = r.archive;
  return 1;
}

/* z:list() -> list of {name =, dtype =, shape =, bytes =} as they stand in it
 */
static int npz_list(lua_State *L) {
  lua_npz *u = to_npz(L);
  size_t n = td_npz_count(u->z);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    td_dtype dtype;
    td_shape shape;
    td_lua_check(L, td_npz_describe(u->z, i, &dtype, &shape));
    lua_createtable(L, 0, 4);
    td_lua_set_string(L, "name", td_npz_name(u->z, i));
    td_lua_set_string(L, "dtype", td_dtype_name(dtype));
    td_lua_push_shape(L, &shape);
    lua_setfield(L, -2, "shape");
    td_lua_set_integer(
        L, "bytes",
        (lua_Integer)((uint64_t)td_shape_count(&shape) * td_dtype_size(dtype)));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* z:read(name) -> value */
static int npz_read(lua_State *L) {
  lua_npz *u = to_npz(L);
  const char *name = td_lua_text(L, 2);
  td_tensor *t = td_lua_tensors(L, 1);
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_npz_read(u->z, name, t);
  td_lua_busy_end(st, &u->busy);
  td_lua_check(L, s);
  td_lua_push_tensor(L, t);
  return 1;
}

/* ---- writing ------------------------------------------------------------- */

typedef struct lua_npz_writer {
  td_npz_writer *w; /* NULL once closed */
  int busy;
} lua_npz_writer;

static lua_npz_writer *to_writer(lua_State *L) {
  lua_npz_writer *u = luaL_checkudata(L, 1, TD_LUA_NPZ_WRITER);
  check_usable(L, u->busy, u->w != NULL);
  return u;
}

/* core.npz_writer(path [, deflate]) */
static int new_writer(lua_State *L) {
  const char *path = td_lua_text(L, 1);
  bool deflate = lua_toboolean(L, 2);
  if (!td_lua_try_object(L, TD_LUA_NPZ_WRITER, sizeof(lua_npz_writer), 0))
    return lua_error(L);
  lua_npz_writer *u = lua_touserdata(L, -1);
  td_lua_check(L, td_npz_writer_open(path, deflate, &u->w));
  return 1;
}

/* w:add(name, value) */
static int writer_add(lua_State *L) {
  lua_npz_writer *u = to_writer(L);
  const char *name = td_lua_text(L, 2);
  const td_tensor *t = td_lua_check_value(L, 3); /* stays on the stack */
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_npz_writer_add(u->w, name, t);
  td_lua_busy_end(st, &u->busy);
  td_lua_check(L, s);
  return 0;
}

/* w:commit(): now it is there, and outlives a crash. */
static int writer_commit(lua_State *L) {
  lua_npz_writer *u = to_writer(L);
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_npz_writer_commit(u->w);
  td_lua_busy_end(st, &u->busy);
  td_lua_check(L, s);
  return 0;
}

/* w:close(): what was not committed is gone. */
static int writer_close(lua_State *L) {
  lua_npz_writer *u = luaL_checkudata(L, 1, TD_LUA_NPZ_WRITER);
  check_usable(L, u->busy, true);
  td_npz_writer_close(u->w);
  u->w = NULL;
  return 0;
}

TD_LUA_OPEN(npz) {
  static const luaL_Reg npz[] = {{"list", npz_list},
                                 {"read", npz_read},
                                 {"close", npz_close},
                                 {NULL, NULL}};
  static const luaL_Reg writer[] = {{"add", writer_add},
                                    {"commit", writer_commit},
                                    {"close", writer_close},
                                    {NULL, NULL}};
  static const luaL_Reg functions[] = {
      {"npz", new_npz}, {"npz_writer", new_writer}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  td_lua_make_class(L, TD_LUA_NPZ, npz_close, npz);
  td_lua_make_class(L, TD_LUA_NPZ_WRITER, writer_close, writer);
  td_lua_set_close(L, TD_LUA_NPZ, npz_close);
  td_lua_set_close(L, TD_LUA_NPZ_WRITER, writer_close);
}
