/* bind_safetensors.c - .safetensors files: what is in one, its tensors, writing
 * one tensor by tensor.
 *
 * The interpreter is let go of while a file is read or written; `busy` keeps
 * other lines of evaluation from the same file meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/safetensors.h"
#include "engine/io/safetensors_writer.h"
#include "lua/bind.h"
#include "lua/bind_busy.h"
#include "lua/bind_field.h"
#include "lua/bind_shape.h"
#include "lua/bind_tensor.h"

#define TD_LUA_SAFETENSORS "tide.safetensors"
#define TD_LUA_SAFETENSORS_WRITER "tide.safetensors_writer"

static void check_usable(lua_State *L, int busy, bool open) {
  td_lua_busy_check(L, busy, "file");
  if (!open) td_lua_error(L, TD_FAILED_PRECONDITION, "this file is closed");
}

/* ---- reading ------------------------------------------------------------- */

typedef struct lua_safetensors {
  td_safetensors *f; /* NULL once closed */
  int busy;
} lua_safetensors;

static lua_safetensors *to_file(lua_State *L) {
  lua_safetensors *u = luaL_checkudata(L, 1, TD_LUA_SAFETENSORS);
  check_usable(L, u->busy, u->f != NULL);
  return u;
}

static int file_close(lua_State *L) {
  lua_safetensors *u = luaL_checkudata(L, 1, TD_LUA_SAFETENSORS);
  check_usable(L, u->busy, true);
  td_safetensors_close(u->f);
  u->f = NULL;
  return 0;
}

/* core.safetensors(path) */
static int new_file(lua_State *L) {
  const char *path = td_lua_text(L, 1);
  if (!td_lua_try_object(L, TD_LUA_SAFETENSORS, sizeof(lua_safetensors), 0))
    return lua_error(L);
  lua_safetensors *u = lua_touserdata(L, -1);
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_safetensors_open(path, &u->f);
  td_lua_busy_end(st, &u->busy);
  td_lua_check(L, s);
  return 1;
}

/* f:list() -> list of {name =, dtype = (nil: none that there is here), kind =
 * (the format's name of it), shape =, bytes =} by name */
static int file_list(lua_State *L) {
  lua_safetensors *u = to_file(L);
  size_t n = td_safetensors_count(u->f);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    td_safetensors_entry e;
    td_safetensors_at(u->f, i, &e);
    lua_createtable(L, 0, 5);
    td_lua_set_string(L, "name", e.name);
    td_lua_set_string(L, "kind", e.kind);
    td_lua_set_string(L, "dtype", e.dtype ? td_dtype_name(e.dtype) : NULL);
    td_lua_push_shape(L, &e.shape);
    lua_setfield(L, -2, "shape");
    td_lua_set_integer(L, "bytes", (lua_Integer)e.size);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* f:metadata() -> {key = text} */
static int file_metadata(lua_State *L) {
  lua_safetensors *u = to_file(L);
  td_safetensors_pair p = {0};
  lua_newtable(L);
  while (td_safetensors_next_pair(u->f, &p))
    td_lua_set_string(L, p.key, p.value);
  return 1;
}

/* f:read(name [, mapped]) -> value; mapped: a view of the file where it can be
 * one */
static int file_read(lua_State *L) {
  lua_safetensors *u = to_file(L);
  const char *name = td_lua_text(L, 2);
  bool mapped = lua_toboolean(L, 3);
  td_tensor *t = td_lua_tensors(L, 1);
  size_t i;
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_safetensors_find(u->f, name, &i);
  if (td_ok(s))
    s = mapped ? td_safetensors_map(u->f, i, t)
               : td_safetensors_read(u->f, i, t);
  td_lua_busy_end(st, &u->busy);
  td_lua_check(L, s);
  td_lua_push_tensor(L, t);
  return 1;
}

/* ---- writing ------------------------------------------------------------- */

typedef struct lua_safetensors_writer {
  td_safetensors_writer *w; /* NULL once closed */
  size_t n;                 /* tensors */
  int busy;
} lua_safetensors_writer;

static lua_safetensors_writer *to_writer(lua_State *L) {
  lua_safetensors_writer *u = luaL_checkudata(L, 1, TD_LUA_SAFETENSORS_WRITER);
  check_usable(L, u->busy, u->w != NULL);
  return u;
}

/* The list at `i` of {name =, dtype =, shape =}, which holds the names. */
static td_safetensors_spec *to_specs(lua_State *L, int i, size_t *n) {
  luaL_checktype(L, i, LUA_TTABLE);
  *n = lua_rawlen(L, i);
  td_safetensors_spec *specs = td_lua_block(L, *n, sizeof *specs);
  for (size_t k = 0; k < *n; k++) {
    lua_rawgeti(L, i, (lua_Integer)k + 1);
    lua_getfield(L, -1, "name");
    specs[k].name = td_lua_text(L, -1);
    lua_getfield(L, -2, "dtype");
    td_lua_check(L, td_lua_to_dtype(L, -1, &specs[k].dtype));
    lua_getfield(L, -3, "shape");
    td_lua_list(L, lua_gettop(L));
    td_lua_check(L, td_lua_to_shape(L, -1, &specs[k].shape));
    lua_pop(L, 4);
  }
  return specs;
}

/* The list at `i` of {key, text}. */
static td_safetensors_pair *to_pairs(lua_State *L, int i, size_t *n) {
  luaL_checktype(L, i, LUA_TTABLE);
  *n = lua_rawlen(L, i);
  td_safetensors_pair *pairs = td_lua_block(L, *n, sizeof *pairs);
  for (size_t k = 0; k < *n; k++) {
    lua_rawgeti(L, i, (lua_Integer)k + 1);
    lua_rawgeti(L, -1, 1);
    pairs[k].key = td_lua_text(L, -1);
    lua_rawgeti(L, -2, 2);
    pairs[k].value = td_lua_text(L, -1);
    lua_pop(L, 3);
  }
  return pairs;
}

/* core.safetensors_writer(path, specs, metadata) */
static int new_writer(lua_State *L) {
  const char *path = td_lua_text(L, 1);
  size_t n, n_pairs;
  td_safetensors_spec *specs = to_specs(L, 2, &n);
  td_safetensors_pair *pairs = to_pairs(L, 3, &n_pairs);
  if (!td_lua_try_object(L, TD_LUA_SAFETENSORS_WRITER,
                         sizeof(lua_safetensors_writer), 0))
    return lua_error(L);
  lua_safetensors_writer *u = lua_touserdata(L, -1);
  u->n = n;
  td_lua_check(
      L, td_safetensors_writer_open(path, specs, n, pairs, n_pairs, &u->w));
  return 1;
}

/* w:next() -> which of the specs is to be added next; nil: all are there */
static int writer_next(lua_State *L) {
  lua_safetensors_writer *u = to_writer(L);
  size_t i = td_safetensors_writer_next(u->w);
  if (i == u->n) return 0;
  lua_pushinteger(L, (lua_Integer)i + 1);
  return 1;
}

/* w:add(value) */
static int writer_add(lua_State *L) {
  lua_safetensors_writer *u = to_writer(L);
  const td_tensor *t = td_lua_check_value(L, 2); /* stays on the stack */
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_safetensors_writer_add(u->w, t);
  td_lua_busy_end(st, &u->busy);
  td_lua_check(L, s);
  return 0;
}

/* w:commit(): now it is there, and outlives a crash. */
static int writer_commit(lua_State *L) {
  lua_safetensors_writer *u = to_writer(L);
  td_lua_state *st = td_lua_busy_begin(L, &u->busy);
  td_status *s = td_safetensors_writer_commit(u->w);
  td_lua_busy_end(st, &u->busy);
  td_lua_check(L, s);
  return 0;
}

/* w:close(): what was not committed is gone. */
static int writer_close(lua_State *L) {
  lua_safetensors_writer *u = luaL_checkudata(L, 1, TD_LUA_SAFETENSORS_WRITER);
  check_usable(L, u->busy, true);
  td_safetensors_writer_close(u->w);
  u->w = NULL;
  return 0;
}

TD_LUA_OPEN(safetensors) {
  static const luaL_Reg file[] = {{"list", file_list},
                                  {"metadata", file_metadata},
                                  {"read", file_read},
                                  {"close", file_close},
                                  {NULL, NULL}};
  static const luaL_Reg writer[] = {{"next", writer_next},
                                    {"add", writer_add},
                                    {"commit", writer_commit},
                                    {"close", writer_close},
                                    {NULL, NULL}};
  static const luaL_Reg functions[] = {{"safetensors", new_file},
                                       {"safetensors_writer", new_writer},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  td_lua_make_class(L, TD_LUA_SAFETENSORS, file_close, file);
  td_lua_make_class(L, TD_LUA_SAFETENSORS_WRITER, writer_close, writer);
  td_lua_set_close(L, TD_LUA_SAFETENSORS, file_close);
  td_lua_set_close(L, TD_LUA_SAFETENSORS_WRITER, writer_close);
}
