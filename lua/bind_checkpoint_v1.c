/* bind_checkpoint_v1.c - checkpoints of version 1: what is in one, its tensors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/io/checkpoint_v1.h"
#include "lua/bind.h"
#include "lua/bind_field.h"
#include "lua/bind_shape.h"
#include "lua/bind_tensor.h"

#define TD_LUA_CHECKPOINT_V1 "tide.checkpoint_v1"

typedef struct lua_checkpoint_v1 {
  td_checkpoint_v1 *c; /* NULL once closed */
  int busy;            /* how many lines read from it */
} lua_checkpoint_v1;

static lua_checkpoint_v1 *to_checkpoint(lua_State *L) {
  lua_checkpoint_v1 *u = luaL_checkudata(L, 1, TD_LUA_CHECKPOINT_V1);
  if (!u->c)
    td_lua_error(L, TD_FAILED_PRECONDITION, "this checkpoint is closed");
  return u;
}

static int checkpoint_close(lua_State *L) {
  lua_checkpoint_v1 *u = luaL_checkudata(L, 1, TD_LUA_CHECKPOINT_V1);
  if (u->busy)
    td_lua_error(L, TD_FAILED_PRECONDITION,
                 "the checkpoint is in use by another line of evaluation");
  td_checkpoint_v1_close(u->c);
  u->c = NULL;
  return 0;
}

/* core.checkpoint_v1(path) */
static int new_checkpoint(lua_State *L) {
  const char *path = td_lua_text(L, 1);
  if (!td_lua_try_object(L, TD_LUA_CHECKPOINT_V1, sizeof(lua_checkpoint_v1), 0))
    return lua_error(L);
  lua_checkpoint_v1 *u = lua_touserdata(L, -1);
  td_lua_state *st = td_lua_get(L);
  u->busy++;
  td_lua_unlock(st);
  td_status *s = td_checkpoint_v1_open(path, &u->c);
  td_lua_lock(st);
  u->busy--;
  td_lua_check(L, s);
  return 1;
}

/* c:list() -> list of {name =, dtype =, shape =, bytes =} by name; bytes of
 * strings are those of their offsets */
static int checkpoint_list(lua_State *L) {
  lua_checkpoint_v1 *u = to_checkpoint(L);
  size_t n = td_checkpoint_v1_count(u->c);
  const char *last = NULL;
  lua_Integer listed = 0;
  lua_newtable(L);
  for (size_t i = 0; i < n; i++) {
    td_checkpoint_entry e;
    const char *name = td_checkpoint_v1_name(u->c, i);
    if (last && !strcmp(last, name)) continue; /* in more than one file */
    last = name;
    if (!td_checkpoint_v1_find(u->c, name, &e)) continue;
    lua_createtable(L, 0, 4);
    td_lua_set_string(L, "name", name);
    td_lua_set_string(L, "dtype", td_dtype_name(e.dtype));
    td_lua_push_shape(L, &e.shape);
    lua_setfield(L, -2, "shape");
    td_lua_set_integer(L, "bytes",
                       (lua_Integer)((uint64_t)td_shape_count(&e.shape) *
                                     td_dtype_size(e.dtype)));
    lua_rawseti(L, -2, ++listed);
  }
  return 1;
}

/* c:read(name) -> value */
static int checkpoint_read(lua_State *L) {
  lua_checkpoint_v1 *u = to_checkpoint(L);
  const char *name = td_lua_text(L, 2);
  td_checkpoint_entry e;
  if (!td_checkpoint_v1_find(u->c, name, &e))
    return td_lua_error(L, TD_NOT_FOUND, "the checkpoint has no tensor \"%s\"",
                        name);
  td_tensor *t = td_lua_tensors(L, 1);
  td_lua_state *st = td_lua_get(L);
  u->busy++;
  td_lua_unlock(st);
  td_status *s = td_checkpoint_v1_read(u->c, &e, NULL, t);
  td_lua_lock(st);
  u->busy--;
  td_lua_check(L, s);
  td_lua_push_tensor(L, t);
  return 1;
}

TD_LUA_OPEN(checkpoint_v1) {
  static const luaL_Reg checkpoint[] = {{"list", checkpoint_list},
                                        {"read", checkpoint_read},
                                        {"close", checkpoint_close},
                                        {NULL, NULL}};
  static const luaL_Reg functions[] = {{"checkpoint_v1", new_checkpoint},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  td_lua_make_class(L, TD_LUA_CHECKPOINT_V1, checkpoint_close, checkpoint);
  td_lua_set_close(L, TD_LUA_CHECKPOINT_V1, checkpoint_close);
}
